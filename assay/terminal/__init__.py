"""The only room that writes to the screen."""
