"""`by-field`: routes each element by the value of one of its fields.

The field is a dotted path into the element's JSON object, or `attribute:NAME`. The config
determines the ports, so link can check the edges before the flow starts.
"""

from __future__ import annotations

from typing import Any, ClassVar

from torvyn._contract.element import Element
from torvyn._contract.roles import Router
from torvyn.components.config import parse_config, wrong_config
from torvyn.components.json_fields import (
    MISSING,
    get_field,
    parse_object,
    to_json_value,
    write_json,
)
from torvyn.components.spec import Option, Spec

SPEC = Spec(
    name="by-field",
    role="router",
    summary="Sends each element to a port, by the value of one of its fields.",
    options=(
        Option(
            "field",
            "text",
            None,
            "A dotted path into the JSON object, or `attribute:NAME`.",
            required=True,
        ),
        Option("routes", "text table", {}, "Value = port. Write numbers and booleans as in JSON."),
        Option(
            "default", "text", "", "The port for all other values; without it, they are dropped."
        ),
        Option(
            "ports", "words", (), "The port names, to fix their order and to detect typing errors."
        ),
    ),
    example="""\
[flow.main.nodes.by-type]
component = "by-field"
config = { field = "type", routes = { metric = "metrics", log = "logs" }, default = "other" }
""",
)

_ATTRIBUTE = "attribute:"


class ByField(Router):
    spec: ClassVar[Spec] = SPEC

    def init(self, config: str) -> None:
        options = parse_config(SPEC, config)
        self.config = config
        self._ports = _ports(options)
        self._field: str = options["field"]
        # Built once, so that routing is one look-up.
        self._routes = {value: (port,) for value, port in options["routes"].items()}
        self._default: tuple[str, ...] = (options["default"],) if options["default"] else ()

    @property
    def ports(self) -> tuple[str, ...]:  # type: ignore[override]
        """The ports that the config determines."""
        return self.ports_for(self.config)

    @classmethod
    def ports_for(cls, config: Any) -> tuple[str, ...]:
        """The ports of a node with this config; raises `ContractError` like `init`."""
        return _ports(parse_config(SPEC, config))

    def route(self, element: Element) -> tuple[str, ...]:
        if self._field.startswith(_ATTRIBUTE):
            value = element.attributes.get(self._field.removeprefix(_ATTRIBUTE), MISSING)
        else:
            value = get_field(parse_object(element), self._field)
        if value is MISSING:
            return self._default
        key = value if isinstance(value, str) else write_json(to_json_value(value))
        return self._routes.get(key, self._default)


def _ports(options: dict[str, Any]) -> tuple[str, ...]:
    named = {*options["routes"].values(), *([options["default"]] if options["default"] else [])}
    if not named:
        raise wrong_config(SPEC, "it has no ports", "set `routes` (value = port) or `default`")
    declared: tuple[str, ...] = tuple(dict.fromkeys(options["ports"]))
    stray = sorted(named - set(declared))
    if declared and stray:
        ports = ", ".join(f"`{port}`" for port in declared)
        raise wrong_config(
            SPEC, f"the port `{stray[0]}` is not one of `ports`", f"`ports` are {ports}"
        )
    return declared or tuple(sorted(named))
