"""The sample archive and its sources: scripts, gold queries, and the command that builds both.

Run ``python -m librarian_pipeline_tests.sample_archive --help``.
"""
