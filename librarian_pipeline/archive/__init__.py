"""Reads what people put into an archive's folders: layout, notes, published transcripts."""
