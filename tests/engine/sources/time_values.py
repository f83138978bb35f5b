"""Times kept as numbers or texts: random values around changes of the clocks, by type of column."""

import random
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from logdriven_dagster.model.windows import TimeWindow

ZONE = ZoneInfo("Europe/Berlin")
STARTS = (
    *(datetime(2022, 3, 26, 23, tzinfo=timezone.utc) + timedelta(hours=n) for n in range(4)),
    *(datetime(2022, 10, 29, 23, tzinfo=timezone.utc) + timedelta(hours=n) for n in range(4)),
)
"""Hours around both changes of Berlin's clocks; the gap between them is a window, too."""
WINDOWS = [TimeWindow(start, end, zone=ZONE) for start, end in pairwise(STARTS)]
BOUNDS = [round(start.timestamp()) for start in STARTS]
UNITS = {"epoch_s": 1, "epoch_ms": 10**3, "epoch_us": 10**6, "epoch_ns": 10**9}
COLUMNS = {
    "seconds": (pa.int64(), {"unit": "epoch_s"}),
    "small": (pa.int32(), {"unit": "epoch_s"}),
    "parts": (pa.float64(), {"unit": "epoch_s"}),
    "decimals": (pa.decimal128(20, 3), {"unit": "epoch_s"}),
    "millis": (pa.int64(), {"unit": "epoch_ms"}),
    "micros": (pa.int64(), {"unit": "epoch_us"}),
    "nanos": (pa.int64(), {"unit": "epoch_ns"}),
    "hour": (pa.int32(), {"format": "yyyyMMddHH"}),
    "hour_text": (pa.string(), {"format": "yyyyMMddHH"}),
    "minute": (pa.int64(), {"format": "yyyyMMddHHmm"}),
    "iso": (pa.string(), {"format": "yyyy-MM-dd'T'HH:mm:ss"}),
    "day": (pa.int32(), {"format": "yyyyMMdd"}),
    "fraction": (pa.string(), {"format": "yyyyMMddHHmmssSSSSSS"}),
    "float_hour": (pa.float64(), {"format": "yyyyMMddHH"}),
}
PATTERNS = {"yyyyMMddHH": "%Y%m%d%H", "yyyyMMddHHmm": "%Y%m%d%H%M"}
PATTERNS |= {"yyyyMMdd": "%Y%m%d", "yyyyMMddHHmmssSSSSSS": "%Y%m%d%H%M%S%f"}
PATTERNS["yyyy-MM-dd'T'HH:mm:ss"] = "%Y-%m-%dT%H:%M:%S"
ODD_TEXTS = (
    *("2022102", "20221030021", "2022103002\n", " 2022103002", "2022-10-30", "2022133102", "abc"),
    *(
        "2022103024",
        "2022022902",
        "２０２２103002",
        "2022-10-30 02:00:00",
        "2022-10-30T02:00:60",
        "",
    ),
)
FAR = 1e300
ODD_NUMBERS = (0, -1, 2022103099, 20221030, 202210300299, 2022022902, 2**40)


def values(name: str, chance: random.Random) -> list[Any]:
    """Values around all bounds, between them, of no window and of no time."""
    kind, meaning = COLUMNS[name]
    seconds = [bound + near for bound in BOUNDS for near in (-3600, -60, -1, 0, 1, 1800)]
    seconds += [chance.randrange(BOUNDS[0] - 9000, BOUNDS[-1] + 9000) for _ in range(60)]
    if unit := meaning.get("unit"):
        found: list[Any] = [second * UNITS[unit] for second in seconds]
        if pa.types.is_integer(kind):
            found += [bound * UNITS[unit] + near for bound in BOUNDS for near in (-1, 1)]
        if name == "parts":
            found += [second + chance.random() for second in seconds] + [float("nan"), FAR]
            found = [float(each) for each in found]
        if name == "decimals":
            found = [Decimal(each) + Decimal(chance.randrange(1000)) / 1000 for each in found]
    else:
        clocks = [datetime.fromtimestamp(second, ZONE) for second in seconds]
        clocks += [each.replace(tzinfo=None) for each in (datetime(2022, 3, 27, 2, 30),)]
        texts = [each.strftime(PATTERNS[meaning["format"]]) for each in clocks]
        if pa.types.is_string(kind):
            found = [*texts, *ODD_TEXTS]
        else:
            found = [*map(int, texts), *ODD_NUMBERS]
            found = found if pa.types.is_integer(kind) else [*map(float, found), 2022103002.5]
        if pa.types.is_int32(kind):
            found = [each for each in found if abs(each) < 2**31]
    return [None, *found]
