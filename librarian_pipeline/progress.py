"""How long work tells how far it is: a stage, an item, and units done out of a total."""

import logging
import time
from typing import Protocol


class Progress(Protocol):
    """Receives the progress of one stage after another.

    `stage` is the asset's name, `item` the episode (empty for work over the whole archive), `done` and `total` are counts
    of `unit` ("s of audio", "texts", "queries"). `total` may be corrected while the work goes on.
    """

    def report(self, stage: str, item: str, done: float, total: float, unit: str) -> None: ...


class LogProgress:
    """Writes a line to a log at most every `every_s` seconds: for runs that nobody watches on a terminal."""

    def __init__(self, log: logging.Logger, every_s: float = 10.0) -> None:
        self._log = log
        self._every_s = every_s
        self._last = time.monotonic()

    def report(self, stage: str, item: str, done: float, total: float, unit: str) -> None:
        now = time.monotonic()
        if now - self._last >= self._every_s:
            self._last = now
            self._log.info("%s %s: %.0f of %.0f %s", stage, item, done, total, unit)
