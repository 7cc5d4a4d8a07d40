"""The agents of the registry: their entries, and their real CLIs in rehearsal."""
