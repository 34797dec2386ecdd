"""That the benchmarks work; how fast things are is for `make bench` to say."""

import pytest

from librarian_pipeline_tests.benchmarks.__main__ import main


@pytest.mark.parametrize("name", ["bm25", "dense", "transcription", "updating", "serving"])
def test_a_benchmark_prints_its_ratios(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quick", "--only", name]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert len(rows) >= 3
