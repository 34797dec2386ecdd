"""Whether a published transcript is of the edition of the episode that the audio is."""

from collections.abc import Iterable


def edition_gap_ms(transcript_end_ms: int, audio_duration_ms: int) -> int:
    """How far apart the end of the last cue and the end of the audio are, in milliseconds."""
    return abs(audio_duration_ms - transcript_end_ms)


def is_other_edition(transcript_end_ms: int, audio_durations_ms: Iterable[int | None], max_gap_s: float) -> bool:
    """Whether the end of the last cue is more than `max_gap_s` seconds from each length that is known of the audio.

    Damaged audio decodes to less than it states, and headers may state too much: that alone is no other edition.
    """
    gaps = [edition_gap_ms(transcript_end_ms, duration) for duration in audio_durations_ms if duration]
    return bool(gaps) and min(gaps) > max_gap_s * 1_000
