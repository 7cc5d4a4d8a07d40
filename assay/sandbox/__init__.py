"""The only room that talks to the Docker Engine."""
