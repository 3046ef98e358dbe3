"""`NodeRecord` -> `NodePlan`: finds the component and settles its role, ports, run mode and key."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from torvyn._contract.enums import Role
from torvyn._contract.inspection import (
    class_name,
    class_names,
    has_attribute,
    is_class,
    module_name,
    read_attribute,
    read_text_attribute,
    safe_repr,
)
from torvyn._contract.roles import (
    INTERFACES,
    METHODS,
    ROLES,
    TIMED_ROLES,
    AnyComponent,
    Component,
    defines_method,
    has_timer,
)
from torvyn._contract.units import render_size
from torvyn._link.component_library import Library, LoadedComponent
from torvyn._link.component_traits import (
    ARGUMENTS,
    ERROR,
    CallStyle,
    call_style_of,
    check_config_kind,
    inputs_of,
    ports_of,
    role_of,
    unit_of_name,
    wrong_signatures,
)
from torvyn._link.defaults import UNLIMITED_S, Defaults
from torvyn._link.grants import resolve_grants
from torvyn._link.plan import ComponentRef, ErrorPolicy, NodePlan, PlacePlan
from torvyn._manifest.problems import Problems
from torvyn._manifest.records import NODE, PLACE, RUN_MODES, NodeRecord
from torvyn.components.config import config_text, parse_config
from torvyn.components.keys import KEY_BYTES
from torvyn.components.spec import Spec
from torvyn.errors import ContractError, Location, nearest, quoted, suggestion

RESERVED_BYTES: Final = 2 * KEY_BYTES
"""What a key may use on average: what it counts for itself, and as much for its component."""
_GUEST_OPTIONS: Final = ("fuel", "deterministic", "seed")

_Complaint = tuple[str, str | None]
"""What is wrong, and a hint."""


class LinkedNode(NamedTuple):
    plan: NodePlan
    keeps_state: bool
    """Whether its component keeps state between elements."""


@dataclass(frozen=True, slots=True)
class NodeLinker:
    """Links the nodes of one flow; it keeps nothing of them."""

    flow: str
    library: Library
    defaults: Defaults
    problems: Problems

    def link(
        self, record: NodeRecord, policy: ErrorPolicy, *, has_input: bool = False
    ) -> LinkedNode | None:
        """The node, or None when its component was not loaded or cannot be inspected."""
        path = f"flow.{self.flow}.nodes.{record.name}"
        location = record.at("component", f"{path}.component")
        loaded = self._find(record, location, has_input)
        if loaded is None:
            return None
        try:
            role = role_of(loaded.component)
            return _Node(record, path, loaded.component, role, loaded.ref, self).link(policy)
        except ContractError as error:
            self.problems.cause = self.problems.cause or error.__cause__
            self.problems.extend(
                replace(
                    problem, message=f"node `{record.name}`: {problem.message}", location=location
                )
                for problem in error.diagnostics
            )
            return None

    def _find(
        self, record: NodeRecord, location: Location, has_input: bool
    ) -> LoadedComponent | None:
        component = record.component
        if isinstance(component, Component):
            name = class_name(component)
            target = f"{module_name(type(component))}:{name}"
            return LoadedComponent(ComponentRef("object", name, target, component), component)
        if isinstance(component, str):
            if not component and record.location is not None:
                return None  # the parser has reported it
            return self.library.find(component, location, self.problems, has_input=has_input)
        message = f"{safe_repr(component)} is not a component"
        self.problems.add("link.component-unknown", message, location)
        return None


@dataclass(frozen=True, slots=True)
class _Node:
    """A node whose component was found: each method settles one part of its plan, and reports what
    is wrong with it."""

    record: NodeRecord
    path: str
    component: AnyComponent
    role: str
    ref: ComponentRef
    linker: NodeLinker

    @property
    def problems(self) -> Problems:
        return self.linker.problems

    def link(self, policy: ErrorPolicy) -> LinkedNode:
        component, record, role = self.component, self.record, self.role
        keeps_state = role == Role.AGGREGATOR or has_attribute(component, "snapshot")
        config = record.config
        if config is None and not is_class(component):
            config = read_attribute(component, "config")
        self._check_interface()
        ports = self._ports(config)
        keys = self._keys()
        limits = self._limits(keys.get("max_keys"))
        plan = NodePlan(
            name=record.name,
            role=role,
            component=self.ref,
            config=self._config(config),
            run=self._run(),
            unit=self._unit(),
            ports=(*ports, ERROR) if policy.recovery == "dead-letter" else ports,
            inputs=inputs_of(component, role),
            on_error=policy,
            location=record.location,
            cpu_share=self._value("cpu_share"),
            place=self._cluster_place(),
            **limits,
            **keys,
            **self._guest_options(),
        )
        return LinkedNode(plan, keeps_state)

    def _value(self, key: str) -> Any:
        return NODE.value(self.record, key, self.path, self.problems)

    def _location(self, key: str) -> Location:
        return self.record.at(key, f"{self.path}.{key}")

    def _complain(self, code: str, message: str, key: str, hint: str | None = None) -> None:
        self.problems.add(code, message, self._location(key), hint)

    def _check_interface(self) -> None:
        interface = self.record.interface
        if interface is None:
            return
        expected = INTERFACES.get(interface)
        if expected is None:
            listing = f"the interfaces are {quoted(INTERFACES)}"
            hint = suggestion(interface, INTERFACES, listing)
            message = f"unknown interface `{interface}`"
            self._complain("link.interface-unknown", message, "interface", hint)
        elif expected != self.role:
            message = f"`{class_name(self.component)}` has the role {self.role}, not {expected}"
            hint = f"its interface is `{ROLES[self.role].interface}`"
            self._complain("link.interface-mismatch", message, "interface", hint)

    def _unit(self) -> str | None:
        own = self._value("unit") or read_text_attribute(self.component, "unit")
        return own or unit_of_name(self.ref.name, self.role)

    def _ports(self, config: Any) -> tuple[str, ...]:
        name = self.record.name
        try:
            ports = ports_of(self.component, self.role, config)
        except ContractError as error:
            self._add_config_error(error)
            return ()
        except ValueError as error:
            self._complain("link.bad-ports", f"router `{name}`: {error}", "config")
            return ()
        if self.role == "router" and not ports:
            hint = "set `ports` on its class, or in the node's `config`"
            self._complain("link.bad-ports", f"router `{name}` has no ports", "config", hint)
        return ports

    def _config(self, config: Any) -> str:
        """The config as text. Built-in components check theirs now, not when the flow starts; of
        the others it is known whether they take text or a table."""
        spec = read_attribute(self.component, "spec", None)
        if self.record.config is None and "config" in self.record.locations:
            return ""  # the parser has reported it
        try:
            if isinstance(spec, Spec):
                options = parse_config(spec, config)
                check = read_attribute(self.component, "check_options", None)
                if check is not None:
                    check(options)
            elif self.record.config is not None:
                check_config_kind(self.component, self.role, config)
            return config_text(config)
        except ContractError as error:
            self._add_config_error(error)
        except ValueError as error:
            message = f"the config of `{self.record.name}` {error}"
            self._complain("link.bad-value", message, "config")
        return ""

    def _add_config_error(self, error: ContractError) -> None:
        """Adds a component's complaints about its config, at the location of the config."""
        if error.code == "contract.bad-attribute":
            raise error
        location = self._location("config")
        self.problems.extend(replace(problem, location=location) for problem in error.diagnostics)

    def _run(self) -> str:
        component, record = self.component, self.record
        style = call_style_of(component, self.role)
        if style.is_async is None:
            location = record.location or self._location("run")
            message = f"`{class_name(component)}` has the role {self.role} but no "
            message += f"`{METHODS[self.role]}`"
            hint = _method_hint(component, METHODS[self.role])
            self.problems.add("link.method-missing", message, location, hint)
            return "inline"
        for complaint in wrong_signatures(component, self.role, style):
            location = record.location or Location(path=self.path)
            message = f"node `{record.name}`: {complaint[0]}"
            self.problems.add("contract.wrong-signature", message, location, complaint[1])
        own = record.run or read_text_attribute(component, "run")
        run = own or ("async" if style.is_async else "inline")
        wrong = _wrong_run(run, style, component, self.role)
        if wrong is not None:
            self._complain("link.bad-run", wrong[0], "run", wrong[1])
        return str(run)

    def _limits(self, max_keys: int | None) -> dict[str, Any]:
        kind, limits = self.ref.kind, self.linker.defaults.limits(self.ref)
        if read_attribute(self.component, "waits_without_limit"):
            limits = {**limits, "call_timeout": UNLIMITED_S}
        if self.record.max_memory_bytes is not None and kind in ("project", "entry-point"):
            name = class_name(self.component)
            message = f"`max_memory` of `{name}` counts payloads only, not what its code keeps"
            hint = '`isolation = "wasm"` bounds all of its memory'
            location = self._location("max_memory")
            self.problems.warn("link.memory-uncounted", message, location, hint)
        found = {
            NODE.by_name[name].attribute: self._value(name) or default
            for name, default in limits.items()
        }
        found["max_memory_bytes"] = self._memory_bytes(found["max_memory_bytes"], max_keys)
        return found

    def _memory_bytes(self, limit_bytes: int, max_keys: int | None) -> int:
        """The memory that the node may use: enough for its `max_keys`, unless somebody has set it.
        Then it is kept, with a warning if so many keys can never fit."""
        own_bytes = self.record.max_memory_bytes
        if max_keys is None:
            return limit_bytes
        if self.linker.defaults.is_memory_default and own_bytes is None:
            return max(limit_bytes, max_keys * RESERVED_BYTES)
        if max_keys * KEY_BYTES > limit_bytes:
            setting = "`max_memory_per_component` of `[runtime]`"
            if own_bytes is not None:
                setting = "its `max_memory`"
            message = (
                f"node `{self.record.name}` may have {max_keys} keys, but {setting} of "
                f"{render_size(limit_bytes)} is enough for at most {limit_bytes // KEY_BYTES}: "
                "beyond it, keys are flushed and forgotten"
            )
            needed = render_size(max_keys * RESERVED_BYTES)
            hint = f'set `max_memory = "{needed}"` on the node, or a smaller `max_keys`'
            location = self._location("max_keys")
            self.problems.warn("link.keys-exceed-memory", message, location, hint)
        return limit_bytes

    def _keys(self) -> dict[str, Any]:
        """`key` and `max_keys` of the plan."""
        name, key, max_keys = self.record.name, self.record.key, self._value("max_keys")
        if key is None:
            if max_keys is not None:
                message = f"node `{name}` has `max_keys` but no `key`"
                hint = "set `key`, or remove `max_keys`"
                self._complain("link.bad-value", message, "max_keys", hint)
            return {}
        key = key if callable(key) else self._value("key")
        wrong = _wrong_key(self.component, self.role)
        if key == "":
            hint = 'name a field: `key = "sensor"`'
            self._complain("link.bad-value", "`key` is empty", "key", hint)
        elif wrong is not None:
            self._complain("link.bad-key", f"node `{name}`: {wrong[0]}", "key", wrong[1])
        return {"key": key, **({} if max_keys is None else {"max_keys": max_keys})}

    def _cluster_place(self) -> PlacePlan | None:
        """What the node's group needs; None if the node does not say, or is wrong about it."""
        if self.record.place is None:
            return None
        before, location = len(self.problems), self._location("place")
        values = PLACE.values(self.record.place, "link.bad-place", location, self.problems)
        if len(self.problems) > before:
            return None
        return PlacePlan(**{**values, "resources": values["resources"] or {}})

    def _guest_options(self) -> dict[str, Any]:
        """The options that only sandboxed components have: fuel, a seed, grants."""
        record, is_guest = self.record, self.ref.kind == "wasm"
        if not is_guest and record.fuel is record.deterministic is record.seed is None:
            return {}
        values = {name: self._value(name) for name in _GUEST_OPTIONS}
        if not is_guest:
            for name in (name for name, value in values.items() if value is not None):
                message = f"`{class_name(self.component)}` is not sandboxed and has no `{name}`"
                self._complain("link.bad-value", message, name, "remove it")
            return {}
        if values["seed"] is not None and not values["deterministic"]:
            message = f"node `{record.name}` has a `seed` but is not deterministic"
            self._complain("link.bad-value", message, "seed", "set `deterministic = true`")
        location = self._location("component")
        grants = resolve_grants(self.ref.name, self.linker.library, location, self.problems)
        seed = values["seed"] or 0 if values["deterministic"] else None
        return {"fuel": values["fuel"], "seed": seed, "grants": grants}


