"""One small file per command; here rooms that do not know each other are brought together."""
