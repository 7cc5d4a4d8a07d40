"""Scored suites for MCP servers and agents."""
