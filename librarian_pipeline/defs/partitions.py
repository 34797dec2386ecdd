"""One partition for each episode; which there are is read from the archive's folders."""

import dagster as dg

episodes_partitions = dg.DynamicPartitionsDefinition(name="episodes")


def partition_requests(
    instance: dg.DagsterInstance, episodes: set[str]
) -> list[dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest]:
    """What a sensor has to ask for so that Dagster's partitions become those of the archive."""
    known = set(instance.get_dynamic_partitions(str(episodes_partitions.name)))
    requests: list[dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest] = []
    if episodes - known:
        requests.append(episodes_partitions.build_add_request(sorted(episodes - known)))
    if known - episodes:
        requests.append(episodes_partitions.build_delete_request(sorted(known - episodes)))
    return requests


def register_episodes(instance: dg.DagsterInstance, episodes: set[str]) -> None:
    """Makes Dagster's partitions those of the archive."""
    name = episodes_partitions.name
    assert name is not None
    known = set(instance.get_dynamic_partitions(name))
    if episodes - known:
        instance.add_dynamic_partitions(name, sorted(episodes - known))
    for gone in sorted(known - episodes):
        instance.delete_dynamic_partition(name, gone)
