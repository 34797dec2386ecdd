"""What people see of a passage: the words that matched, the part that matters, and where to listen to it."""
