"""One node of a draft -> one `NodePlan`: component found, role, ports and run mode settled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torvyn.components import ENGINES
from torvyn.components.config import parse_config
from torvyn.components.spec import Spec
from torvyn.contract import INTERFACES, ROLES, Component
from torvyn.contract.inspection import (
    class_name,
    is_class,
    module_name,
    read_attribute,
    read_text_attribute,
    safe_repr,
)
from torvyn.contract.roles import METHODS
from torvyn.errors import ContractError, Location
from torvyn.link.checks.grants import granted
from torvyn.link.checks.signatures import check_signatures
from torvyn.link.component_loader import Found, Library
from torvyn.link.component_traits import ERROR, Calls, calls_of, ports_of, role_of, title
from torvyn.link.defaults import Defaults
from torvyn.link.draft import NodeDraft
from torvyn.link.error_policy import Handling
from torvyn.link.option_values import FIELDS, config_text, place_of, value_of
from torvyn.link.plan import ComponentRef, NodePlan
from torvyn.manifest.problems import Problems, quoted, suggestion
from torvyn.manifest.schema.tables import NODE, RUN_MODES

Part = type[Component] | Component

GUEST_INIT_S = 5.0
"""How long a guest's `init` may take when nothing is said."""


class NodeLinker:
    """Links the nodes of one flow."""

    def __init__(self, flow: str, library: Library, defaults: Defaults) -> None:
        self._flow = flow
        self._library = library
        self._defaults = defaults

    def link(
        self,
        draft: NodeDraft,
        config: Any,
        handling: Handling,
        problems: Problems,
        *,
        has_input: bool = False,
    ) -> NodePlan | None:
        """The node, or None when its component was not found or cannot be looked at."""
        path = f"flow.{self._flow}.nodes.{draft.name}"
        found = self._find(draft, path, problems, has_input)
        if found is None:
            return None
        try:
            return self._link_found(draft, found, config, handling, problems)
        except ContractError as error:
            problems.cause = problems.cause or error.__cause__
            place = place_of(draft, "component", f"{path}.component")
            problems.extend(
                replace(found, message=f"node `{draft.name}`: {found.message}", location=place)
                for found in error.diagnostics
            )
            return None

    def _link_found(
        self, draft: NodeDraft, found: Found, config: Any, handling: Handling, problems: Problems
    ) -> NodePlan:
        path = f"flow.{self._flow}.nodes.{draft.name}"
        part, role = found.component, role_of(found.component)
        if config is None and not is_class(part):
            config = read_attribute(part, "config")
        self._check_interface(draft, part, role, path, problems)
        ports = self._ports(draft, part, role, config, problems)
        return NodePlan(
            name=draft.name,
            role=role,
            component=found.ref,
            config=self._config(draft, part, config, path, problems),
            run=self._run(draft, part, role, path, problems),
            unit=value_of(NODE, "unit", draft, path, problems) or read_text_attribute(part, "unit"),
            ports=(*ports, ERROR) if handling.keeps_letters else ports,
            on_error=handling.policy,
            location=draft.location,
            **self._limits(draft, found.ref, path, problems),
            **self._sandboxed(draft, found, path, problems),
        )

    def _sandboxed(
        self, draft: NodeDraft, found: Found, path: str, problems: Problems
    ) -> dict[str, Any]:
        """What only guests have: fuel, a seed, grants, and less time to start."""
        names = ("fuel", "deterministic", "seed")
        if found.ref.kind != "wasm" and draft.fuel is draft.deterministic is draft.seed is None:
            return {}
        said = {name: value_of(NODE, name, draft, path, problems) for name in names}
        if found.ref.kind != "wasm":
            for name in (name for name, value in said.items() if value is not None):
                place = place_of(draft, name, f"{path}.{name}")
                message = f"`{title(found.component)}` is not sandboxed and has no `{name}`"
                problems.add("link.bad-value", message, place, "take it out")
            return {}
        if said["seed"] is not None and not said["deterministic"]:
            message = f"node `{draft.name}` has a `seed` and is not deterministic"
            place = place_of(draft, "seed", f"{path}.seed")
            problems.add("link.bad-value", message, place, "set `deterministic = true`")
        place = place_of(draft, "component", f"{path}.component")
        grants = granted(found.ref.name, self._library, place, problems)
        seed = said["seed"] or 0 if said["deterministic"] else None
        return {"fuel": said["fuel"], "seed": seed, "grants": grants}

    def _limits(
        self, draft: NodeDraft, ref: ComponentRef, path: str, problems: Problems
    ) -> dict[str, Any]:
        defaults = self._defaults.limits
        if ref.kind == "wasm" and self._defaults.init_is_default:
            defaults = {**defaults, "init_timeout": GUEST_INIT_S}
        elif ref.name in ENGINES and self._defaults.init_is_default:
            # Nobody can say how long a model takes to load.
            defaults = {**defaults, "init_timeout": None}
        return {
            FIELDS[name]: value_of(NODE, name, draft, path, problems) or default
            for name, default in defaults.items()
        }

    def _find(
        self, draft: NodeDraft, path: str, problems: Problems, has_input: bool
    ) -> Found | None:
        given = draft.component
        if isinstance(given, Component):
            name = class_name(given)
            target = f"{module_name(type(given))}:{name}"
            return Found(ComponentRef("object", name, target, given), given)
        place = place_of(draft, "component", f"{path}.component")
        if isinstance(given, str):
            if not given:
                return None
            return self._library.find(given, place, problems, has_input=has_input)
        problems.add("link.component-unknown", f"{safe_repr(given)} is not a component", place)
        return None

    def _check_interface(
        self, draft: NodeDraft, part: Part, role: str, path: str, problems: Problems
    ) -> None:
        if draft.interface is None:
            return
        place = place_of(draft, "interface", f"{path}.interface")
        wanted = INTERFACES.get(draft.interface)
        if wanted is None:
            hint = suggestion(draft.interface, INTERFACES, f"they are {quoted(INTERFACES)}")
            message = f"there is no interface `{draft.interface}`"
            problems.add("link.interface-unknown", message, place, hint)
        elif wanted != role:
            message = f"`{title(part)}` is a {role}, not a {wanted}"
            hint = f"its interface is `{ROLES[role].interface}`"
            problems.add("link.interface-mismatch", message, place, hint)

    def _config(
        self, draft: NodeDraft, part: Part, config: Any, path: str, problems: Problems
    ) -> str:
        """The config as text. A built-in says now what is wrong with it, not when it starts."""
        spec = read_attribute(part, "spec", None)
        try:
            if isinstance(spec, Spec):
                options = parse_config(spec, config)
                check = read_attribute(part, "check_options", None)
                if check is not None:
                    check(options)
            return config_text(config)
        except ContractError as error:
            _take_over(error, place_of(draft, "config", f"{path}.config"), problems)
        except ValueError as error:
            place = place_of(draft, "config", f"{path}.config")
            problems.add("link.bad-value", f"the config of `{draft.name}` {error}", place)
        return ""

    def _ports(
        self, draft: NodeDraft, part: Part, role: str, config: Any, problems: Problems
    ) -> tuple[str, ...]:
        path = f"flow.{self._flow}.nodes.{draft.name}.config"
        try:
            ports = ports_of(part, role, config)
        except ContractError as error:
            if error.code == "contract.bad-attribute":
                raise
            _take_over(error, place_of(draft, "config", path), problems)
            return ()
        except ValueError as error:
            place = place_of(draft, "config", path)
            problems.add("link.bad-ports", f"router `{draft.name}`: {error}", place)
            return ()
        if role == "router" and not ports:
            place = place_of(draft, "config", path)
            hint = "set `ports` on its class, or in the node's `config`"
            problems.add("link.bad-ports", f"router `{draft.name}` has no ports", place, hint)
        return ports

    def _run(self, draft: NodeDraft, part: Part, role: str, path: str, problems: Problems) -> str:
        calls = calls_of(part, role)
        is_async = calls.is_async
        if is_async is None:
            place = draft.location or place_of(draft, "run", f"{path}.run")
            message = f"`{title(part)}` is a {role} without a method `{METHODS[role]}`"
            problems.add("link.method-missing", message, place)
            return "inline"
        if not calls.is_guest:
            check_signatures(part, role, is_async, draft, path, problems)
        run = draft.run or read_text_attribute(part, "run") or ("async" if is_async else "inline")
        wrong = _wrong_run(run, calls, part)
        if wrong is not None:
            message, hint = wrong
            problems.add("link.bad-run", message, place_of(draft, "run", f"{path}.run"), hint)
        return str(run)


def _wrong_run(run: str, calls: Calls, part: Part) -> tuple[str, str | None] | None:
    """Why the component cannot run so, and what to write instead."""
    if run not in RUN_MODES:
        hint = suggestion(str(run), RUN_MODES, f"it is {quoted(RUN_MODES, 'or')}")
        return f"`run` cannot be `{run}`", hint
    if calls.is_async != (run == "async"):
        kind = "async" if calls.is_async else "not async"
        hint = "leave `run` out" if calls.is_async else "use `inline` or `thread`, or leave it out"
        return f"`{title(part)}` is {kind} and cannot run `{run}`", hint
    if run == "inline" and calls.reads_stream:
        message = f"`{title(part)}` reads a whole stream and cannot run `inline`"
        return message, "leave `run` out"
    return None


def _take_over(error: ContractError, place: Location, problems: Problems) -> None:
    """What a component says of its config, at the place of the config."""
    problems.extend(replace(found, location=place) for found in error.diagnostics)
