"""A guest as a component: what link looks at and the reactor starts, with the role of its exports.

The class carries no method of its role: calls go from the native core straight into the guest.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from torvyn._native import CompiledComponent, NativeError, NativeStage, WasmTools
from torvyn.contract import ROLES, Component, Context
from torvyn.errors import (
    ComponentError,
    ContractError,
    DeadlineExceeded,
    Fatal,
    Internal,
    InvalidInput,
    Unavailable,
)
from torvyn.manifest.schema.settings_tables import GUEST_INIT_TIMEOUT_S, RUNTIME
from torvyn.sandbox.audit import WEAKENED, Audit
from torvyn.sandbox.compile_cache import compile_component, to_link_error
from torvyn.text.control_characters import CONTROLS, escape_controls

if TYPE_CHECKING:
    from torvyn._native import SandboxGuest

logger = logging.getLogger("torvyn.sandbox")

_BY_KIND: dict[str, type[ComponentError]] = {
    cls.default_code.partition(".")[2]: cls
    for cls in (InvalidInput, Unavailable, Internal, DeadlineExceeded, Fatal)
}


_CONTROLS = CONTROLS | {0x0A: "\\x0a"}
"""Shown in the log, on one line."""


@dataclass(frozen=True, slots=True)
class GuestLimits:
    """What one node's guest may take and reach."""

    node: str
    max_memory_bytes: int = RUNTIME.default("max_memory_per_component")
    call_timeout_s: float = RUNTIME.default("call_timeout")
    init_timeout_s: float = GUEST_INIT_TIMEOUT_S
    teardown_timeout_s: float = RUNTIME.default("teardown_timeout")
    fuel: int | None = None
    seed: int | None = None
    """What clocks and random numbers follow from; None: from the world."""
    grants: tuple[str, ...] = ()
    """Capabilities, their paths absolute."""
    audit: Audit | None = None


@dataclass(frozen=True, slots=True)
class GuestHealth:
    """What happened to the instances of one node's guest."""

    traps: int = 0
    """Calls that did not come back, and replacements that did not start."""
    state_lost: int = 0
    """Instances that were let go with all they held."""
    replaced: int = 0
    refused: int = 0
    """Calls refused, and pulls put off, while a guest that trapped too often rested."""
    replace_ns: int = 0
    """What making the replacements took, `init` included."""

    @classmethod
    def of(cls, guest: SandboxGuest) -> GuestHealth:
        return cls(guest.traps, guest.state_lost, guest.replaced, guest.refused, guest.replace_ns)

    @property
    def mean_replace_ns(self) -> float | None:
        """How long an element waited for a new instance."""
        return self.replace_ns / self.replaced if self.replaced else None


class GuestComponent(Component):
    """What the guests of all roles share; `guest_class` mixes a role in."""

    is_guest: ClassVar[bool] = True
    path: ClassVar[Path]
    name: ClassVar[str]
    cache_dir: ClassVar[Path | None]
    compiled: ClassVar[CompiledComponent]

    limits: GuestLimits | None = None
    _guest: SandboxGuest | None = None
    _denied: Mapping[str, int] = MappingProxyType({})
    _last_health = GuestHealth()

    @property
    def health(self) -> GuestHealth:
        """Counted on while the guest runs; stays when it is over."""
        return self._last_health if self._guest is None else GuestHealth.of(self._guest)

    def set_limits(self, limits: GuestLimits) -> None:
        """Said by the reactor before `init`."""
        self.limits = limits

    def init(self, config: str) -> None:
        allowed = self.limits or GuestLimits(self.name)
        compiled = self.compiled
        if allowed.fuel is not None:
            compiled = compile_component(
                self.path, self.name, self.cache_dir, counts_fuel=True, role=self.role
            )
        if allowed.audit is not None:
            allowed.audit.granted(allowed.node, self.name, allowed.grants)
        try:
            self._guest = compiled.start(
                config,
                max_memory_bytes=allowed.max_memory_bytes,
                call_timeout_s=allowed.call_timeout_s,
                init_timeout_s=allowed.init_timeout_s,
                fuel=allowed.fuel,
                seed=allowed.seed,
                grants=list(allowed.grants),
                printer=self.printer(allowed.node),
                auditor=partial(_deny, allowed, self.name),
            )
        except NativeError as error:
            raise _failure(error, self.name) from None

    def printer(self, node: str) -> Callable[[str, str, bool], None]:
        """Gets every line that the guest prints; it is held by the guest, so it holds nobody."""
        return partial(_print, node)

    def stage(self, ports: tuple[str, ...], context: Context) -> NativeStage:
        """The guest on its way into a flow."""
        assert self._guest is not None
        left_s = None
        if context.deadline_ns is not None:
            left_s = (context.deadline_ns - time.monotonic_ns()) / 1e9
        return self._guest.stage(
            list(ports), context.flow_id, context.flow_name, context.trace_id, left_s
        )

    @property
    def denied(self) -> dict[str, int]:
        """How often each kind of capability was denied."""
        return dict(self._denied if self._guest is None else self._guest.denied)

    def teardown(self) -> None:
        guest, self._guest = self._guest, None
        allowed = self.limits or GuestLimits(self.name)
        if guest is None:
            return
        self._last_health = health = GuestHealth.of(guest)
        if health.traps:
            logger.warning(
                "node `%s`: traps %d, states lost %d, instances replaced %d",
                allowed.node,
                health.traps,
                health.state_lost,
                health.replaced,
                extra={"node": allowed.node, "event": "guest.trapped"},
            )
        try:
            guest.teardown(allowed.teardown_timeout_s)
        except NativeError as error:
            raise _failure(error, self.name) from None
        finally:
            self._denied = guest.denied
            _tell_denied(allowed.node, self._denied)


