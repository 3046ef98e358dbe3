"""A guest as a component that link inspects and the reactor starts. Its exports give its role.

The class has no methods of its role: the native core calls the guest directly.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from torvyn import _native
from torvyn._contract.element import Context
from torvyn._contract.enums import ConfigKind
from torvyn._contract.roles import ROLES, Component
from torvyn._io.line_output import line_prefix, write_lines
from torvyn._io.safe_text import CONTROLS, escape_controls
from torvyn._manifest.setting_records import GUEST_INIT_TIMEOUT_S, RUNTIME
from torvyn._native import NativeError, NativeStage
from torvyn._sandbox.audit import WEAKENED, Audit
from torvyn._sandbox.compiler import compile_component, to_link_error
from torvyn.errors import (
    ComponentError,
    ContractError,
    DeadlineExceeded,
    Fatal,
    Internal,
    InvalidInput,
    Unavailable,
)

if TYPE_CHECKING:
    from torvyn._native import CompiledComponent, SandboxGuest

logger = logging.getLogger("torvyn.sandbox")

_BY_KIND: dict[str, type[ComponentError]] = {
    cls.default_code.partition(".")[2]: cls
    for cls in (InvalidInput, Unavailable, Internal, DeadlineExceeded, Fatal)
}


_LOG_ESCAPES = CONTROLS | {0x0A: "\\x0a"}
"""Also escapes line ends, for the log."""


@dataclass(frozen=True, slots=True)
class GuestLimits:
    """The limits and grants of one node's guest."""

    node: str
    max_memory_bytes: int = RUNTIME.default("max_memory_per_component")
    call_timeout_s: float = RUNTIME.default("call_timeout")
    init_timeout_s: float = GUEST_INIT_TIMEOUT_S
    teardown_timeout_s: float = RUNTIME.default("teardown_timeout")
    fuel: int | None = None
    seed: int | None = None
    """The seed of clocks and random numbers; None: the real ones."""
    grants: tuple[str, ...] = ()
    """Capabilities with absolute paths."""
    audit: Audit | None = None


@dataclass(frozen=True, slots=True)
class GuestHealth:
    """Statistics of the instances of one node's guest."""

    traps: int = 0
    """Calls that trapped, and replacements that did not start."""
    state_lost: int = 0
    """Instances discarded with their state."""
    replaced: int = 0
    refused: int = 0
    """Calls rejected and pulls delayed while a guest that trapped too often was paused."""
    replace_ns: int = 0
    """The time to create the replacements, including `init`."""
    memory_bytes: int = 0
    """The linear memory of the instance after its last call."""
    hidden_lines: int = 0
    """What it printed to standard output without a grant; the log has the lines."""

    @classmethod
    def of(cls, guest: SandboxGuest, hidden_lines: int) -> GuestHealth:
        names = [each.name for each in fields(cls) if each.name != "hidden_lines"]
        return cls(**{name: getattr(guest, name) for name in names}, hidden_lines=hidden_lines)

    @property
    def mean_replace_ns(self) -> float | None:
        """The mean time to replace an instance."""
        return self.replace_ns / self.replaced if self.replaced else None


class GuestComponent(Component):
    """What guests of all roles share; `guest_class` adds the role."""

    is_guest: ClassVar[bool] = True
    config_kind = ConfigKind.TEXT.value
    """Unless the guest's notes say otherwise: its `init` takes a string."""
    path: ClassVar[Path]
    name: ClassVar[str]
    cache_dir: ClassVar[Path | None]
    compiled: ClassVar[CompiledComponent]

    limits: GuestLimits | None = None
    _printer: _Printer | None = None
    _guest: SandboxGuest | None = None
    _denied: Mapping[str, int] = MappingProxyType({})
    _last_health = GuestHealth()

    @property
    def health(self) -> GuestHealth:
        """Live while the guest runs; the last values afterwards."""
        if self._guest is None:
            return self._last_health
        return GuestHealth.of(self._guest, self._hidden_lines)

    def set_limits(self, limits: GuestLimits) -> None:
        """Called by the reactor before `init`."""
        self.limits = limits

    def init(self, config: str) -> None:
        limits = self.limits or GuestLimits(self.name)
        compiled = self.compiled
        if limits.fuel is not None:
            compiled = compile_component(
                self.path, self.name, self.cache_dir, counts_fuel=True, role=self.role
            )
        if limits.audit is not None:
            limits.audit.granted(limits.node, self.name, limits.grants)
        try:
            self._guest = compiled.start(
                config,
                max_memory_bytes=limits.max_memory_bytes,
                call_timeout_s=limits.call_timeout_s,
                init_timeout_s=limits.init_timeout_s,
                fuel=limits.fuel,
                seed=limits.seed,
                grants=list(limits.grants),
                printer=self.printer(limits.node),
                auditor=partial(_audit_denial, limits, self.name),
            )
        except NativeError as error:
            raise _failure(error, self.name) from None

    def printer(self, node: str) -> Callable[[str, str, bool], None]:
        """Receives each line that the guest prints. It must not refer to the component."""
        self._printer = _Printer(node)
        return self._printer

    def stage(self, ports: tuple[str, ...], context: Context) -> NativeStage:
        """The native stage of the guest."""
        assert self._guest is not None
        left_s = None
        if context.deadline_ns is not None:
            left_s = (context.deadline_ns - time.monotonic_ns()) / 1e9
        return self._guest.stage(
            list(ports), context.flow_id, context.flow_name, context.trace_id, left_s
        )

    @property
    def denied(self) -> dict[str, int]:
        """The number of denials per kind of capability."""
        return dict(self._denied if self._guest is None else self._guest.denied)

    def teardown(self) -> None:
        guest, self._guest = self._guest, None
        limits = self.limits or GuestLimits(self.name)
        if guest is None:
            return
        health = GuestHealth.of(guest, self._hidden_lines)
        if health.traps:
            logger.warning(
                "node `%s`: %d traps, %d states lost, %d instances replaced",
                limits.node,
                health.traps,
                health.state_lost,
                health.replaced,
                extra={"node": limits.node, "event": "guest.trapped"},
            )
        try:
            guest.teardown(limits.teardown_timeout_s)
        except NativeError as error:
            raise _failure(error, self.name) from None
        finally:
            self._denied = guest.denied
            _log_denied(limits.node, self._denied)
            self._last_health = replace(health, hidden_lines=self._hidden_lines)

    @property
    def _hidden_lines(self) -> int:
        return 0 if self._printer is None else self._printer.hidden_lines


