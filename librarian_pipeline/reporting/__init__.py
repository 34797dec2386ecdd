"""One page that tells how an archive is: figures, checks, history, episodes."""
