"""The MCP server: tools that find and read passages of the published index, for agents.

Nothing here reads a snapshot or loads a model before the first tool is called: clients wait for the handshake.
"""
