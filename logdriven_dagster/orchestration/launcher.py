"""A run launcher whose processes have loaded all modules before a run needs them.

Dagster starts each run in a new process, whose first seconds go into loading modules. With this in
`dagster.yaml`, the next process loads them after a run has ended, and waits for the next one:

    run_launcher:
      module: logdriven_dagster.orchestration.launcher
      class: WarmRunLauncher
"""

import signal
import subprocess
import sys
import threading
import time
from typing import Any

import psutil
from dagster import DagsterRun, DagsterRunStatus, DefaultRunLauncher, serialize_value

from logdriven_dagster.execution.owners import owner_of, process_of
from logdriven_dagster.model.attempts import Owner
from logdriven_dagster.orchestration.dagster_internals import execute_run_request

PROCESS_TAG = "logdriven/process"
"""The tag with a run's process, in the format of `job_log.owner`."""
_AGAIN_SECONDS = 5.0
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


class WarmRunLauncher(DefaultRunLauncher):
    """A run launcher that gives each run a process that is already loaded, if one waits.

    The web server and the daemon keep one such process each, from the end of their first run on.
    Runs of code that is served elsewhere, or by another Python, start as Dagster starts them.
    """

    def __init__(self, inst_data: Any = None) -> None:
        super().__init__(inst_data)
        self._spare: subprocess.Popen[str] | None = None
        self._working: dict[str, subprocess.Popen[str]] = {}
        self._lock = threading.Lock()
        self._disposed = False

    def launch_run(self, context: Any) -> None:
        """Hand a run over to a process, which continues after this one ends."""
        origin = context.job_code_origin
        if origin is None or not _is_ours(context, origin):
            super().launch_run(context)
            return
        run_id, instance = context.dagster_run.run_id, self._instance
        with self._lock:
            process = self._take()
            self._working[run_id] = process
        threading.Thread(target=self._attend, args=(run_id, process), daemon=True).start()
        try:
            owner = owner_of(psutil.Process(process.pid))
            instance.add_run_tags(run_id, {PROCESS_TAG: str(owner)})
            _send(process, execute_run_request(instance, origin, run_id))
        except BaseException:
            process.kill()  # it would wait for ever; Dagster has recorded no start
            raise

    def terminate(self, run_id: str) -> bool:
        """Interrupt a run; False if it has ended or its process is out of reach."""
        run = self._instance.get_run_by_id(run_id)
        owner = _owner(run)
        if run is None or run.is_finished or owner is None:
            return bool(super().terminate(run_id))  # type: ignore[no-untyped-call]
        self._instance.report_run_canceling(run)
        process = process_of(owner)
        if process is None:
            return False
        process.send_signal(signal.SIGTERM)
        return True

    def join(self, timeout: int = 30) -> None:
        """Wait for the runs that were started here.

        Raises TimeoutExpired after `timeout` seconds.
        """
        super().join(timeout)  # type: ignore[no-untyped-call]
        for process in list(self._working.values()):
            process.wait(timeout)

    def dispose(self) -> None:
        """End the waiting process. Runs continue."""
        with self._lock:
            self._disposed, spare, self._spare = True, self._spare, None
        if spare is not None and spare.stdin is not None:
            spare.stdin.close()

    def _take(self) -> "subprocess.Popen[str]":
        spare, self._spare = self._spare, None
        return spare if spare is not None and spare.poll() is None else self._start_process()

    def _start_process(self) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "logdriven_dagster.orchestration.run_worker"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)
        _send(process, self._instance.get_ref())
        return process

    def _attend(self, run_id: str, process: "subprocess.Popen[str]") -> None:
        """Wait for the end of a run's process, and report it to Dagster if the run could not."""
        code = process.wait()
        with self._lock:
            del self._working[run_id]
            if not self._disposed and self._spare is None and not self._working:
                self._spare = self._start_process()
        while self.has_instance and not self._disposed:
            try:
                self._report_end(run_id, code)
            except Exception:  # noqa: BLE001 - storages may raise anything while full or away
                time.sleep(_AGAIN_SECONDS)
            else:
                return

    def _report_end(self, run_id: str, code: int) -> None:
        run = self._instance.get_run_by_id(run_id)
        if run is None or run.is_finished:
            return
        if run.status is DagsterRunStatus.CANCELING:
            self._instance.report_run_canceled(run)
        else:
            self._instance.report_run_failed(run, f"Its process ended with exit code {code}.")


def _send(process: "subprocess.Popen[str]", what: Any) -> None:
    assert process.stdin is not None
    process.stdin.write(serialize_value(what) + "\n")
    process.stdin.flush()


def _is_ours(context: Any, origin: Any) -> bool:
    """Return True if the run's code is served on this machine, by this Python."""
    remote = context.dagster_run.remote_job_origin
    if remote is None or context.workspace is None:
        return False
    if origin.repository_origin.executable_path != sys.executable:
        return False
    name = remote.repository_origin.code_location_origin.location_name
    location = context.workspace.get_code_location(name)
    # Both are unknown for a location without a gRPC server.
    is_local = getattr(location, "socket", None) is not None
    return is_local or getattr(location, "host", None) in _LOOPBACK


def _owner(run: DagsterRun | None) -> Owner | None:
    return Owner.parse(run.tags.get(PROCESS_TAG)) if run else None
