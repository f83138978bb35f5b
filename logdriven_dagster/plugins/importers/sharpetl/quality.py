"""Quality rules and notifications of Sharp ETL's workflows."""

import re
from collections.abc import Mapping
from pathlib import Path

import yaml

from logdriven_dagster.config.models.notifications import EmailRecipient
from logdriven_dagster.config.models.rules import ALIASES
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.yaml.bounds import read_yaml
from logdriven_dagster.errors import UsageError
from logdriven_dagster.plugins.importers.drafts import Values
from logdriven_dagster.plugins.importers.sharpetl.context import Context, SharpEtlRule
from logdriven_dagster.plugins.importers.sharpetl.parser import Header, Step

_RULES = re.compile(r"column\.(?P<column>.+)\.qualityCheckRules")
_OCCASIONS = {"FAILURE": "failure", "SUCCESS": "success", "ALWAYS": "always"}


def read_rules(path: Path | None) -> dict[str, SharpEtlRule]:
    """Return the rules of a `quality-check.yaml` by name. Raises UsageError if it is invalid."""
    if path is None:
        return {}
    try:
        items = read_yaml(path.read_text(encoding="utf-8"))[1] or []
        return {
            item["dataCheckType"]: SharpEtlRule(str(item["rule"]), str(item["errorType"]).lower())
            for item in items
        }
    except (OSError, UnicodeDecodeError, yaml.YAMLError, TypeError, KeyError) as error:
        raise UsageError(f"--quality-check: {path} cannot be read: {error}") from None


def quality(context: Context, step: Step) -> Values | None:
    """Return the quality requirements of a step; unknown rules are recorded."""
    options = step.source.options
    columns: dict[str, list[object]] = {}
    for key, header in options.items():
        if match := _RULES.fullmatch(key):
            found = (_rule(context, header, name.strip()) for name in header.value.split(","))
            if rules := [rule for rule in found if rule is not None]:
                columns[match["column"]] = rules
    if not any(_RULES.fullmatch(key) for key in options):
        return None
    identity = options["idColumn"].value if "idColumn" in options else "id"
    names = [name.strip() for name in identity.split(",")]
    newest = options["sortColumn"].value if "sortColumn" in options else ""
    ascending = "desc" in options and options["desc"].value.lower() == "false"
    direction = "asc" if ascending else "desc"
    order = [f"{name.strip()} {direction}" for name in (newest or names[0]).split(",")]
    if "topN" in options:
        context.leave(options["topN"].line, "topN", "the log always holds the first 1,000 ids")
    return {
        "id": names,
        "deduplicate_order_by": ", ".join(order),
        **({"columns": columns} if columns else {}),
    }


def _rule(context: Context, header: Header, name: str) -> object:
    """Return one rule: a built-in rule, or the definition in the workflow's rules file."""
    level = re.search(r"\((warn|error)\)\s*$", name)
    short = name[: level.start()].strip() if level else name
    known = context.rules.get(name)
    if name in context.project.config.quality_rules:
        return name
    if short in ALIASES:
        given = known.level if known else level[1] if level else None
        return short if given in (None, ALIASES[short].level) else {"rule": short, "level": given}
    if known is None:
        reason = (
            "the rule is not in a quality-check.yaml; set the file of Sharp ETL with "
            "--quality-check"
        )
        context.leave(header.line, name, reason)
        return None
    if known.text.startswith("UDR.") or "powerNullCheck" in known.text:
        context.leave(header.line, name, f"{known.text} is Scala; write the rule in Python")
        return None
    text = known.text.replace("`$column`", ":column").replace("$column", ":column")
    return {"rule": name, "fails_when": text, "level": known.level}


def notify(context: Context) -> list[Values]:
    """Return the notify rules of the table; addresses without a recipient are recorded."""
    rules: list[Values] = []
    for entries in context.workflow.notifies:
        line = min(entry.line for entry in entries.values()) if entries else 1
        condition = entries["notifyCondition"].value if "notifyCondition" in entries else "FAILURE"
        addresses = entries["recipients"].value.split(",") if "recipients" in entries else []
        names = []
        for address in map(str.strip, addresses):
            if (name := _recipient(context.project, address)) is not None:
                names.append(name)
            else:
                reason = "no recipient in logdriven.yaml has this address; add one, with its server"
                context.leave(line, f"notify {address}", reason)
        if condition.upper() not in _OCCASIONS:
            context.leave(line, f"notifyCondition={condition}", "unknown condition")
        elif names:
            rules.append({"to": names, "on": _OCCASIONS[condition.upper()]})
    return rules


def _recipient(project: Project, address: str) -> str | None:
    recipients: Mapping[str, object] = project.config.recipients
    for name, recipient in recipients.items():
        if isinstance(recipient, EmailRecipient) and address in recipient.to:
            return name
    return None
