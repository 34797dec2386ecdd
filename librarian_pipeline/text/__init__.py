"""Tokens, lemmas and languages."""
