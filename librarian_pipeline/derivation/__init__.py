"""How each asset is derived, step by step, and the loop that brings an archive up to date."""
