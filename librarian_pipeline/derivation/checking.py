"""What the asset checks say of an output, whoever derived it."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from librarian_pipeline.checks import Outcome, audio_outcomes, embedding_outcomes, gate_outcomes, transcript_outcomes
from librarian_pipeline.derivation.step import Step
from librarian_pipeline.storage.schemas import AUDIO, TOKEN_COUNTS


def outcomes_of(step: Step, table: pa.Table, beside: Mapping[str, pa.Table]) -> Sequence[Outcome]:
    """The outcomes of the asset's checks; none for an asset without any."""
    checks = step.settings.checks
    match step.item.asset:
        case "audio":
            return [outcome for row in table.to_pylist() for outcome in audio_outcomes(row, checks)]
        case "transcripts":
            spans = [(row["start_ms"], row["end_ms"]) for row in beside["speech_spans"].to_pylist()]
            audio_row = next(iter(step.read("audio", AUDIO).to_pylist()), None)
            return transcript_outcomes(table.to_pylist(), spans, audio_row, checks)
        case "embeddings":
            return embedding_outcomes(table.select(TOKEN_COUNTS.names).to_pylist(), checks)
        case "eval_scores":
            return gate_outcomes(beside["gates"].to_pylist())
        case _:
            return []
