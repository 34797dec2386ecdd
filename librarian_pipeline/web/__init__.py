"""The local web page: search, read and listen in a browser, on this machine alone."""