def _failure(error: NativeError, name: str) -> Exception:
    kind, message = error.args
    if kind in _BY_KIND:
        return _BY_KIND[kind](message)
    if kind == "contract":
        is_grant = message.startswith("a grant ")
        hint = f"make the folder, or change `[security.grants.{name}]`" if is_grant else None
        return ContractError("sandbox.contract", f"component `{name}`: {message}", hint=hint)
    return to_link_error(error, name)


def _deny(
    allowed: GuestLimits, component: str, kind: str, asked: str, count: int, suppressed: int
) -> None:
    if allowed.audit is not None:
        allowed.audit.denied(allowed.node, component, kind, asked, count, suppressed)


def _tell_denied(node: str, denied: Mapping[str, int]) -> None:
    if denied:
        counts = ", ".join(f"{kind} {count}" for kind, count in denied.items())
        extra = {"node": node, "denied": dict(denied), "event": "guest.denied"}
        # Every Python guest seeds its hash tables: that alone is no news.
        level = logging.WARNING if set(denied) - {WEAKENED} else logging.INFO
        logger.log(level, "node `%s` was denied: %s", node, counts, extra=extra)


def _print(node: str, channel: str, text: str, is_granted: bool) -> None:
    """A line that a guest printed: to the host's own channel with a grant, else to the log.

    A terminal gets it with its controls made visible; a file or a pipe gets it as it was printed.
    """
    if is_granted:
        stream = sys.stdout if channel == "stdout" else sys.stderr
        print(
            escape_controls(text) if stream is not None and stream.isatty() else text, file=stream
        )
    else:
        shown = text.translate(_CONTROLS)
        logger.info("%s: %s", node, shown, extra={"node": node, "event": f"guest.{channel}"})


def guest_class(
    path: Path,
    name: str,
    cache_dir: Path | None = None,
    *,
    role: str | None = None,
    kind: type[GuestComponent] = GuestComponent,
) -> type[GuestComponent]:
    """The class of the component in a file. Raises `LinkError` for what is none.

    `role` is for a component that has several.
    """
    compiled = compile_component(path, name, cache_dir, role=role)
    mixed: Any = ROLES[compiled.role]
    facts = {"path": path, "name": name, "cache_dir": cache_dir, "compiled": compiled}
    made: Any = type(name, (kind, mixed), {**facts, **_said(path)})
    return made  # type: ignore[no-any-return]


def _said(path: Path) -> dict[str, Any]:
    """What the guest says of itself where a class would have attributes."""
    notes = WasmTools.notes(path.read_bytes())
    said: dict[str, Any] = {"unit": notes["unit"]} if notes.get("unit") else {}
    if notes.get("ports"):
        said["ports"] = tuple(port.strip() for port in notes["ports"].split(","))
    return said
