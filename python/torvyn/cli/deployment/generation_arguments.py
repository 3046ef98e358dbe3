"""The arguments with which a generation is linked and run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from torvyn.edge.generations import Deployment
    from torvyn.edge.generations.settings import DeploymentSettings

_CHECK_S: Final = 300.0


def generation_command(
    command: str,
    deployment: Deployment,
    settings: DeploymentSettings,
    project: Path,
    format: str = "json",
) -> list[str]:
    """`torvyn run` or `torvyn link` for the project of a generation, with the overrides of its
    deployment."""
    from torvyn.artifact.prepare import is_unpacked

    words = [sys.executable, "-m", "torvyn", command]
    words += [f"flow.{settings.flow}"] if settings.flow else []
    words += ["--artifact" if is_unpacked(project) else "--manifest", str(project)]
    for option, pairs in (("--config", settings.config), ("--set", settings.settings)):
        words += [word for key, value in pairs.items() for word in (option, f"{key}={value}")]
    # Stored elements and checkpoints stay when the generation goes.
    return [*words, "--set", f"runtime.state_dir={deployment.data}", "--format", format]


def problem_of(deployment: Deployment, settings: DeploymentSettings, project: Path) -> str | None:
    """Why the flow cannot be linked; None if it can. In a process of its own: components run code
    when they are loaded."""
    try:
        done = subprocess.run(
            generation_command("link", deployment, settings, project),
            capture_output=True,
            timeout=_CHECK_S,
            check=False,
            cwd=deployment.data,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )
    except subprocess.TimeoutExpired:
        return f"it could not be linked within {_CHECK_S:.0f} s"
    if done.returncode == 0:
        return None
    try:
        problems = json.loads(done.stderr)["problems"]
        return "; ".join(each["message"] for each in problems if each["severity"] == "error")
    except (ValueError, KeyError, TypeError):
        return f"`torvyn link` ended with {done.returncode}"
