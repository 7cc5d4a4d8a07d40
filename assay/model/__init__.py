"""Plain typed data: no I/O beyond reading its own file, no vendor's name, no engine."""
