"""The Librarian pipeline: a podcast archive in, a measured and searchable index out."""
