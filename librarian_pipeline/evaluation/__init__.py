"""How well each retrieval mode finds what the gold set asks for."""
