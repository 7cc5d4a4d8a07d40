"""What is asked of an agent's trajectory: pure functions from what it did to a score."""
