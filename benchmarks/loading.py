"""How long a code location takes to load, as a ratio to the same assets written by hand.

`python -m benchmarks.loading [--tables 1000] [--rounds 5]`: processes take turns, each builds the
definitions and their repository, as `dagster definitions validate` does, beside an instance. What
is written by hand has the same partitions, dependencies with mappings, metadata, groups, kinds,
policies and resources, in one loop over a list: the fastest way that Dagster offers to people. Ours
also reads and checks a YAML file for each table, and looks into the registry. JSON: seconds of the
processor for the whole process, for definitions alone (all modules are loaded by then), and
megabytes at the peak.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.big_projects import Shape, make_project

_MEASURED = """
import json, os, resource, sys, time, warnings
warnings.simplefilter("ignore")
import dagster
instance = dagster.DagsterInstance.ephemeral()
{imports}
began = time.process_time()
{build}
definitions.get_repository_def()
ended = time.process_time()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps([ended, ended - began, peak]))
"""
_OURS = {
    "imports": """
from pathlib import Path
from logdriven_dagster.execution.definitions.registering import register
from logdriven_dagster.orchestration.code_location import build_definitions
""",
    "build": """
definitions = build_definitions(register(Path(sys.argv[1]), "code location").project)
""",
}
_BY_HAND = {
    "imports": """
from dagster import (
    AssetDep, AssetExecutionContext, AssetKey, BackfillPolicy, CodeReferencesMetadataValue,
    Definitions, HourlyPartitionsDefinition, IdentityPartitionMapping, LocalFileCodeReference,
    MetadataValue, ResourceDefinition, SensorDefinition, asset, define_asset_job,
    in_process_executor, job, op, sensor,
)
""",
    "build": """
from datetime import datetime, timezone

start = sys.argv[2]
hours = HourlyPartitionsDefinition(start_date=datetime.fromisoformat(start), timezone="UTC")

def written(k, names):
    name = names[k]
    path = os.path.join(sys.argv[1], "tables", f"{k:04}.yaml")
    reference = LocalFileCodeReference(file_path=path, line_number=1, label=os.path.basename(path))
    upstream = [names[k - 1]] if k % 10 else []

    @asset(
        name=name,
        key_prefix="ods",
        deps=[
            AssetDep(AssetKey(["ods", up]), partition_mapping=IdentityPartitionMapping())
            for up in upstream
        ],
        partitions_def=hours,
        backfill_policy=BackfillPolicy.single_run(),
        group_name="ods",
        kinds={"spark", "iceberg"},
        required_resource_keys={"run_log", "spark"},
        io_manager_key="logdriven",
        op_tags={"logdriven/priority": "2"},
        metadata={
            "table": f"ods.{name}",
            "period": "1 hour",
            "default_start": start,
            "incremental_type": "time_window",
            "ordered": True,
            "file": MetadataValue.path(path),
            "dagster/code_references": CodeReferencesMetadataValue(code_references=[reference]),
        },
    )
    def materialize(context: AssetExecutionContext) -> None:
        context.resources.run_log.run(name, context.partition_keys)

    return materialize

names = [f"t{k:04}" for k in range(int(sys.argv[3]))]

@op
def catch_all(context):
    pass

@job
def catch_up():
    catch_all()

@sensor(job=catch_up)
def tick(context):
    return None

none = ResourceDefinition.none_resource()
definitions = Definitions(
    assets=[written(k, names) for k in range(len(names))],
    jobs=[catch_up],
    sensors=[tick],
    resources={"run_log": none, "spark": none, "logdriven": dagster.fs_io_manager},
    executor=in_process_executor,
)
""",
}
FIGURES = ("processor seconds", "of definitions", "megabytes")


def main() -> None:
    """Print one object of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    sys.stdout.write(json.dumps(_summary(measure(given.tables, given.rounds)), indent=2) + "\n")


def measure(tables: int, rounds: int) -> dict[str, list[list[float]]]:
    """`by hand` and `ours` → the figures of each round."""
    programs = {"by hand": _MEASURED.format(**_BY_HAND), "ours": _MEASURED.format(**_OURS)}
    found: dict[str, list[list[float]]] = {name: [] for name in programs}
    with tempfile.TemporaryDirectory() as folder:
        shape = Shape(tables, 100)
        make_project(Path(folder), shape, f"sqlite:///{folder}/log.db")
        arguments = [folder, f"{shape.start:%Y-%m-%dT%H:%M:%S}", str(tables)]
        for number in range(rounds + 1):
            for name, program in programs.items():
                command = [sys.executable, "-c", program, *arguments]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                if number:  # the first one registers the tables
                    found[name].append(json.loads(done.stdout))
    return found


def _summary(found: dict[str, list[list[float]]]) -> dict[str, object]:
    figures = {
        name: {figure: [round(row[n], 2) for row in rows] for n, figure in enumerate(FIGURES)}
        for name, rows in found.items()
    }
    ratios = {
        figure: round(
            statistics.median(figures["ours"][figure])
            / statistics.median(figures["by hand"][figure]),
            2,
        )
        for figure in FIGURES
    }
    return {"figures": figures, "ours over by hand": ratios}


if __name__ == "__main__":
    main()
