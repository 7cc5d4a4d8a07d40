"""The story of one run, and the only room that writes in `runs/`."""
