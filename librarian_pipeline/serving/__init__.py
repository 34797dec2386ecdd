"""What readers get of an archive: agents over MCP, people at the command line and in a browser, and programs."""
