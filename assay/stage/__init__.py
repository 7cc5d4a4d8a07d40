"""Ladders: what to run next, and running it."""
