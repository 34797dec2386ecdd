"""Several settings of one archive, derived and measured side by side."""
