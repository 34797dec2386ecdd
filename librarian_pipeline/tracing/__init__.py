"""From a passage, or a gold query, back to the second of audio, with the recipes and data versions of all between."""
