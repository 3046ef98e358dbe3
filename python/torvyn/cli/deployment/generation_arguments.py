"""The arguments with which a generation is linked and run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from torvyn.edge.generations import Deployment, GenerationRecord
    from torvyn.edge.generations.settings import DeploymentSettings

_CHECK_S: Final = 300.0


def generation_command(
    deployment: Deployment,
    settings: DeploymentSettings,
    record: GenerationRecord,
    format: str = "json",
    *,
    is_check: bool = False,
) -> list[str]:
    """`torvyn run` or `torvyn serve` for the project of a generation, with the overrides of its
    deployment; or the command that only checks it."""
    from torvyn.artifact.prepare import is_unpacked

    project = deployment.project(record.number)
    words = [sys.executable, "-m", "torvyn", settings.command]
    if settings.command == "run":
        words += ["--all"] if settings.is_all else [f"flow.{name}" for name in settings.flows]
    words += ["--check"] if is_check else []
    words += ["--artifact" if is_unpacked(project) else "--manifest", str(project)]
    words += ["--trusted"] if record.is_trusted else []
    for option, pairs in (("--config", settings.config), ("--set", settings.settings)):
        words += [word for key, value in pairs.items() for word in (option, f"{key}={value}")]
    # Stored elements and checkpoints stay when the generation goes.
    return [*words, "--set", f"runtime.state_dir={deployment.data}", "--format", format]


def problem_of(
    deployment: Deployment, settings: DeploymentSettings, record: GenerationRecord
) -> str | None:
    """Why its flows cannot be linked; None if they can. In a process of its own: components run
    code when they are loaded."""
    try:
        done = subprocess.run(
            generation_command(deployment, settings, record, is_check=True),
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
        return f"the check ended with {done.returncode}"
