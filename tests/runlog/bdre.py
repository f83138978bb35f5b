"""The processes of BDRE's own test cases, and one word for each call of the life cycle."""

from datetime import datetime, timezone

from sqlalchemy import insert, select

from logdriven_dagster.model.attempts import AttemptOutcome, Status, StepOutcome, Trigger
from logdriven_dagster.model.batches import Enqueuer, Process, Processes, SubProcess
from logdriven_dagster.model.files import FoundFile
from logdriven_dagster.model.windows import Slice
from logdriven_dagster.runlog import lifecycle
from logdriven_dagster.runlog.schema.attempts import batch_archive, batch_queue
from tests.builders import UTC, day
from tests.runlog.logbook import request

NEW, PROCESSED, ACCESSED, FAILED = 0, 1, 2, 3
TRANSFER, HIVE = "85", "123"


def process(table, *steps):
    return Process(table, steps, UTC)


def hive(pattern="EOD"):
    """The document's process 123: hive queries 124 and 125, the second one fed by process 85."""
    fed = SubProcess("125", (Enqueuer(TRANSFER, pattern),))
    return process(HIVE, SubProcess("124", next=("125",)), fed)


def transfer():
    """The document's process 85."""
    return process(TRANSFER, SubProcess("load"))


def registry(*processes):
    return Processes(processes or (transfer(), hive()))


def nth(number):
    return Slice.nth(number, "", None, UTC)


def init(log, known, table=HIVE, max_batches=None, *, number=0, steps=None, **fields):
    """`InitJob(table, max_batches)`, at the slice of this number."""
    steps = steps or tuple(sub.step for sub in known.parent(table).steps)
    claim = request(nth(number), name=table, steps=steps, **fields)
    return log.write(lambda conn: lifecycle.init_job(conn, known, claim, max_batches))


def init_window(log, known, window=None, table=TRANSFER, trigger=Trigger.PENDING, **fields):
    """`InitJob` of a table with windows of time."""
    steps = tuple(sub.step for sub in known.parent(table).steps)
    claim = request(window or day(1), trigger, name=table, steps=steps, **fields)
    return log.write(lambda conn: lifecycle.init_job(conn, known, claim))


def init_step(log, known, run, step):
    return log.write(lambda conn: lifecycle.init_step(conn, known, run, step))


def halt_step(log, known, run, step, status=Status.SUCCESS):
    outcome = StepOutcome(status)
    log.write(lambda conn: lifecycle.halt_step(conn, known, run, step, outcome))


def term_step(log, known, run, step):
    outcome = StepOutcome(Status.FAILURE, error="broken")
    log.write(lambda conn: lifecycle.term_step(conn, known, run, step, outcome))


def halt_job(log, known, run, marking=None):
    outcome = AttemptOutcome(Status.SUCCESS)
    return log.write(lambda conn: lifecycle.halt_job(conn, known, run, outcome, marking))


def term_job(log, known, run, status=Status.FAILURE):
    outcome = AttemptOutcome(status)
    log.write(lambda conn: lifecycle.term_job(conn, known, run, outcome))


def run_steps(log, known, run, *steps):
    for step in steps:
        init_step(log, known, run, step)
        halt_step(log, known, run, step)


def succeed(log, known, run, marking=None):
    """All steps and the job; the batch that it made."""
    run_steps(log, known, run, *(sub.step for sub in known.parent(run.table).steps))
    return halt_job(log, known, run, marking)


def fail(log, known, run, step):
    """A step that fails, and so does its job."""
    init_step(log, known, run, step)
    term_step(log, known, run, step)
    term_job(log, known, run)


def load(log, known, window=None, *, table=TRANSFER, trigger=Trigger.PENDING, marking=None):
    """A whole run of a table with windows of time; the batch that it made."""
    return succeed(log, known, init_window(log, known, window, table, trigger), marking)


def fill(log, numbers, marks=(), *, table=HIVE, step="125", source=TRANSFER):
    """Queue batches of these numbers, all marked 2014-12-16 unless `marks` says otherwise."""
    same = {"job_name": table, "step_id": step, "source_job_name": source, "batch_state": NEW}
    marks = dict(marks)
    with log.begin() as conn:
        for number in numbers:
            mark = marks.get(number, "2014-12-16")
            row = same | {"source_batch_id": number, "batch_marking": mark}
            conn.execute(insert(batch_queue).values(row))


def fill_as_documented(log):
    """Batches 11 to 33 for sub-process 125, the last one marked as the end of its day."""
    fill(log, range(11, 34), {33: "EOD@2014-12-16"})


def found(log, table, *columns, **where):
    query = select(*(table.c[name] for name in columns)).order_by(table.c.queue_id)
    for name, value in where.items():
        query = query.where(table.c[name] == value)
    with log.read() as conn:
        return [tuple(row) if len(columns) > 1 else row[0] for row in conn.execute(query)]


def queue(log, table=HIVE):
    """(batch, state) of the rows that wait for a table."""
    return found(log, batch_queue, "source_batch_id", "batch_state", job_name=table)


def archived(log, table=HIVE):
    return found(log, batch_archive, "source_batch_id", "batch_state", job_name=table)


def a_file(name="a.csv", content="1", *, server="", minute=0):
    created = datetime(2014, 12, 16, 12, minute, tzinfo=timezone.utc)
    return FoundFile(server, f"/in/{name}", 10, content, created)
