"""An eval score leads back to the audio through what Dagster's web server tells of each materialization."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from librarian_pipeline_tests.speech.sounds import write_tone
from librarian_pipeline_tests.ui_server import SPOKEN_EPISODE, Ui, derived_archive, serving

MATERIALIZATIONS = """
query Materializations($asset: AssetKeyInput!, $episodes: [String!]) {
  assetNodeOrError(assetKey: $asset) { ... on AssetNode { assetMaterializations(partitions: $episodes) {
    timestamp tags { key value } metadataEntries { label ... on JsonMetadataEntry { jsonString } }
  } } }
}
"""
BACK_TO_THE_AUDIO = (
    "bm25_stem_index",
    f"chunks[{SPOKEN_EPISODE}]",
    f"transcripts[{SPOKEN_EPISODE}]",
    f"audio[{SPOKEN_EPISODE}]",
)


@dataclass(frozen=True)
class Materialization:
    time_ms: int
    version: str
    inputs: dict[str, str]


def materializations(ui: Ui, item: str) -> list[Materialization]:
    """Those of an item (`asset`, or `asset[episode]`), the newest first."""
    asset, _, episode = item.removesuffix("]").partition("[")
    answer = ui.ask(MATERIALIZATIONS, asset={"path": [asset]}, episodes=[episode] if episode else None)
    return [_materialization(event) for event in answer["assetNodeOrError"]["assetMaterializations"]]


def _materialization(event: dict[str, Any]) -> Materialization:
    tags = {tag["key"]: tag["value"] for tag in event["tags"]}
    [inputs] = [json.loads(entry["jsonString"]) for entry in event["metadataEntries"] if entry["label"] == "inputs"]
    return Materialization(int(event["timestamp"]), tags["dagster/data_version"], inputs)


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ui]:
    home = derived_archive(tmp_path_factory.mktemp("lineage"))
    with serving(home, home / "ui.log") as found:
        yield found


def test_an_eval_score_leads_back_to_the_audio_of_that_moment(ui: Ui) -> None:
    score = materializations(ui, "eval_scores")[0]
    audio = ui.workspace.home / "audio" / f"{SPOKEN_EPISODE}.opus"
    heard = hashlib.sha256(audio.read_bytes()).hexdigest()
    write_tone(audio, "ogg", "libopus", 48_000, 1, 1)
    assert ui.materialize("audio", episode=SPOKEN_EPISODE) == "SUCCESS"
    assert materializations(ui, BACK_TO_THE_AUDIO[-1])[0].inputs["file"] != heard, "the audio of now must be another"

    step = score
    for item in BACK_TO_THE_AUDIO:
        named = step.inputs[item]
        then = [found for found in materializations(ui, item) if found.time_ms <= step.time_ms and found.version == named]
        assert then, f"no materialization of {item} has the data version {named}"
        step = then[0]
    assert step.inputs["file"] == heard
