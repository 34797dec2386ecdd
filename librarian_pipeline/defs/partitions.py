"""One partition for each episode; which there are is read from the archive's folders."""

import dagster as dg

episodes_partitions = dg.DynamicPartitionsDefinition(name="episodes")


def register_episodes(instance: dg.DagsterInstance, episodes: set[str]) -> None:
    """Makes Dagster's partitions those of the archive."""
    name = episodes_partitions.name
    assert name is not None
    known = set(instance.get_dynamic_partitions(name))
    if episodes - known:
        instance.add_dynamic_partitions(name, sorted(episodes - known))
    for gone in sorted(known - episodes):
        instance.delete_dynamic_partition(name, gone)
