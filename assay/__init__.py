"""Put one task to coding agents, each sealed in its own container, and grade what they leave behind."""

__version__ = "0.1.0"
