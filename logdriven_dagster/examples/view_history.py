"""Deterministic history of page views in the example `events`, some of which arrive late."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

PAGES = ("/", "/search", "/product", "/basket", "/checkout")
_OFTEN = (30, 25, 30, 10, 5)
_VISITORS = 300
_VIEWS_AN_HOUR = 800
_UNREADABLE_EVERY = 1_000
_START = datetime(2026, 3, 2, 6, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class View:
    """A page opened by a visitor; it reached the topic at `arrived`."""

    at: datetime
    arrived: datetime
    visitor: str
    page: str
    ms: int
    """Load time of the page in milliseconds."""

    @property
    def message(self) -> str:
        """The value of the Kafka message."""
        instant = self.at.isoformat(timespec="milliseconds")
        fields = {"at": instant, "visitor": self.visitor, "page": self.page, "ms": self.ms}
        return json.dumps(fields)


@dataclass(frozen=True, slots=True)
class ViewRound:
    """Views that arrived before `now` and after the previous round, in that order."""

    now: datetime
    """Time at which the project runs."""
    views: tuple[View, ...]

    def messages(self) -> Iterator[tuple[str, str, datetime]]:
        """Yield visitor, value and arrival time of each message; occasionally one is not a view."""
        for n, view in enumerate(self.views, 1):
            yield view.visitor, view.message, view.arrived
            if n % _UNREADABLE_EVERY == 0:
                yield view.visitor, "<html>502 Bad Gateway</html>", view.arrived


def rounds() -> tuple[ViewRound, ViewRound]:
    """Return two rounds of a morning from six o'clock: until 10:20, and until 12:20."""
    chance = random.Random(2026)  # noqa: S311 - the same history every time
    first, second = (_START + timedelta(hours=n, minutes=20) for n in (4, 6))
    views = sorted(_views(second, chance), key=lambda view: view.arrived)
    return (
        ViewRound(first, tuple(view for view in views if view.arrived < first)),
        ViewRound(second, tuple(view for view in views if first <= view.arrived < second)),
    )


def _views(end: datetime, chance: random.Random) -> Iterator[View]:
    for _ in range(int((end - _START) / timedelta(hours=1) * _VIEWS_AN_HOUR)):
        at = _START + timedelta(milliseconds=chance.randrange((end - _START) // _MILLISECOND))
        (page,) = chance.choices(PAGES, _OFTEN)
        visitor = f"v{chance.randrange(_VISITORS):03}"
        yield View(at, at + _way(chance), visitor, page, chance.randrange(40, 900))


def _way(chance: random.Random) -> timedelta:
    """Return a random delay: mostly seconds, minutes in a tunnel, over an hour in a plane."""
    match chance.random():
        case luck if luck < 0.94:
            return timedelta(milliseconds=chance.randrange(50, 20_000))
        case luck if luck < 0.97:
            return timedelta(seconds=chance.randrange(60, 720))
        case _:
            return timedelta(minutes=chance.randrange(30, 110))


_MILLISECOND = timedelta(milliseconds=1)
