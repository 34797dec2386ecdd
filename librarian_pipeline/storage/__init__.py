"""Parquet files with their provenance inside, and the DuckDB database that mirrors them."""
