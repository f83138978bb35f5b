"""The longest chain of a run: the windows that had to follow each other, and took most time."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from logdriven_dagster.execution.notifications import wording as shown


@dataclass(frozen=True, slots=True)
class Link:
    """Windows of one table that follow each other in the chain."""

    table: str
    first: str
    last: str
    windows: int
    seconds: float
    share: float
    """Its fraction of the chain's time, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class LongestChain:
    """The longest chain of a run, next to the time that the whole run took."""

    links: tuple[Link, ...]
    windows: int
    seconds: float
    elapsed: float
    """Seconds from the start of the run's first window to the end of its last one."""


def find_longest_chain(
    attempts: Iterable[shown.Row], upstreams: Mapping[str, Sequence[str]]
) -> LongestChain | None:
    """Return the longest chain among the attempts of the newest run; None if nothing ended.

    An attempt follows the window before it of the same table, and the windows of the upstream
    tables that overlap it, as far as they ended in the same run before it began.
    """
    ended = [row for row in attempts if shown.seconds(row) is not None and row["steps"]]
    if not ended:
        return None
    newest = max(ended, key=lambda row: int(row["job_id"]))
    run = [row for row in ended if _run_of(row) == _run_of(newest)]
    run.sort(key=lambda row: (row["job_start_time"], row["job_id"]))
    by_table: dict[str, list[shown.Row]] = {}
    total: dict[int, float] = {}
    before: dict[int, shown.Row | None] = {}
    for row in run:
        candidates = [*by_table.get(row["job_name"], [])[-1:]]
        for name in upstreams.get(row["job_name"], ()):
            candidates += [each for each in by_table.get(name, ()) if _overlap(each, row)]
        earlier = [each for each in candidates if each["job_end_time"] <= row["job_start_time"]]
        last = max(earlier, key=lambda each: total[each["job_id"]], default=None)
        before[row["job_id"]] = last
        total[row["job_id"]] = (total[last["job_id"]] if last else 0) + (shown.seconds(row) or 0)
        by_table.setdefault(row["job_name"], []).append(row)
    chain: list[shown.Row] = []
    link: shown.Row | None = max(run, key=lambda row: total[row["job_id"]])
    while link is not None:
        chain.append(link)
        link = before[link["job_id"]]
    chain.reverse()
    seconds = total[chain[-1]["job_id"]]
    elapsed = shown.compute_elapsed(
        min(row["job_start_time"] for row in run), max(row["job_end_time"] for row in run)
    )
    return LongestChain(_group(chain, seconds), len(chain), seconds, elapsed or 0)


def _run_of(row: shown.Row) -> tuple[object, object]:
    return row["owner"], row["dagster_run_id"]


def _overlap(upstream: shown.Row, row: shown.Row) -> bool:
    """Return True if windows of time overlap; windows of other kinds may depend on each other."""
    if upstream["incremental_type"] != row["incremental_type"]:
        return True
    return bool(
        (upstream["window_start"] or 0) < (row["window_end"] or 0)
        and (row["window_start"] or 0) < (upstream["window_end"] or 0)
    )


def _group(chain: Sequence[shown.Row], total: float) -> tuple[Link, ...]:
    groups: list[list[shown.Row]] = []
    for row in chain:
        if groups and groups[-1][-1]["job_name"] == row["job_name"]:
            groups[-1].append(row)
        else:
            groups.append([row])
    links = []
    for rows in groups:
        seconds = sum(shown.seconds(row) or 0 for row in rows)
        ends = (shown.window(rows[0]), shown.window(rows[-1]))
        share = seconds / total if total else 0
        links.append(Link(rows[0]["job_name"], *ends, len(rows), seconds, share))
    return tuple(links)
