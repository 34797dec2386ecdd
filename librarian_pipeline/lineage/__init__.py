"""Which asset depends on what, what went into each output, and what is out of date."""
