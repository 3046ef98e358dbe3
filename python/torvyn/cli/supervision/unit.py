"""The systemd unit of a flow, as text.

A unit of a user is limited by what the kernel lets users do: system calls are filtered, but the
file system is the user's. A unit of the system also sees a read-only file system, no devices but
those you name, and no other processes. `MemoryDenyWriteExecute` is in neither, because the sandbox
compiles components to machine code.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PREFIX: Final = "torvyn-"
STEPS_SINCE: Final = 254
"""The version of systemd in which the delays between restarts can grow."""

_FIRST_RESTART_S: Final = 1
_LAST_RESTART_S: Final = 60
_ONLY_RESTART_S: Final = 5
"""For an older systemd, which always waits for the same time."""

_FILTERS: Final = (
    "NoNewPrivileges=yes",
    "LockPersonality=yes",
    "RestrictNamespaces=yes",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "SystemCallArchitectures=native",
    "SystemCallFilter=@system-service",
    "UMask=0077",
)
_ISOLATION: Final = (
    "CapabilityBoundingSet=",
    "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
    "PrivateTmp=yes",
    "ProtectClock=yes",
    "ProtectControlGroups=yes",
    "ProtectHostname=yes",
    "ProtectKernelLogs=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelTunables=yes",
    "ProtectProc=invisible",
    "ProtectSystem=strict",
    "RemoveIPC=yes",
)


@dataclass(frozen=True, slots=True)
class Unit:
    """What a unit depends on; the folders are absolute."""

    name: str
    description: str
    command: tuple[str, ...]
    folder: Path
    """The working directory: the project."""
    is_system: bool = False
    user: str | None = None
    """The user of a unit of the system; None means one that exists only while it runs."""
    watchdog_s: float = 60.0
    stop_s: float = 30.0
    memory_max_bytes: int | None = None
    cpu_quota_percent: int | None = None
    environment_file: Path | None = None
    writable: tuple[Path, ...] = ()
    devices: tuple[Path, ...] = ()
    has_state_dir: bool = False
    systemd_version: int | None = None
    """None if it is unknown: a key that systemd does not know is ignored, with a warning."""

    @property
    def file_name(self) -> str:
        return f"{PREFIX}{self.name}.service"

    def render(self) -> str:
        """The text of the unit file."""
        target = "multi-user.target" if self.is_system else "default.target"
        sections = {
            "Unit": (f"Description={_escape(self.description)}", "StartLimitIntervalSec=0"),
            "Service": (*self._process(), *self._restart(), *self._folders(), *self._limits()),
            "Install": (f"WantedBy={target}",),
        }
        blocks = ["\n".join((f"[{name}]", *lines)) for name, lines in sections.items()]
        return "\n\n".join(blocks) + "\n"

    def _process(self) -> Iterable[str]:
        yield "Type=notify"
        yield f"ExecStart={' '.join(_quote(word) for word in self.command)}"
        if "run" in self.command:
            program = self.command[: self.command.index("run")]
            yield f"ExecReload={' '.join(map(_quote, program))} reload $MAINPID --yes"
        yield f"WorkingDirectory={_escape(str(self.folder))}"
        if self.environment_file is not None:
            yield f"EnvironmentFile={_escape(str(self.environment_file))}"
        if self.is_system:
            yield "DynamicUser=yes" if self.user is None else f"User={self.user}"
        yield "TimeoutStartSec=300"
        yield f"TimeoutStopSec={self.stop_s:.0f}"
        yield "KillMode=mixed"
        # The exit code after SIGTERM.
        yield "SuccessExitStatus=143"

    def _restart(self) -> Iterable[str]:
        # The flow feeds the watchdog while it works, not while its process is alive. SIGTERM lets
        # it drain what can still be drained.
        yield f"WatchdogSec={self.watchdog_s:g}"
        yield "WatchdogSignal=SIGTERM"
        yield "Restart=on-failure"
        # 2: the manifest or the command line is wrong. A restart would not change that.
        yield "RestartPreventExitStatus=2"
        if self.systemd_version is not None and self.systemd_version < STEPS_SINCE:
            yield f"RestartSec={_ONLY_RESTART_S}"
            return
        yield f"RestartSec={_FIRST_RESTART_S}"
        yield "RestartSteps=6"
        yield f"RestartMaxDelaySec={_LAST_RESTART_S}"

    def _folders(self) -> Iterable[str]:
        own = f"{PREFIX}{self.name}"
        yield f"StateDirectory={own}"
        yield f"CacheDirectory={own}"
        yield f"RuntimeDirectory={own}"
        yield f"Environment=TORVYN_RUNTIME__CACHE_DIR=%C/{own}"
        if self.has_state_dir:
            yield f"Environment=TORVYN_RUNTIME__STATE_DIR=%S/{own}"

    def _limits(self) -> Iterable[str]:
        yield "LimitNOFILE=65536"
        if self.memory_max_bytes is not None:
            yield f"MemoryMax={self.memory_max_bytes}"
        if self.cpu_quota_percent is not None:
            yield f"CPUQuota={self.cpu_quota_percent}%"
        yield from _FILTERS
        if self.is_system:
            yield from _ISOLATION
            yield from self._access()

    def _access(self) -> Iterable[str]:
        homes, needed = (Path("/home"), Path("/root")), (self.folder, Path(self.command[0]))
        is_at_home = any(path.is_relative_to(home) for home in homes for path in needed)
        yield "ProtectHome=read-only" if is_at_home else "ProtectHome=yes"
        for path in self.writable:
            yield f"ReadWritePaths={_escape(str(path))}"
        if not self.devices:
            yield "PrivateDevices=yes"
            return
        yield "DevicePolicy=closed"
        yield "SupplementaryGroups=dialout"
        for device in self.devices:
            yield f"DeviceAllow={_escape(str(device))} rw"


def _escape(text: str) -> str:
    """systemd expands `%` in all values."""
    return text.replace("%", "%%")


def _quote(word: str) -> str:
    """A word of a command line, which also expands `$`."""
    escaped = _escape(word).replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{escaped}"' if any(mark in word for mark in " \t;'\"\\") or not word else escaped
