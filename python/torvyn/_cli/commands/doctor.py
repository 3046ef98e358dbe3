"""`torvyn doctor`: checks this machine and reports what is missing."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Final

from torvyn._cli.command import command as make_command
from torvyn._cli.screen import Screen

MISSING: Final = 3
_CLUSTER_PACKAGES: Final = (("ray", "ray"), ("nats", "nats-py"))
_FEW_FILES: Final = 1024
MiB: Final = 1024 * 1024
_LITTLE_BYTES: Final = 128 * MiB


@dataclass(frozen=True, slots=True)
class Finding:
    what: str
    status: str
    """`ok`, `warn` (Torvyn works, but check this) or `fail` (a requirement is missing)."""
    text: str
    hint: str | None = None


@make_command("doctor", example="torvyn doctor --format json")
def command(screen: Screen) -> int:
    """Check this machine and report what is missing.

    The exit code is 3 if a requirement of Torvyn is missing.
    """
    findings = [*all_findings()]
    failed = any(finding.status == "fail" for finding in findings)
    if screen.is_json:
        screen.document({"ok": not failed, "findings": [asdict(finding) for finding in findings]})
    else:
        width = max(len(finding.what) for finding in findings)
        for finding in findings:
            screen.data(f"{_mark(screen, finding)}  {finding.what.ljust(width)}  {finding.text}")
            if finding.hint:
                screen.data(f"{' ' * (width + 8)}hint: {finding.hint}")
    return MISSING if failed else 0


def _mark(screen: Screen, finding: Finding) -> str:
    style = {"ok": "bold", "warn": "warning", "fail": "error"}[finding.status]
    return screen.paint(finding.status.ljust(4), style, sys.stdout)


def all_findings() -> Iterator[Finding]:
    yield _python()
    yield _native()
    yield _parts()
    yield _cores()
    yield _memory()
    yield _service_manager()
    yield _open_files()
    yield _user_config()
    yield _cluster()
    yield from _local_cluster()
    yield _manifest()
    yield from _installed_components()


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding("python", "ok", f"{version} at {sys.executable}")


def _native() -> Finding:
    import importlib

    try:
        module = importlib.import_module("torvyn._native")
    except ImportError as error:
        hint = "install torvyn again: `make build` in a checkout, or the wheel"
        return Finding("native module", "fail", f"cannot be loaded: {error}", hint)
    return Finding("native module", "ok", str(module.__file__))


def _parts() -> Finding:
    from torvyn._io.native_parts import PARTS, built_in

    parts = built_in()
    missing = [part for part in PARTS if part not in parts]
    text = ", ".join(("core", *parts))
    if not missing:
        return Finding("built in", "ok", text)
    hint = "`make build` builds all but `cross`, `pip install .` builds all"
    return Finding("built in", "ok", f"{text}; not built: {', '.join(missing)}", hint)


def _cores() -> Finding:
    from torvyn._io.resources import read_resources

    found = read_resources()
    quota = found.limits.cpus
    limited = "" if quota is None else f", limited to {quota:g} by its control group"
    return Finding("cores", "ok", f"{found.cores}{limited}")


def _memory() -> Finding:
    from torvyn._io.resources import read_resources

    found = read_resources()
    limits, total = found.limits, found.memory_bytes
    if total is None:
        return Finding("memory", "ok", "unknown: this system has no /proc/meminfo")
    if not found.is_memory_limited:
        return Finding("memory", "ok", f"{total // MiB} MiB, no limit by a control group")
    used = (limits.memory_used_bytes or 0) // MiB
    text = f"{total // MiB} MiB by its control group (version {limits.version}), {used} MiB in use"
    if total < _LITTLE_BYTES:
        hint = "the runtime alone takes about 40 MiB, each sandboxed component more"
        return Finding("memory", "warn", text, hint)
    return Finding("memory", "ok", text)


def _service_manager() -> Finding:
    from torvyn._io.supervision import is_systemd_running

    if is_systemd_running():
        return Finding("systemd", "ok", "running; `torvyn service install` starts a flow with it")
    return Finding("systemd", "ok", "not running: `torvyn service` can only print its unit here")


def _open_files() -> Finding:
    from torvyn._io.resources import open_file_limits

    soft, hard = open_file_limits()
    text = "no limit" if soft == resource.RLIM_INFINITY else str(soft)
    if soft != hard:
        most = "no limit" if hard == resource.RLIM_INFINITY else str(hard)
        text += f"; `torvyn serve` raises it to {most}"
    if soft != resource.RLIM_INFINITY and soft < _FEW_FILES:
        hint = f"raise the limit with `ulimit -n`, up to {hard}; a running flow needs two files"
        return Finding("open files", "warn", text, hint)
    return Finding("open files", "ok", text)


def _user_config() -> Finding:
    from torvyn._manifest.settings import user_config

    path = user_config(os.environ)
    if path is None:
        return Finding("user config", "warn", "no home folder", "set HOME or XDG_CONFIG_HOME")
    return Finding("user config", "ok", str(path) if path.exists() else f"none at {path}")


def _manifest() -> Finding:
    if not os.path.exists("Torvyn.toml"):
        return Finding("manifest", "ok", "none in this folder")
    from torvyn._cli.target import memory_warnings
    from torvyn._link.project_linker import ProjectLinker

    linker = ProjectLinker.open("Torvyn.toml")
    problems = linker.check()
    if not problems:
        plans = linker.plans(linker.manifest.flows).values()
        for warning in memory_warnings(*([plan] for plan in plans)):
            return Finding("manifest", "warn", f"Torvyn.toml: {warning.message}", warning.hint)
        return Finding("manifest", "ok", "Torvyn.toml")
    hint = "run `torvyn check` for the list"
    return Finding("manifest", "warn", f"Torvyn.toml has {len(problems)} problem(s)", hint)


def _cluster() -> Finding:
    from importlib.util import find_spec

    from torvyn._cluster.broker import find_server, server_version
    from torvyn.errors import MissingError, install_hint

    missing = [name for module, name in _CLUSTER_PACKAGES if find_spec(module) is None]
    try:
        server = f"nats-server {server_version(find_server())}"
    except MissingError:
        missing.append("nats-server")
    if missing:
        hint = f"for flows on several machines: {install_hint('cluster')}"
        return Finding("cluster", "ok", f"not installed: {', '.join(missing)}", hint)
    return Finding("cluster", "ok", f"ray {version('ray')}, nats-py {version('nats-py')}, {server}")


def _local_cluster() -> Iterator[Finding]:
    """What `torvyn cluster up` started; nothing if it started nothing."""
    from torvyn._io.local_cluster import UnreadableState, read_state, state_folder

    folder = state_folder()
    try:
        state = read_state(folder)
    except UnreadableState as error:
        text = f"the state file in {folder} {error}"
        yield Finding("local cluster", "warn", text, "see `torvyn cluster status`")
        return
    for name, part in (("broker", state.broker), ("local Ray", state.ray)):
        if part is not None and part.process.is_running:
            yield Finding(name, "ok", f"{part.address}, process {part.process.pid}")
        elif part is not None:
            hint = "start it again: torvyn cluster up"
            yield Finding(name, "warn", f"{part.address}: its process has ended", hint)


def _installed_components() -> Iterator[Finding]:
    from importlib.metadata import entry_points

    points = sorted(entry_points(group="torvyn.components"), key=lambda point: point.name)
    if not points:
        yield Finding("components", "ok", "built-in only")
    for point in points:
        try:
            point.load()
        except Exception as error:
            text = f"`{point.name}` ({point.value}) cannot be loaded: {error}"
            yield Finding("components", "warn", text, "update or uninstall its package")
        else:
            yield Finding("components", "ok", f"`{point.name}` ({point.value})")
