"""Demonstrations: questions to an archive together with what they are expected to find, in `demos/*.toml`."""
