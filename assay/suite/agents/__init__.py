"""Where a trajectory comes from: a Python object, a command, a file."""
