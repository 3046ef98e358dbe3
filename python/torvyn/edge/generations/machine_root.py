"""The folder of all deployments of a machine, or of a user."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from torvyn.edge.failures import bad_name, unknown_deployment
from torvyn.edge.generations.deployment import Deployment

_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")


def default_root() -> Path:
    """That of the machine for root, else the user's folder for state."""
    if os.geteuid() == 0:
        return Path("/var/lib/torvyn/deployments")
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state, "torvyn", "deployments")


def deployments(root: Path) -> list[Deployment]:
    """All deployments, by name."""
    if not root.is_dir():
        return []
    found = (Deployment(folder) for folder in root.iterdir() if _NAME.fullmatch(folder.name))
    return sorted((each for each in found if each.exists), key=lambda each: each.name)


def open_deployment(root: Path, name: str) -> Deployment:
    """The deployment, whether it exists or not."""
    if not _NAME.fullmatch(name):
        raise bad_name(name)
    return Deployment(root / name)


def find_deployment(root: Path, name: str) -> Deployment:
    deployment = open_deployment(root, name)
    if not deployment.exists:
        raise unknown_deployment(name, root, [each.name for each in deployments(root)])
    return deployment
