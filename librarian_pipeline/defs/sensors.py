"""Keeps Dagster's partitions equal to the episodes in the archive's folders."""

import dagster as dg

from librarian_pipeline.defs.partitions import episodes_partitions
from librarian_pipeline.defs.resources import ArchiveResource


@dg.sensor(name="episodes", minimum_interval_seconds=30, default_status=dg.DefaultSensorStatus.RUNNING)
def episodes_sensor(context: dg.SensorEvaluationContext, archive: ArchiveResource) -> dg.SensorResult | dg.SkipReason:
    """Adds a partition for each new episode, and removes those whose files are gone."""
    there = set(archive.open().archive.discover().episodes)
    known = set(context.instance.get_dynamic_partitions(str(episodes_partitions.name)))
    requests: list[dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest] = []
    if there - known:
        requests.append(episodes_partitions.build_add_request(sorted(there - known)))
    if known - there:
        requests.append(episodes_partitions.build_delete_request(sorted(known - there)))
    if not requests:
        return dg.SkipReason("the partitions are the episodes of the archive")
    return dg.SensorResult(dynamic_partitions_requests=requests)
