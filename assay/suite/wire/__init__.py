"""A small MCP client that shows what a server really did: stray output, exit code, stderr, HTTP status, raw errors."""
