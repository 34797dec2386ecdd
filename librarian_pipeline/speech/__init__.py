"""From an audio file to timed segments of text."""
