"""`NodeRecord` -> `NodePlan`: finds the component and settles its role, ports, run mode and key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

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
    Component,
    has_single_method,
)
from torvyn._contract.units import render_size
from torvyn._link.component_library import Library, LoadedComponent
from torvyn._link.component_traits import (
    ARGUMENTS,
    ERROR,
    CallStyle,
    call_style_of,
    check_config_kind,
    check_signatures,
    has_timer,
    inputs_of,
    ports_of,
    role_of,
    unit_of_name,
)
from torvyn._link.defaults import UNLIMITED_S, Defaults
from torvyn._link.grants import resolve_grants
from torvyn._link.plan import ComponentRef, ErrorPolicy, NodePlan
from torvyn._link.plan_checks import parse_place
from torvyn._manifest.problems import Problems
from torvyn._manifest.records import NODE, RUN_MODES, NodeRecord
from torvyn.components.config import config_text, parse_config
from torvyn.components.keys import KEY_BYTES
from torvyn.components.spec import Spec
from torvyn.errors import ContractError, Location, nearest, quoted, suggestion

AnyComponent = type[Component] | Component
"""A class, or a live component."""


class NodeLinker:
    """Links the nodes of one flow."""

    def __init__(self, flow: str, library: Library, defaults: Defaults) -> None:
        self._flow = flow
        self._library = library
        self._defaults = defaults
        self.stateful: set[str] = set()
        """The nodes linked so far whose components keep state between elements."""

    def link(
        self,
        record: NodeRecord,
        policy: ErrorPolicy,
        problems: Problems,
        *,
        has_input: bool = False,
    ) -> NodePlan | None:
        """The node, or None when its component was not loaded or cannot be inspected."""
        path = f"flow.{self._flow}.nodes.{record.name}"
        loaded = self._find(record, path, problems, has_input)
        if loaded is None:
            return None
        try:
            return self._link_found(record, loaded, policy, path, problems)
        except ContractError as error:
            problems.cause = problems.cause or error.__cause__
            place = record.at("component", f"{path}.component")
            problems.extend(
                replace(problem, message=f"node `{record.name}`: {problem.message}", location=place)
                for problem in error.diagnostics
            )
            return None

    def _link_found(
        self,
        record: NodeRecord,
        loaded: LoadedComponent,
        policy: ErrorPolicy,
        path: str,
        problems: Problems,
    ) -> NodePlan:
        component, role = loaded.component, role_of(loaded.component)
        if role == Role.AGGREGATOR or has_attribute(component, "snapshot"):
            self.stateful.add(record.name)
        config = record.config
        if config is None and not is_class(component):
            config = read_attribute(component, "config")
        self._check_interface(record, component, role, path, problems)
        ports = self._ports(record, component, role, config, problems)
        unit = NODE.value(record, "unit", path, problems)
        limits = self._limits(record, loaded, path, problems)
        keys = key_options(record, component, role, path, problems)
        limits["max_memory_bytes"] = memory_of_keys(
            record,
            limits["max_memory_bytes"],
            keys,
            path,
            problems,
            is_default=self._defaults.is_memory_default,
        )
        return NodePlan(
            name=record.name,
            role=role,
            component=loaded.ref,
            config=self._config(record, component, role, config, path, problems),
            run=self._run(record, component, role, path, problems),
            unit=unit
            or read_text_attribute(component, "unit")
            or unit_of_name(loaded.ref.name, role),
            ports=(*ports, ERROR) if policy.recovery == "dead-letter" else ports,
            inputs=inputs_of(component, role),
            on_error=policy,
            location=record.location,
            cpu_share=NODE.value(record, "cpu_share", path, problems),
            place=parse_place(record, path, problems),
            **limits,
            **keys,
            **self._guest_options(record, loaded, path, problems),
        )

    def _guest_options(
        self, record: NodeRecord, loaded: LoadedComponent, path: str, problems: Problems
    ) -> dict[str, Any]:
        """The options that only sandboxed components have: fuel, a seed, grants."""
        names = ("fuel", "deterministic", "seed")
        is_guest = loaded.ref.kind == "wasm"
        if not is_guest and record.fuel is record.deterministic is record.seed is None:
            return {}
        values = {name: NODE.value(record, name, path, problems) for name in names}
        if not is_guest:
            for name in (name for name, value in values.items() if value is not None):
                place = record.at(name, f"{path}.{name}")
                message = f"`{class_name(loaded.component)}` is not sandboxed and has no `{name}`"
                problems.add("link.bad-value", message, place, "remove it")
            return {}
        if values["seed"] is not None and not values["deterministic"]:
            message = f"node `{record.name}` has a `seed` but is not deterministic"
            place = record.at("seed", f"{path}.seed")
            problems.add("link.bad-value", message, place, "set `deterministic = true`")
        place = record.at("component", f"{path}.component")
        grants = resolve_grants(loaded.ref.name, self._library, place, problems)
        seed = values["seed"] or 0 if values["deterministic"] else None
        return {"fuel": values["fuel"], "seed": seed, "grants": grants}

    def _limits(
        self, record: NodeRecord, loaded: LoadedComponent, path: str, problems: Problems
    ) -> dict[str, Any]:
        limits = self._defaults.limits(loaded.ref)
        if read_attribute(loaded.component, "waits_without_limit"):
            limits = {**limits, "call_timeout": UNLIMITED_S}
        if record.max_memory_bytes is not None and loaded.ref.kind in ("project", "entry-point"):
            place = record.at("max_memory", f"{path}.max_memory")
            name = class_name(loaded.component)
            message = f"`max_memory` of `{name}` counts payloads only, not what its code keeps"
            hint = '`isolation = "wasm"` bounds all of its memory'
            problems.warn("link.memory-uncounted", message, place, hint)
        return {
            NODE.by_name[name].attribute: NODE.value(record, name, path, problems) or default
            for name, default in limits.items()
        }

    def _find(
        self, record: NodeRecord, path: str, problems: Problems, has_input: bool
    ) -> LoadedComponent | None:
        component = record.component
        if isinstance(component, Component):
            name = class_name(component)
            target = f"{module_name(type(component))}:{name}"
            return LoadedComponent(ComponentRef("object", name, target, component), component)
        place = record.at("component", f"{path}.component")
        if isinstance(component, str):
            if not component and record.location is not None:
                return None  # the parser has reported it
            return self._library.find(component, place, problems, has_input=has_input)
        problems.add("link.component-unknown", f"{safe_repr(component)} is not a component", place)
        return None

    def _check_interface(
        self,
        record: NodeRecord,
        component: AnyComponent,
        role: str,
        path: str,
        problems: Problems,
    ) -> None:
        if record.interface is None:
            return
        place = record.at("interface", f"{path}.interface")
        expected = INTERFACES.get(record.interface)
        if expected is None:
            listing = f"the interfaces are {quoted(INTERFACES)}"
            hint = suggestion(record.interface, INTERFACES, listing)
            message = f"unknown interface `{record.interface}`"
            problems.add("link.interface-unknown", message, place, hint)
        elif expected != role:
            message = f"`{class_name(component)}` has the role {role}, not {expected}"
            hint = f"its interface is `{ROLES[role].interface}`"
            problems.add("link.interface-mismatch", message, place, hint)

    def _config(
        self,
        record: NodeRecord,
        component: AnyComponent,
        role: str,
        config: Any,
        path: str,
        problems: Problems,
    ) -> str:
        """The config as text. Built-in components check theirs now, not when the flow starts; of
        the others it is known whether they take text or a table."""
        spec = read_attribute(component, "spec", None)
        if record.config is None and "config" in record.locations:
            return ""  # the parser has reported it
        try:
            if isinstance(spec, Spec):
                options = parse_config(spec, config)
                check = read_attribute(component, "check_options", None)
                if check is not None:
                    check(options)
            elif record.config is not None:
                check_config_kind(component, role, config)
            return config_text(config)
        except ContractError as error:
            if error.code == "contract.bad-attribute":
                raise
            _report(error, record.at("config", f"{path}.config"), problems)
        except ValueError as error:
            place = record.at("config", f"{path}.config")
            problems.add("link.bad-value", f"the config of `{record.name}` {error}", place)
        return ""

    def _ports(
        self,
        record: NodeRecord,
        component: AnyComponent,
        role: str,
        config: Any,
        problems: Problems,
    ) -> tuple[str, ...]:
        path = f"flow.{self._flow}.nodes.{record.name}.config"
        try:
            ports = ports_of(component, role, config)
        except ContractError as error:
            if error.code == "contract.bad-attribute":
                raise
            _report(error, record.at("config", path), problems)
            return ()
        except ValueError as error:
            place = record.at("config", path)
            problems.add("link.bad-ports", f"router `{record.name}`: {error}", place)
            return ()
        if role == "router" and not ports:
            place = record.at("config", path)
            hint = "set `ports` on its class, or in the node's `config`"
            problems.add("link.bad-ports", f"router `{record.name}` has no ports", place, hint)
        return ports

    def _run(
        self,
        record: NodeRecord,
        component: AnyComponent,
        role: str,
        path: str,
        problems: Problems,
    ) -> str:
        style = call_style_of(component, role)
        is_async = style.is_async
        if is_async is None:
            place = record.location or record.at("run", f"{path}.run")
            message = f"`{class_name(component)}` has the role {role} but no `{METHODS[role]}`"
            problems.add("link.method-missing", message, place, _method_hint(component, role))
            return "inline"
        if not style.is_guest:
            check_signatures(component, role, is_async, record, path, problems)
        run = (
            record.run
            or read_text_attribute(component, "run")
            or ("async" if is_async else "inline")
        )
        wrong = _wrong_run(run, style, component) or _wrong_inline(run, component, role)
        if wrong is not None:
            message, hint = wrong
            problems.add("link.bad-run", message, record.at("run", f"{path}.run"), hint)
        return str(run)


def _method_hint(component: AnyComponent, role: str) -> str:
    method = METHODS[role]
    cls: Any = component if is_class(component) else type(component)
    close = nearest(method, [name for name in class_names(cls) if name not in ARGUMENTS])
    if close is not None:
        return f"rename `{close}` to `{method}`"
    return f"write `def {method}({', '.join(('self', *ARGUMENTS[method]))})`"


def _wrong_run(
    run: str, style: CallStyle, component: AnyComponent
) -> tuple[str, str | None] | None:
    """The reason why the component cannot run this way, and a hint."""
    if run not in RUN_MODES:
        hint = suggestion(str(run), RUN_MODES, f"it must be {quoted(RUN_MODES, 'or')}")
        return f"`run` cannot be `{run}`", hint
    if style.is_async != (run == "async"):
        kind = "async" if style.is_async else "not async"
        hint = "remove `run`" if style.is_async else "use `inline` or `thread`, or remove `run`"
        return f"`{class_name(component)}` is {kind} and cannot run `{run}`", hint
    if run == "inline" and style.reads_stream:
        message = f"`{class_name(component)}` reads a whole stream and cannot run `inline`"
        return message, "remove `run`"
    return None


def _wrong_inline(run: str, component: AnyComponent, role: str) -> tuple[str, str] | None:
    """The reason why the component must run inline, and a hint."""
    if run == "inline":
        return None
    if has_timer(component, role):
        return f"`{class_name(component)}` has a timer and cannot run `{run}`", "use `inline`"
    if inputs_of(component, role):
        return f"`{class_name(component)}` has named inputs and cannot run `{run}`", "use `inline`"
    return None


def _report(error: ContractError, place: Location, problems: Problems) -> None:
    """Adds a component's complaints about its config, at the location of the config."""
    problems.extend(replace(problem, location=place) for problem in error.diagnostics)


