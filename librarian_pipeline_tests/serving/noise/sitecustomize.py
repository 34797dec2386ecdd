"""For servers under test: what prints on standard output must not get between the messages of the protocol."""

import sys
from typing import Any


class _Noise:
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name in ("pyarrow", "librarian_pipeline.serving.library", "simplemma"):
            print(f"importing {name}", flush=True)


sys.meta_path.insert(0, _Noise())  # type: ignore[arg-type]
