"""What a person sees and does in Dagster's UI on an archive."""

import hashlib
import json
import re

import pytest
from playwright.sync_api import Locator, Page, expect

from librarian_pipeline.lineage.graph import NODES
from librarian_pipeline_tests.ui_server import PATIENCE_S, SPOKEN_EPISODE, Ui

MATERIALIZED = """
{ assetNodeOrError(assetKey: {path: ["notes"]}) { ... on AssetNode { assetMaterializations { runId partition } } } }
"""
BACK_TO_THE_AUDIO = [
    ("bm25_stem_index", ""),
    ("chunks", SPOKEN_EPISODE),
    ("transcripts", SPOKEN_EPISODE),
    ("audio", SPOKEN_EPISODE),
]


def open_page(page: Page, path: str) -> None:
    page.goto(path)
    expect(page.get_by_role("link", name="Lineage").first).to_be_visible()


def open_graph(page: Page) -> None:
    """The graph of all assets, its groups unfolded as a person does it: with Alt+E."""
    open_page(page, "/asset-groups")
    expect(page.locator("foreignObject").get_by_text("evaluation", exact=True)).to_be_visible()
    page.keyboard.press("Alt+KeyE")


def metadata(page: Page, key: str) -> Locator:
    """The row of a key in the table of a materialization's metadata."""
    return page.get_by_role("row").filter(has=page.get_by_role("cell", name=key, exact=True))


def inputs_shown(page: Page) -> dict[str, str]:
    """What the row tells, or, where that is long, the dialog that it opens."""
    row = metadata(page, "inputs")
    expect(row).to_contain_text(re.compile("}|Show JSON"))
    if "Show JSON" not in row.inner_text():
        return json_in(row)
    row.get_by_text("Show JSON").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("}")
    found = json_in(dialog)
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    return found


def json_in(shown: Locator) -> dict[str, str]:
    text = shown.inner_text()
    found: dict[str, str] = json.loads(text[text.index("{") : text.rindex("}") + 1])
    return found


def go_upstream(page: Page, asset: str, episode: str) -> None:
    """From an asset's overview to the one it names as its upstream, and there to the episode's partition, if it has one."""
    page.get_by_role("link", name=asset).first.click()
    expect(page).to_have_url(re.compile(f"/assets/{asset}$"))
    if episode:
        page.get_by_role("tab", name="Partitions").click()
        page.get_by_text(episode, exact=True).first.click()


def test_the_graph_shows_every_asset(page: Page) -> None:
    open_graph(page)
    for asset in NODES:
        expect(page.locator("foreignObject").get_by_text(asset, exact=True)).to_be_visible()


def test_the_page_of_the_scores_shows_their_table(page: Page) -> None:
    open_page(page, "/assets/eval_scores")
    table = metadata(page, "score table").get_by_role("table")
    expect(table.get_by_role("columnheader")).to_have_text(["Retrieval mode", "R@1", "R@3", "R@5", "MRR"])
    expect(table.get_by_role("row").filter(has_text="(default)")).to_have_text(
        re.compile(r"hybrid_cc \(default\)(\s*[01]\.\d\d){4}")
    )


def test_the_page_of_the_scores_shows_their_gates_and_what_became_of_them(page: Page) -> None:
    open_page(page, "/assets/eval_scores")
    page.get_by_role("tab", name="Checks").click()
    page.get_by_text("labels", exact=True).first.click()
    expect(page.get_by_text("Every judged span of the gold set is hit by at least one passage.")).to_be_visible()
    expect(page.get_by_text("Passed").first).to_be_visible()


def test_one_partition_materializes(page: Page, ui: Ui) -> None:
    open_page(page, "/assets/notes")
    page.get_by_role("button", name="Materialize…").click()
    dialog = page.get_by_role("dialog").filter(has_text="Launch runs to materialize notes")
    dialog.get_by_text("Select a partition or create one").click()
    page.get_by_role("menuitem", name="ep06").click()
    dialog.get_by_text("Launch runs to materialize notes").click()  # closes the list, which may cover the button
    expect(dialog).to_contain_text("1 partition")
    dialog.get_by_role("button", name="Launch 1 run").click()
    run = page.get_by_text(re.compile("Launched run [0-9a-f]{8}")).inner_text().split()[2]
    page.get_by_role("link", name="Runs").click()
    page.get_by_role("link", name=run).first.click()
    expect(page).to_have_url(re.compile(f"/runs/{run}"))
    expect(page.get_by_text("Success", exact=True).first).to_be_visible(timeout=PATIENCE_S * 1000)
    made = ui.ask(MATERIALIZED)["assetNodeOrError"]["assetMaterializations"]
    assert [event["partition"] for event in made if event["runId"].startswith(run)] == ["ep06"]


def test_a_score_leads_back_to_the_audio_by_clicks(page: Page, ui: Ui) -> None:
    open_page(page, "/assets/eval_scores")
    inputs = inputs_shown(page)
    for asset, episode in BACK_TO_THE_AUDIO:
        go_upstream(page, asset, episode)
        expect(metadata(page, "data_version")).to_contain_text(inputs[f"{asset}[{episode}]" if episode else asset])
        inputs = inputs_shown(page)
        page.get_by_role("tab", name="Overview").click()
    audio = ui.workspace.home / "audio" / f"{SPOKEN_EPISODE}.opus"
    assert inputs["file"] == hashlib.sha256(audio.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    "path", ["/asset-groups", "/assets/eval_scores", "/assets/audio?view=checks", "/runs", "/automation"]
)
def test_no_page_asks_anything_of_another_host(path: str, page: Page, asked_of_others: list[str]) -> None:
    open_page(page, path)
    page.wait_for_load_state("networkidle")
    assert asked_of_others == []


def test_what_a_page_asks_of_another_host_is_seen(page: Page, asked_of_others: list[str]) -> None:
    open_page(page, "/runs")
    assert page.evaluate("fetch('https://dagster.io/').then(() => 'answered', () => 'not reached')") == "not reached"
    assert asked_of_others == ["https://dagster.io/"]
