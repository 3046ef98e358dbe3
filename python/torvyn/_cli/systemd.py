"""The systemd units of flows and deployments, and the commands of systemd.

A unit of a user is limited by what the kernel lets users do: system calls are filtered, but the
file system is the user's. A unit of the system also sees a read-only file system, no devices but
those you name, and no other processes. `MemoryDenyWriteExecute` is in neither, because the sandbox
compiles components to machine code.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from torvyn._cli.target import Target, duration_s, manifest_path
from torvyn._io.supervision import is_systemd_running
from torvyn.errors import MissingError, UsageError

if TYPE_CHECKING:
    from torvyn._deploy.deployment import Deployment
    from torvyn._deploy.settings import DeploymentSettings
    from torvyn._link.plan import Plan
    from torvyn._link.project_linker import ProjectLinker

_EXCHANGE_S: Final = 15.0
"""For the process around the flows, after the last of them has ended."""


def plan_deployment(
    deployment: Deployment, name: str | None, is_system: bool, options: dict[str, Any]
) -> Installation:
    """Links the current generation, so that one that cannot run is not installed."""
    from torvyn._deploy.failures import no_generation

    current = deployment.state().current
    if current is None:
        raise no_generation(deployment.name)
    linker, settings = _linker(deployment, current)
    if settings.command == "serve":
        from torvyn.transport.services import served_plans

        plans = tuple(served_plans(linker).values())
        stop_s = linker.settings["serve.shutdown_grace"]
    else:
        plans = linker.plans_of(None if settings.is_all else settings.flows)
        stop_s = max(plan.stop_limit_s for plan in plans)
    command = [sys.executable, "-m", "torvyn", "deploy", "run", deployment.name]
    command += ["--root", str(deployment.folder.parent), "--format", "json"]
    fields = unit_fields(options, is_system)
    fields["writable"] = (*fields["writable"], deployment.folder) if is_system else ()
    if is_system and fields["user"] is None:
        message = "a deployment needs a user that owns its folder"
        hint = f"name one with --user; it must own {deployment.folder}"
        raise UsageError("cli.bad-usage", message, hint=hint)
    unit = Unit(
        name or deployment.name,
        f"Torvyn deployment {deployment.name}",
        tuple(command),
        deployment.data,
        is_system=is_system,
        stop_s=stop_s + _EXCHANGE_S,
        systemd_version=version(),
        **fields,
    )
    return Installation(unit, plans, linker.manifest.variables)


def _linker(deployment: Deployment, number: int) -> tuple[ProjectLinker, DeploymentSettings]:
    from torvyn._artifact.unpack import is_unpacked, prepare
    from torvyn._deploy.settings import DeploymentSettings
    from torvyn._link.overrides import Overrides
    from torvyn._link.project_linker import ProjectLinker

    settings = DeploymentSettings.read(deployment.settings_file)
    project = deployment.project(number)
    files = prepare(str(project), Path()).files if is_unpacked(project) else None
    overrides = Overrides(dict(settings.config), dict(settings.settings), packed_files=files)
    return ProjectLinker.open(project / "Torvyn.toml", overrides), settings


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


Function = TypeVar("Function", bound=Callable[..., Any])


def unit_options(function: Function) -> Function:
    """The options of the unit itself."""
    options = (
        click.option(
            "--user",
            metavar="NAME",
            help="The user of a --system unit; by default one that exists only while it runs.",
        ),
        click.option(
            "--watchdog",
            default="60s",
            show_default=True,
            metavar="DURATION",
            help="Restart the flow if it stands still for this long.",
        ),
        click.option("--memory-max", metavar="SIZE", help="The most memory, such as 512MiB."),
        click.option(
            "--cpu-quota",
            type=click.IntRange(min=1),
            metavar="PERCENT",
            help="The most CPU time, in percent of one CPU.",
        ),
        click.option(
            "--environment-file",
            metavar="FILE",
            help="A file with the variables that the manifest uses, as NAME=VALUE lines.",
        ),
        click.option(
            "--writable",
            multiple=True,
            metavar="FOLDER",
            help="A folder that a --system unit may write to. Repeatable.",
        ),
        click.option(
            "--device",
            "devices",
            multiple=True,
            metavar="PATH",
            help="A device that a --system unit may use, such as /dev/ttyUSB0. Repeatable.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


@dataclass(frozen=True)
class Installation:
    """A unit, and what must be known before it is installed."""

    unit: Unit
    plans: tuple[Plan, ...]
    variables: frozenset[str]
    """The environment variables that the manifest uses."""


def plan_installation(
    target: Target,
    arguments: dict[str, tuple[str, ...]],
    name: str | None,
    is_system: bool,
    options: dict[str, Any],
) -> Installation:
    """Links the flows, so that one that cannot run is not installed, and describes their unit."""
    from torvyn._manifest.setting_records import RUNTIME

    linker = target.linker()
    plans = linker.plans_of(None if target.is_all else target.flows)
    names = [plan.name for plan in plans]
    project = linker.manifest.project.name
    manifest = Path(target.manifest).resolve()
    command = [sys.executable, "-m", "torvyn", "run"]
    command += ["--all"] if target.is_all else [f"flow.{name}" for name in names]
    command += ["--manifest", str(manifest), "--format", "json"]
    for option, values in arguments.items():
        command += [word for value in values for word in (option, value)]
    unit = Unit(
        name or unit_name(project, names, len(linker.manifest.flows)),
        f"Torvyn flow{'' if len(names) == 1 else 's'} {', '.join(names)} of {project}",
        tuple(command),
        manifest.parent,
        is_system=is_system,
        stop_s=max(plan.stop_limit_s for plan in plans),
        has_state_dir="state_dir" in RUNTIME.by_name,
        systemd_version=version(),
        **unit_fields(options, is_system),
    )
    return Installation(unit, plans, linker.manifest.variables)


def possible_names(manifest: str) -> list[str]:
    """The names that units of the project in a folder may have: of all its flows, of each."""
    from torvyn._link.project_linker import ProjectLinker

    path = manifest_path(manifest)
    if not path.exists():
        message = f"there is no {path}, and you did not name the service"
        hint = "name it, or run the command in the folder of its project"
        raise UsageError("cli.bad-usage", message, hint=hint)
    found = ProjectLinker.open(path).manifest
    flows = [*found.flows]
    project = found.project.name
    return [unit_name(project, names, len(flows)) for names in (flows, *([name] for name in flows))]


def unit_name(project: str, names: Sequence[str], flows: int) -> str:
    """The project's name for all its flows, else with those of the flows."""
    return project if len(names) == flows else "-".join((project, *names))


def unit_fields(options: dict[str, Any], is_system: bool) -> dict[str, Any]:
    for option in ("user", "writable", "devices"):
        if options[option] and not is_system:
            flag = "--device" if option == "devices" else f"--{option}"
            message = f"`{flag}` is for a unit of the system"
            hint = "add --system; a unit of a user has that user's rights"
            raise UsageError("cli.bad-usage", message, hint=hint)
    file = options["environment_file"]
    return {
        "user": options["user"],
        "watchdog_s": duration_s("--watchdog", options["watchdog"]),
        "memory_max_bytes": _size_bytes("--memory-max", options["memory_max"]),
        "cpu_quota_percent": options["cpu_quota"],
        "environment_file": None if file is None else Path(file).resolve(),
        "writable": tuple(Path(path).resolve() for path in options["writable"]),
        "devices": tuple(Path(path) for path in options["devices"]),
    }


def _size_bytes(option: str, text: str | None) -> int | None:
    from torvyn._contract.units import parse_size_bytes

    try:
        return None if text is None else parse_size_bytes(text)
    except ValueError as error:
        raise UsageError("cli.bad-value", f"`{option}`: {error}") from None
