#!/usr/bin/env bash
# Dagster 1.13.27: a second runless evaluation of an asset check for the same partition cannot be
# reported.
#
# `DagsterInstance.report_runless_asset_event` takes an `AssetCheckEvaluation` with a `partition`.
# The first one is stored. The second one, for the same check and partition, raises
# IntegrityError: UNIQUE constraint failed: asset_check_executions.asset_key, check_name, run_id,
# partition. Runless rows have the run "", and are inserted, not updated. Its event stays in the
# event log, so the log and the table of evaluations disagree. Without a partition any number of
# evaluations is stored, since NULLs differ in a unique index.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q dagster==1.13.27
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
from dagster import AssetCheckEvaluation, AssetKey, DagsterInstance
from sqlalchemy.exc import IntegrityError

with DagsterInstance.local_temp() as instance:

    def report(partition):
        event = AssetCheckEvaluation(AssetKey("a"), "c", passed=True, partition=partition)
        try:
            instance.report_runless_asset_event(event)
        except IntegrityError as error:
            return str(error.orig)
        return "stored"

    without = [report(None), report(None)]
    of_day = [report("2022-01-01"), report("2022-01-01")]
    print(without, of_day)
    assert without == ["stored", "stored"]
    assert of_day[0] == "stored"
    assert of_day[1].startswith("UNIQUE constraint failed: asset_check_executions")
PYTHON
