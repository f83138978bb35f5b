"""Blocks of `logdriven.yaml`, whose secrets stand in the environment."""

import os
from collections.abc import Mapping

_SECRETS = ("access-key-id", "secret-access-key", "credential")


def with_secrets_outside(block: Mapping[str, str]) -> dict[str, str]:
    """The block as a project may hold it; its secrets go into the environment of this process."""
    outside = {}
    for name, value in block.items():
        if name.endswith(_SECRETS):
            variable = name.upper().replace(".", "_").replace("-", "_")
            os.environ[variable] = value
            outside[name] = f"${{env:{variable}}}"
    return {**block, **outside}
