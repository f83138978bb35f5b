"""Rich's console, restricted to its own escape sequences."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from logdriven_dagster.cli.shown.control_characters import escape_control_characters


class Terminal(Console):
    """A console that escapes control characters in its output."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Return Rich's segments with control characters in their texts escaped."""
        for segment in super().render(renderable, options):
            yield (
                segment
                if segment.control
                else segment._replace(text=escape_control_characters(segment.text))
            )