RESERVED_BYTES: Final = 2 * KEY_BYTES
"""What a key may use on average: what it counts for itself, and as much for its component."""


def key_options(
    record: NodeRecord,
    component: type[Component] | Component,
    role: str,
    path: str,
    problems: Problems,
) -> dict[str, Any]:
    """`key` and `max_keys` of a NodePlan."""
    max_keys = NODE.value(record, "max_keys", path, problems)
    if record.key is None:
        if max_keys is not None:
            place = record.at("max_keys", f"{path}.max_keys")
            message = f"node `{record.name}` has `max_keys` but no `key`"
            problems.add("link.bad-value", message, place, "set `key`, or remove `max_keys`")
        return {}
    place = record.at("key", f"{path}.key")
    key = record.key if callable(record.key) else NODE.value(record, "key", path, problems)
    wrong = _wrong_key(component, role)
    if key == "":
        problems.add("link.bad-value", "`key` is empty", place, 'name a field: `key = "sensor"`')
    elif wrong is not None:
        problems.add("link.bad-key", f"node `{record.name}`: {wrong[0]}", place, wrong[1])
    return {"key": key, **({} if max_keys is None else {"max_keys": max_keys})}


def memory_of_keys(
    record: NodeRecord,
    limit_bytes: int,
    keys: Mapping[str, Any],
    path: str,
    problems: Problems,
    *,
    is_default: bool,
) -> int:
    """The memory that the node may use: enough for its `max_keys`, unless somebody has set it. Then
    it is kept, with a warning if so many keys can never fit."""
    if "max_keys" not in keys:
        return limit_bytes
    max_keys: int = keys["max_keys"]
    if is_default and record.max_memory_bytes is None:
        return max(limit_bytes, max_keys * RESERVED_BYTES)
    if max_keys * KEY_BYTES > limit_bytes:
        setting = "`max_memory_per_component` of `[runtime]`"
        if record.max_memory_bytes is not None:
            setting = "its `max_memory`"
        message = (
            f"node `{record.name}` may have {max_keys} keys, but {setting} of "
            f"{render_size(limit_bytes)} is enough for at most {limit_bytes // KEY_BYTES}: beyond "
            "it, keys are flushed and forgotten"
        )
        needed = render_size(max_keys * RESERVED_BYTES)
        hint = f'set `max_memory = "{needed}"` on the node, or a smaller `max_keys`'
        place = record.at("max_keys", f"{path}.max_keys")
        problems.warn("link.keys-exceed-memory", message, place, hint)
    return limit_bytes


def _wrong_key(component: type[Component] | Component, role: str) -> tuple[str, str] | None:
    """The reason why the component cannot have a key, and a hint."""
    style, name = call_style_of(component, role), class_name(component)
    if role not in TIMED_ROLES:
        return f"a {role} cannot have a `key`", "only processors and aggregators have state per key"
    if style.is_guest:
        hint = "run it in process, or keep the state of all keys inside the component"
        return f"`{name}` is sandboxed and cannot have a `key`", hint
    if style.reads_stream:
        return f"`{name}` reads a whole stream and cannot have a `key`", "write it as a class"
    if not has_single_method(component, role):
        return (
            f"`{name}` takes only batches and cannot have a `key`",
            f"write `{METHODS[role]}` too",
        )
    if style.is_async:
        return f"`{name}` is async and cannot have a `key`", "make its methods plain methods"
    return None
