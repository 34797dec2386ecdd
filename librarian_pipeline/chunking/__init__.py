"""From segments and notes to addressable passages."""
