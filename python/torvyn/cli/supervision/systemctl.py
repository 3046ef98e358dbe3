"""The commands of systemd: `systemctl`, `journalctl` and `loginctl`, for the user or the system."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from torvyn._io.supervision import is_systemd_running
from torvyn.errors import MissingError, UsageError

SYSTEM_FOLDER: Final = Path("/etc/systemd/system")
_PROPERTIES: Final = (
    "LoadState", "ActiveState", "SubState", "UnitFileState", "Result", "StatusText", "MainPID",
    "NRestarts", "MemoryCurrent", "CPUUsageNSec", "ActiveEnterTimestamp",
)  # fmt: skip
_TIMEOUT_S: Final = 60


class Systemd:
    """systemd as one user sees it: the manager of the system, or the user's own."""

    def __init__(self, is_system: bool) -> None:
        self.is_system = is_system
        self._scope = () if is_system else ("--user",)

    @property
    def unit_folder(self) -> Path:
        if self.is_system:
            return SYSTEM_FOLDER
        home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
        return Path(home, "systemd", "user")

    def require(self) -> None:
        """Raises if systemd does not manage this machine."""
        if is_systemd_running() and shutil.which("systemctl"):
            return
        raise MissingError(
            "cli.no-systemd",
            "systemd does not run on this machine",
            hint="`torvyn service install --print` prints the unit, for another machine; here, "
            "start `torvyn run` with the service manager that you have",
        )

    def control(self, *arguments: str) -> None:
        """Runs `systemctl`; raises if it fails."""
        command = ("systemctl", *self._scope, *arguments)
        done = _run(*command)
        if done.returncode:
            reason = done.stderr.strip() or f"exit code {done.returncode}"
            message = f"`{' '.join(command)}` failed: {reason}"
            raise UsageError("cli.systemd-failed", message)

    def properties(self, unit: str) -> dict[str, str]:
        """What systemd knows about a unit."""
        done = _run("systemctl", *self._scope, "show", f"--property={','.join(_PROPERTIES)}", unit)
        return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)

    def journal(self, unit: str, lines: int, is_followed: bool) -> subprocess.Popen[str]:
        """The log of a unit, one JSON object of the journal per line."""
        scope = "--unit" if self.is_system else "--user-unit"
        more = ("--follow",) if is_followed else ()
        command = ["journalctl", scope, unit, "--output=json", f"--lines={lines}", *more]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def ends_at_logout(self) -> bool:
        """Whether the user's units end when the user logs out."""
        if self.is_system:
            return False
        done = _run("loginctl", "show-user", str(os.getuid()), "--property=Linger")
        return done.stdout.strip() != "Linger=yes"


def version() -> int | None:
    """The version of systemd; None if it is not installed."""
    for program in ("systemctl", "systemd-analyze"):
        if shutil.which(program):
            found = re.match(r"systemd (\d+)", _run(program, "--version").stdout)
            if found:
                return int(found[1])
    return None


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))
