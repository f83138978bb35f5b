"""A new project folder: a small shop whose orders end yesterday, so that it runs right away."""

import re
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

from logdriven_dagster.config.scaffolding.schemas import write_schemas
from logdriven_dagster.errors import UsageError

_TEMPLATES = Path(__file__).parent / "templates"
_DAYS = 3
_ORDERS_A_DAY = 24
_CUSTOMERS = (
    (1, "Ada", "GB"),
    (2, "Blaise", "FR"),
    (3, "Carl Friedrich", "DE"),
    (4, "Emmy", "DE"),
)


def scaffold(folder: Path, today: date) -> list[Path]:
    """Write a project into a new or empty folder and return its files, relative to it.

    Its tables start three days before `today`. Raises UsageError if the folder is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is not an empty folder; name a new one")
    start = today - timedelta(days=_DAYS)
    values = {
        "project": _derive_project_name(folder),
        "start": str(start),
        "second_day": str(start + timedelta(days=1)),
    }
    contents = {path: _fill_placeholders(text, values) for path, text in _read_templates()}
    contents[".gitignore"] = ".logdriven/\n__pycache__/\n"
    contents["data/orders.csv"] = "\n".join(_generate_orders(start)) + "\n"
    contents["data/customers.csv"] = "\n".join(_generate_customers()) + "\n"
    for name, text in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    write_schemas(folder)
    return [Path(name) for name in sorted(contents)]


def _derive_project_name(folder: Path) -> str:
    name = re.sub(r"\W+", "_", folder.resolve().name, flags=re.ASCII).strip("_")
    return (name if re.match(r"[A-Za-z]", name) else f"project_{name}".rstrip("_"))[:64]


def _read_templates() -> Iterator[tuple[str, str]]:
    for path in sorted(_TEMPLATES.rglob("*.*")):
        yield path.relative_to(_TEMPLATES).as_posix(), path.read_text(encoding="utf-8")


def _fill_placeholders(text: str, values: dict[str, str]) -> str:
    """Replace `{{name}}` placeholders; `${name}` belongs to the project and stays."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], text)


def _generate_orders(start: date) -> Iterator[str]:
    yield "order_id,customer_id,ordered_at,amount"
    for n in range(_DAYS * _ORDERS_A_DAY):
        day, hour = divmod(n, _ORDERS_A_DAY)
        instant = f"{start + timedelta(days=day)} {hour:02}:{n * 7 % 60:02}:00"
        customer, cents = 1 + n * 5 % len(_CUSTOMERS), 500 + n * 7919 % 20_000
        yield f"{n + 1},{customer},{instant},{cents // 100}.{cents % 100:02}"


def _generate_customers() -> Iterator[str]:
    yield "customer_id,name,country"
    for customer in _CUSTOMERS:
        yield ",".join(map(str, customer))
