"""Made-up archives of any size, for tests and benchmarks of how the work grows: nothing in them was ever said.

Run ``python -m librarian_pipeline_tests.synthetic --help``.
"""

from librarian_pipeline_tests.synthetic.archive import write_archive, write_episode

__all__ = ["write_archive", "write_episode"]
