"""What rankings of the gold queries depend on, of all that `eval_scores` does: accepting a baseline changes no rank."""

from collections.abc import Mapping

from librarian_pipeline.storage.provenance import Recipe, fingerprint

GATES = "gates."
"""Before the settings of the gates, in the recipe of `eval_scores`."""
INTERVALS = ("bootstrap_resamples", "confidence")
BASELINE, README = "baseline.json", "readme"
"""The sources that only gates look at."""


def ranked_from(recipe: Recipe, inputs: Mapping[str, str]) -> str:
    """The fingerprint of all that can change a rank, of the recipe and the inputs of `eval_scores`."""
    parts = {key: value for key, value in recipe.items() if not key.startswith(GATES) and key not in INTERVALS}
    sources = {name: version for name, version in inputs.items() if name not in (BASELINE, README)}
    return fingerprint({"recipe": parts, "inputs": sources})
