"""What is measured rather than asserted: each figure is a ratio against its reference, taken in the same run."""
