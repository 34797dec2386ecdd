"""What people ask for is text, never a query language."""

OPERATORS = frozenset("+|-\"()'*~\\")
"""What the service's simple syntax, and Lucene's simple query parser behind it, takes for more than text."""
MAX_WORDS = 1_000
"""The service takes 1,024 clauses."""


def literal(query: str) -> str:
    """The query with every operator escaped, in one line: each word is looked for as it is written.

    Escaped rather than left out, so that the analyzers see what they saw in the passages: `C++`, `e-mail`.
    """
    escaped = "".join(f"\\{char}" if char in OPERATORS else char for char in query)
    return " ".join("".join(char if char.isprintable() else " " for char in escaped).split())


def has_words(query: str) -> bool:
    """Whether there is anything to look for: a query of signs alone would be taken for one of everything."""
    return any(char.isalnum() for char in query)
