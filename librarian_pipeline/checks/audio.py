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
    promised_s = _promised_s(row)
    missing_s = max(0.0, promised_s - decoded_s)
    allowed_s = max(settings.max_decode_loss_s, settings.max_decode_loss_share * promised_s)
    passed = missing_s <= allowed_s and row["status"] != "partial"
    message = row["status_reason"] or f"{decoded_s:.1f} s decoded, {missing_s:.1f} s missing"
    return [Outcome(DECODE_LOSS, passed, message, missing_s)]


def _promised_s(row: Mapping[str, Any]) -> float:
    """By the header only where audio was lost: the decoder has held a header that is no mere estimate against the samples.

    The header of a healthy VBR MP3 without a frame of its own for it is an estimate, and may be off by half.
    """
    stated_ms = 0 if row["status"] == "ok" else row["duration_header_ms"] or 0
    return float(max(stated_ms, row["duration_last_packet_ms"] or 0)) / 1000
