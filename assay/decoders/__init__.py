"""One file per vendor stream: pure generators from lines to events and facts."""
