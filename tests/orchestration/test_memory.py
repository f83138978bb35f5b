"""A code location keeps one set of specifications, and nothing of a tick or of parsed files.

Dagster keeps the local variables of whatever function is the first of a process to make a
`Definitions` or a `RunRequest` (findings/dagster_record_keeps_locals.sh), so each test starts one.
"""

import subprocess
import sys

import pytest

from tests.orchestration.world import DAILY, EVENTS, World

PROGRAM = """
import gc
import sys
from dagster import AssetSpec, DagsterInstance, build_sensor_context
from logdriven_dagster import build_definitions
from logdriven_dagster.config.yaml.documents import Document
from logdriven_dagster.planning.plan import Plan

definitions = build_definitions(sys.argv[1])
definitions.get_repository_def()
with DagsterInstance.ephemeral() as instance:
    sensor = definitions.resolve_sensor_def("catch_up_sensor")
    assert sensor(build_sensor_context(instance)).run_requests
gc.collect()
for kind in (AssetSpec, Document, Plan):
    print(kind.__name__, sum(type(each) is kind for each in gc.get_objects()))
"""


@pytest.mark.usefixtures("slow")
def test_a_tick_leaves_neither_its_plan_nor_the_parsed_files_in_memory(world: World) -> None:
    world.write(EVENTS, DAILY)
    command = [sys.executable, "-c", PROGRAM, str(world.root)]
    environment = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    counts = {kind: int(n) for kind, n in map(str.split, done.stdout.splitlines())}
    assert (counts["Document"], counts["Plan"]) == (0, 0)
    # Dagster keeps each asset with and without resources, and one more of the first asset.
    assert counts["AssetSpec"] == 2 * 2 + 1
