"""What Dagster's daemon does, in this process: it asks the sensor, and starts the runs that it asks for."""

from pathlib import Path

import dagster as dg

from librarian_pipeline.definitions import definitions_for
from librarian_pipeline.defs.declaration import IS_NEW
from librarian_pipeline.defs.resources import ArchiveResource
from librarian_pipeline.lineage.graph import Item

MOST_TICKS = 30


class Daemon:
    def __init__(self, home: Path, instance: dg.DagsterInstance) -> None:
        self._home = home
        self.instance = instance
        self._cursor: str | None = None

    def tick(self) -> dg.SensorResult:
        """One evaluation of the sensor, its partitions added and removed."""
        sensor = definitions_for(self._home).resolve_sensor_def("episodes")
        with dg.build_sensor_context(
            self.instance, cursor=self._cursor, resources={"archive": ArchiveResource(home=str(self._home))}
        ) as context:
            result = sensor(context)
        assert isinstance(result, dg.SensorResult)
        self._cursor = result.cursor
        for request in result.dynamic_partitions_requests or ():
            if isinstance(request, dg.AddDynamicPartitionsRequest):
                self.instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
            else:
                for key in request.partition_keys:
                    self.instance.delete_dynamic_partition(request.partitions_def_name, key)
        return result

    def run(self, request: dg.RunRequest) -> list[Item]:
        """What the run of a request derives."""
        job = definitions_for(self._home).resolve_implicit_global_asset_job_def()
        result = job.execute_in_process(
            instance=self.instance,
            partition_key=request.partition_key,
            asset_selection=list(request.asset_selection or ()),
            tags=request.tags,
            raise_on_error=False,
        )
        found = [event.step_materialization_data.materialization for event in result.get_asset_materialization_events()]
        return [Item(m.asset_key.to_user_string(), request.partition_key) for m in found if m.metadata[IS_NEW].value]

    def settle(self) -> list[Item]:
        """Ticks until nothing is asked for any more; what was derived meanwhile."""
        derived: list[Item] = []
        for _ in range(MOST_TICKS):
            requests = self.tick().run_requests or []
            if not requests:
                return derived
            for request in requests:
                derived.extend(self.run(request))
        raise AssertionError("there is always something to do")
