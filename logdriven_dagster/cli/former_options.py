"""Former names of options: they work, and print a hint to standard error."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import typer


@dataclass(frozen=True, slots=True)
class FormerOption:
    """A former name of an option, for the commands that have the option."""

    name: str
    option: str
    """The current name."""
    value: str | None = None
    """The value of the option that a former flag stands for."""
    command: str | None = None
    """The only command that had this name; None: every command with the option."""

    @property
    def replacement(self) -> str:
        """The current spelling."""
        return self.option if self.value is None else f"{self.option} {self.value}"


FORMER_OPTIONS: tuple[FormerOption, ...] = (
    FormerOption("--as", "--operator"),
    FormerOption("--at-once", "--force"),
    FormerOption("--deep", "--analyze"),
    FormerOption("--from", "--window", command="discard"),
    FormerOption("--latest", "--retry-version", "latest"),
    FormerOption("--recorded", "--retry-version", "recorded"),
)


class Command(typer.core.TyperCommand):
    """A command that also accepts the former names of its options.

    Former names are not in its help. A former and a current name at once are an error.
    """

    def make_parser(self, ctx: Any) -> Any:
        """Return the parser, which replaces former names by the current ones."""
        parser: Any = super().make_parser(ctx)
        former = list(self._find_former(ctx))
        for each, option in former:
            is_flag = each.value is not None or option.is_flag
            parser.add_option(
                obj=option,
                opts=[each.name],
                dest=each.name,
                action="store_const" if is_flag else "store",
                nargs=1,
                const=True if each.value is None else each.value,
            )
        parse = parser.parse_args

        def parse_args(args: list[str]) -> tuple[dict[str, Any], list[str], list[Any]]:
            given, rest, order = parse(args=args)
            for each, option in former:
                if each.name in given:
                    _replace(each, option, given)
            return given, rest, order

        parser.parse_args = parse_args
        return parser

    def _find_former(self, ctx: Any) -> Iterator[tuple[FormerOption, Any]]:
        options = {name: option for option in self.get_params(ctx) for name in option.opts}
        for each in FORMER_OPTIONS:
            is_of_command = each.command in (None, self.name)
            if each.option in options and is_of_command:
                yield each, options[each.option]


def _replace(former: FormerOption, option: Any, given: dict[str, Any]) -> None:
    """Replace a former name in the parsed options, and print a hint."""
    value = given.pop(former.name)
    if option.name in given:
        problem = f"{former.option} and its former name {former.name} exclude each other"
        raise typer.BadParameter(f"{problem}; remove {former.name}")
    given[option.name] = value
    typer.echo(f"Warning: {former.name} was renamed; write {former.replacement}", err=True)
