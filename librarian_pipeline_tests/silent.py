"""For tests that don't look at progress."""


class Silent:
    def report(self, stage: str, item: str, done: float, total: float, unit: str) -> None:
        """Says nothing."""
