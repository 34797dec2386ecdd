"""Brings the episodes of a podcast feed into an archive's folders. The only room of the pipeline that goes online."""
