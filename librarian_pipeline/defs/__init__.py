"""The Dagster shell: thin assets over the library, and nothing else."""
