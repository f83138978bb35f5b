"""Rich's console, whose own colours are the only escapes that it writes."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from logdriven_dagster.cli.shown.control_characters import visible


class Terminal(Console):
    """A console that shows the control characters of what it prints."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """What Rich makes of it, its texts without effect on a terminal."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))