def _method_hint(component: AnyComponent, method: str) -> str:
    cls: Any = component if is_class(component) else type(component)
    close = nearest(method, [name for name in class_names(cls) if name not in ARGUMENTS])
    if close is not None:
        return f"rename `{close}` to `{method}`"
    return f"write `def {method}({', '.join(('self', *ARGUMENTS[method]))})`"


def _wrong_run(run: str, style: CallStyle, component: AnyComponent, role: str) -> _Complaint | None:
    """The reason why the component cannot run this way, and a hint."""
    name = class_name(component)
    if run not in RUN_MODES:
        hint = suggestion(str(run), RUN_MODES, f"it must be {quoted(RUN_MODES, 'or')}")
        return f"`run` cannot be `{run}`", hint
    if style.is_async != (run == "async"):
        kind = "async" if style.is_async else "not async"
        hint = "remove `run`" if style.is_async else "use `inline` or `thread`, or remove `run`"
        return f"`{name}` is {kind} and cannot run `{run}`", hint
    if run == "inline":
        wrong = f"`{name}` reads a whole stream and cannot run `inline`"
        return (wrong, "remove `run`") if style.reads_stream else None
    if has_timer(component, role):
        return f"`{name}` has a timer and cannot run `{run}`", "use `inline`"
    if inputs_of(component, role):
        return f"`{name}` has named inputs and cannot run `{run}`", "use `inline`"
    return None


def _wrong_key(component: AnyComponent, role: str) -> _Complaint | None:
    """The reason why the component cannot have a key, and a hint."""
    style, name = call_style_of(component, role), class_name(component)
    if role not in TIMED_ROLES:
        return f"a {role} cannot have a `key`", "only processors and aggregators have state per key"
    if style.is_guest:
        hint = "run it in process, or keep the state of all keys inside the component"
        return f"`{name}` is sandboxed and cannot have a `key`", hint
    if style.reads_stream:
        return f"`{name}` reads a whole stream and cannot have a `key`", "write it as a class"
    if not defines_method(component, role, METHODS[role]):
        method = METHODS[role]
        return f"`{name}` takes only batches and cannot have a `key`", f"write `{method}` too"
    if style.is_async:
        return f"`{name}` is async and cannot have a `key`", "make its methods plain methods"
    return None
