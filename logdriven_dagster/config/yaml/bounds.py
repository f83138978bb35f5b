"""Limits for untrusted YAML: a small text never expands to a huge or endless value."""

from typing import Any

import yaml

SAFE_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_MOST_REPEATED = 100_000
"""Maximum number of additional values that aliases may expand to."""
_DEEPEST = 100
_TOO_DEEP = f"it is nested more than {_DEEPEST} levels deep"
_LIBYAML_TOO_DEEP = "exceeded maximum nesting depth"
"""Problem reported by PyYAML 6.0.4's libyaml from 1,001 levels on; older versions have no limit."""


class ExcessError(yaml.MarkedYAMLError):
    """A document that exceeds a limit; `problem` describes it."""


def read_yaml(text: str, loader: Any = SAFE_LOADER) -> tuple[yaml.Node | None, Any]:
    """Parse a document and return its nodes and its value. Raises YAMLError if it is invalid.

    Recursive aliases, excessive expansion and excessive nesting are rejected before any value is
    constructed.
    """
    reading = loader(text)
    try:
        node = reading.get_single_node()
        if node is None:
            return None, None
        _refuse_excess(node)
        return node, reading.construct_document(node)
    except RecursionError:
        raise ExcessError(problem=_TOO_DEEP) from None
    except yaml.MarkedYAMLError as error:
        if error.problem != _LIBYAML_TOO_DEEP:
            raise
        raise ExcessError(problem=_TOO_DEEP, problem_mark=error.problem_mark) from None
    finally:
        reading.dispose()


def _refuse_excess(root: yaml.Node) -> None:
    """Raise ExcessError if a document expands to too many values or levels."""
    sizes: dict[int, tuple[int, int]] = {}
    holding: set[int] = set()
    scalars: set[int] = set()
    waiting = [(root, False)]
    while waiting:
        node, seen = waiting.pop()
        if id(node) in sizes:
            continue
        parts = _parts(node)
        inner = [part for part in parts if not isinstance(part, yaml.ScalarNode)]
        if not seen:
            holding.add(id(node))
            waiting.append((node, True))
            for part in inner:
                if id(part) in holding:
                    raise _refused(part, "an alias refers to a value that contains it")
                waiting.append((part, False))
            continue
        holding.discard(id(node))
        known = [sizes[id(part)] for part in inner]
        scalars.update(id(part) for part in parts if isinstance(part, yaml.ScalarNode))
        size = 1 + len(parts) - len(inner) + sum(values for values, _ in known)
        depth = 1 + max((levels for _, levels in known), default=int(len(parts) > 0))
        if depth > _DEEPEST:
            raise _refused(node, _TOO_DEEP)
        sizes[id(node)] = (size, depth)
        if size > _MOST_REPEATED + len(sizes) + len(scalars):
            raise _refused(node, f"aliases must not repeat more than {_MOST_REPEATED:,} values")


def _parts(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _refused(node: yaml.Node, problem: str) -> ExcessError:
    return ExcessError(problem=problem, problem_mark=node.start_mark)
