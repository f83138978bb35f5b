"""Who looked at which page in the example `events`: the same every time, some of it late."""

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
    """A page that a visitor opened at a moment, and that the topic got later."""

    at: datetime
    arrived: datetime
    visitor: str
    page: str
    ms: int
    """How long the page took."""

    @property
    def message(self) -> str:
        """The value of the Kafka message."""
        moment = self.at.isoformat(timespec="milliseconds")
        fields = {"at": moment, "visitor": self.visitor, "page": self.page, "ms": self.ms}
        return json.dumps(fields)


@dataclass(frozen=True, slots=True)
class ViewRound:
    """What arrived before a moment, after the round before, in that order."""

    now: datetime
    """When the project runs."""
    views: tuple[View, ...]

    def messages(self) -> Iterator[tuple[str, str, datetime]]:
        """Visitor, value and time of arrival of each message; now and then one is no view."""
        for n, view in enumerate(self.views, 1):
            yield view.visitor, view.message, view.arrived
            if n % _UNREADABLE_EVERY == 0:
                yield view.visitor, "<html>502 Bad Gateway</html>", view.arrived


def rounds() -> tuple[ViewRound, ViewRound]:
    """A morning from six o'clock: what arrived until 10:20, and what did until 12:20."""
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
    """Mostly seconds; phones in a tunnel take minutes, those in a plane more than an hour."""
    match chance.random():
        case luck if luck < 0.94:
            return timedelta(milliseconds=chance.randrange(50, 20_000))
        case luck if luck < 0.97:
            return timedelta(seconds=chance.randrange(60, 720))
        case _:
            return timedelta(minutes=chance.randrange(30, 110))


_MILLISECOND = timedelta(milliseconds=1)
