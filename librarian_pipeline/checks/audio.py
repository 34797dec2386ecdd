"""Checks of `audio`: was all of the file decoded?"""

from collections.abc import Mapping
from typing import Any

from librarian_pipeline.checks.outcome import Outcome
from librarian_pipeline.settings import CheckSettings

DECODE_LOSS = "decode_loss"
AUDIO_CHECKS = {DECODE_LOSS: "As much audio was decoded as the file and its packets promise."}


def audio_outcomes(row: Mapping[str, Any], settings: CheckSettings) -> list[Outcome]:
    """Of a row of `schemas.AUDIO`; none for a file that gave no audio at all, whose status says so."""
    if not row["duration_decoded_ms"]:
        return []
    decoded_s = row["duration_decoded_ms"] / 1000
    promised_s = max(row["duration_header_ms"] or 0, row["duration_last_packet_ms"] or 0) / 1000
    missing_s = max(0.0, promised_s - decoded_s)
    allowed_s = max(settings.max_decode_loss_s, settings.max_decode_loss_share * promised_s)
    passed = missing_s <= allowed_s and row["status"] != "partial"
    message = row["status_reason"] or f"{decoded_s:.1f} s decoded, {missing_s:.1f} s missing"
    return [Outcome(DECODE_LOSS, passed, message, missing_s)]
