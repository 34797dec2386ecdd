"""The report of an archive, read back as a browser's parser does."""

import json
import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from librarian_pipeline.cli import main
from librarian_pipeline.derivation.updating import bring_up_to_date, in_this_process
from librarian_pipeline.lineage.planning import Planner, Scope
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.pipeline.small_archive import SENTENCES, add_notes, small_archive
from librarian_pipeline_tests.silent import Silent

HOSTILE = "</title><script src=http://evil.example/x.js>alert(1)</script><img src=x onerror=alert(2)> \" ' & \u202e"
VOID = {"meta"}
RUNS_OR_LOADS = {"script", "iframe", "object", "embed", "link", "img", "form", "base", "video", "audio", "source"}


class Page(HTMLParser):
    """Tags with their attributes, text, and what is nested wrongly."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.wrong: list[str] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        self.wrong += self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.wrong.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def derive(home: Path) -> None:
    workspace = Workspace.open(home)
    bring_up_to_date(workspace, Planner(Scope()), Silent(), in_this_process(workspace, Silent()))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = small_archive(tmp_path_factory.mktemp("report") / "home")
    shutil.rmtree(home / "audio")
    add_notes(home, "two", "An owl.", title=json.dumps(HOSTILE))
    gold = json.loads((home / "gold" / "gold_set.json").read_text())
    wordy = {**gold[0], "id": "q<i>", "query": SENTENCES[0]}
    (home / "gold" / "gold_set.json").write_text(json.dumps([*gold, wordy]))
    derive(home)
    return home


@pytest.fixture
def home(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "home"))


def report(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """What the command wrote, at the path that it printed."""
    monkeypatch.setattr(sys, "argv", ["librarian", "report", "--home", str(home)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    path = Path(capsys.readouterr().out.strip())
    assert path == home / "reports" / "index.html"
    return path.read_text(encoding="utf-8")


@pytest.fixture
def written(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    return report(home, monkeypatch, capsys)


def put_beside_scores(home: Path, **tables: list[dict[str, Any]]) -> None:
    """As if the step had written these tables too."""
    warehouse = Workspace.open(home).warehouse
    record = warehouse.committed("eval_scores")
    assert record is not None
    others = {name: warehouse.read(name).replace_schema_metadata() for name in record.beside}
    scores = warehouse.read("eval_scores").replace_schema_metadata()
    beside = {**others, **{name: pa.Table.from_pylist(rows) for name, rows in tables.items()}}
    warehouse.write("eval_scores", None, scores, recipe=record.recipe, inputs=record.inputs, beside=beside)


def test_the_page_is_well_formed_and_tells_its_language_and_policy(written: str) -> None:
    page = Page(written)
    assert page.wrong == []
    tags = [tag for tag, _ in page.tags]
    assert (tags.count("h1"), tags.count("main")) == (1, 1)
    assert ("html", {"lang": "en"}) in page.tags
    [policy] = [a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert str(policy).startswith("default-src 'none'")


def test_ids_are_used_once_and_what_refers_to_one_finds_it(written: str) -> None:
    attributes = [a for _, a in Page(written).tags]
    ids = [a["id"] for a in attributes if "id" in a]
    assert len(ids) == len(set(ids))
    referred = [str(a.get("href", "")).removeprefix("#") for a in attributes if "href" in a]
    referred += [name for a in attributes for name in str(a.get("aria-labelledby") or "").split()]
    assert set(referred) <= set(ids)


def test_nothing_runs_and_nothing_is_loaded(written: str) -> None:
    page = Page(written)
    assert {tag for tag, _ in page.tags} & RUNS_OR_LOADS == set()
    assert [a for _, a in page.tags if any(name.startswith("on") for name in a)] == []
    loaded = [a[name] for _, a in page.tags for name in ("href", "src", "srcset", "action", "data", "poster") if name in a]
    assert [value for value in loaded if not str(value).startswith("#")] == []
    [css] = re.findall(r"<style>(:root.*?|\n:root.*?)</style>", written, flags=re.DOTALL)
    assert "url(" not in css
    assert "@import" not in css


def test_hostile_text_is_text_and_cant_turn_the_reading_direction(written: str) -> None:
    page = Page(written)
    assert "<script src=http://evil.example/x.js>alert(1)</script>" in page.text
    assert "<script" not in written
    assert "\u202e" not in written
    addresses = re.findall(r"https?://[^\s\"'<>]*", re.sub(r'xmlns="[^"]*"', "", written))
    assert set(addresses) == {"http://evil.example/x.js&gt;alert(1)&lt;/script&gt;&lt;img"}


def test_every_figure_has_its_interval_and_number_of_queries(written: str, home: Path) -> None:
    text = Page(written).text
    for row in Workspace.open(home).warehouse.read("eval_scores").to_pylist():
        if row["slice"] == "all":
            assert f"{row['value']:.2f} {row['ci_low']:.2f} to {row['ci_high']:.2f}" in text
    assert "All 3 queries" in text
    assert "MRR by language, kind and split" in text


def test_the_gold_sets_offenders_are_listed(written: str) -> None:
    text = Page(written).text
    assert "1 of 3 paraphrases share more than 35%" in text
    assert "q<i> with one:t000" in text


def test_tables_can_be_scrolled_with_the_keyboard_and_say_what_they_are(written: str) -> None:
    page = Page(written)
    regions = [a for tag, a in page.tags if a.get("role") == "region"]
    tables = [tag for tag, _ in page.tags if tag == "table"]
    assert len(regions) >= len(tables) == len([tag for tag, _ in page.tags if tag == "caption"])
    assert all(a.get("tabindex") == "0" and a.get("aria-label") for a in regions)


def test_gates_tell_what_failed_and_which_queries_were_lost(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = [{"query_id": "q1", "old_rank": 1, "new_rank": 7, "first": "one:t001 <b>"}]
    rows = [
        {"gate": "paired", "passed": False, "severity": "error", "message": "5 lost", "details": lost},
        {"gate": "backstop", "passed": True, "severity": "error", "message": "no drop", "details": []},
    ]
    put_beside_scores(home, gates=rows)
    text = Page(report(home, monkeypatch, capsys)).text
    assert "1 of 2 passed" in text
    assert "paired failed 5 lost" in text
    assert "q1 1 7 one:t001 <b>" in text


def test_jump_ins_are_summed_up_by_mode(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    offsets = [5_000, -45_000, 200_000, None]
    put_beside_scores(home, jump_ins=[{"mode": "dense", "query_id": f"q{i}", "offset_ms": o} for i, o in enumerate(offsets)])
    assert "dense 3 0.33 0.67 0.67 +5 s" in Page(report(home, monkeypatch, capsys)).text


def test_what_is_out_of_date_and_which_snapshot_is_served_is_told(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "All outputs are up to date." in Page(report(home, monkeypatch, capsys)).text
    add_notes(home, "one", "Other words.")
    served = Workspace.open(home).snapshots.current_id()
    text = Page(report(home, monkeypatch, capsys)).text
    assert "notes[one] stale file changed" in text
    assert f"Published snapshot: {served}" in text


def test_an_archive_of_which_nothing_is_derived_has_a_report_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = small_archive(tmp_path / "new")
    page = Page(report(home, monkeypatch, capsys))
    assert page.wrong == []
    assert "Nothing has been measured yet" in page.text
    assert "never derived" in page.text
