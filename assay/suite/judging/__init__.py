"""Judges: someone else's opinion as a score. A reply that cannot be read is an error, never a number."""