class StatefulGuest(GuestComponent):
    """A guest that exports `snapshot` and `restore`. While its flow runs, the native core calls
    `snapshot`."""

    def snapshot(self) -> bytes | None:
        """The state of a guest that is not part of a running flow."""
        assert self._guest is not None
        try:
            return self._guest.snapshot()
        except NativeError as error:
            raise _failure(error, self.name) from None

    def restore(self, state: bytes) -> None:
        """Gives the guest its state, after `init` and before the first element."""
        assert self._guest is not None
        try:
            self._guest.restore(state)
        except NativeError as error:
            raise _failure(error, self.name) from None


def _failure(error: NativeError, name: str) -> Exception:
    kind, message = error.args
    if kind in _BY_KIND:
        return _BY_KIND[kind](message)
    if kind == "contract":
        is_grant = message.startswith("a grant ")
        hint = f"create the folder, or change `[security.grants.{name}]`" if is_grant else None
        return ContractError("sandbox.contract", f"component `{name}`: {message}", hint=hint)
    return to_link_error(error, name)


def _audit_denial(
    limits: GuestLimits, component: str, kind: str, target: str, count: int, suppressed: int
) -> None:
    if limits.audit is not None:
        limits.audit.denied(limits.node, component, kind, target, count, suppressed)


def _log_denied(node: str, denied: Mapping[str, int]) -> None:
    if denied:
        counts = ", ".join(f"{kind} {count}" for kind, count in denied.items())
        extra = {"node": node, "denied": dict(denied), "event": "guest.denied"}
        # Every Python guest seeds its hash tables, which is not worth a warning.
        level = logging.WARNING if set(denied) - {WEAKENED} else logging.INFO
        logger.log(level, "node `%s` was denied: %s", node, counts, extra=extra)


class _Printer:
    """Prints a guest's lines to the host's own streams if granted, otherwise to the log.

    For a terminal, control characters are escaped.
    """

    def __init__(self, node: str) -> None:
        self._node = node
        self._prefix = line_prefix.get()
        self.hidden_lines = 0

    def __call__(self, channel: str, text: str, is_granted: bool) -> None:
        if is_granted:
            stream = sys.stdout if channel == "stdout" else sys.stderr
            is_terminal = stream is not None and stream.isatty()
            write_lines(stream, escape_controls(text) if is_terminal else text, self._prefix)
            return
        self.hidden_lines += channel == "stdout"
        line, extra = text.translate(_LOG_ESCAPES), {"event": f"guest.{channel}"}
        logger.info("%s: %s", self._node, line, extra={"node": self._node, **extra})


def guest_class(
    path: Path,
    name: str,
    cache_dir: Path | None = None,
    *,
    role: str | None = None,
    kind: type[GuestComponent] = GuestComponent,
) -> type[GuestComponent]:
    """The class of the component in a file; raises `LinkError` if the file is not one.

    `role` selects one for a component that has several.
    """
    compiled = compile_component(path, name, cache_dir, role=role)
    role_class: Any = ROLES[compiled.role]
    attributes = {"path": path, "name": name, "cache_dir": cache_dir, "compiled": compiled}
    if compiled.has_state and kind is GuestComponent:
        kind = StatefulGuest
    cls: Any = type(name, (kind, role_class), {**attributes, **_notes(path)})
    return cls  # type: ignore[no-any-return]


def _notes(path: Path) -> dict[str, Any]:
    """The class attributes that the guest's notes define."""
    notes = _native.WasmTools.notes(path.read_bytes())
    attributes: dict[str, Any] = {"unit": notes["unit"]} if notes.get("unit") else {}
    if notes.get("config"):
        attributes["config_kind"] = notes["config"]
    if notes.get("ports"):
        attributes["ports"] = tuple(port.strip() for port in notes["ports"].split(","))
    return attributes
