"""`by-field`: sends each element to the port that belongs to the value of one of its fields.

The field is a dotted path into the element's JSON object, or `attribute:NAME`. The ports follow
from the config, so the edges of a flow can be checked before anything is started.
"""

from __future__ import annotations

from typing import Any, ClassVar

from torvyn.components.config import parse_config, wrong_config
from torvyn.components.json_fields import MISSING, get_field, plain, read_object, write_json
from torvyn.components.spec import Option, Spec
from torvyn.contract import Element, Router

SPEC = Spec(
    name="by-field",
    role="router",
    summary="Sends each element to the port that belongs to the value of one of its fields.",
    options=(
        Option(
            "field",
            "text",
            None,
            "A dotted path into the JSON object, or `attribute:NAME`.",
            required=True,
        ),
        Option(
            "routes", "text table", {}, "Value = port. A number or a boolean as JSON spells it."
        ),
        Option(
            "default", "text", "", "The port of all other values; without it, they are dropped."
        ),
        Option("ports", "words", (), "The ports, where their order or a check of names matters."),
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
        # Answers are made once: a route is one look-up.
        self._answers = {value: (port,) for value, port in options["routes"].items()}
        self._otherwise: tuple[str, ...] = (options["default"],) if options["default"] else ()

    @property
    def ports(self) -> tuple[str, ...]:  # type: ignore[override]
        """The ports that follow from the config."""
        return self.ports_for(self.config)

    @classmethod
    def ports_for(cls, config: Any) -> tuple[str, ...]:
        """The ports that a node with this config has; raises `ContractError` as `init` would."""
        return _ports(parse_config(SPEC, config))

    def route(self, element: Element) -> tuple[str, ...]:
        if self._field.startswith(_ATTRIBUTE):
            value = element.attributes.get(self._field.removeprefix(_ATTRIBUTE), MISSING)
        else:
            value = get_field(read_object(element), self._field)
        if value is MISSING:
            return self._otherwise
        key = value if isinstance(value, str) else write_json(plain(value))
        return self._answers.get(key, self._otherwise)


def _ports(options: dict[str, Any]) -> tuple[str, ...]:
    named = {*options["routes"].values(), *([options["default"]] if options["default"] else [])}
    if not named:
        raise wrong_config(
            SPEC, "it has no port to send to", "give `routes` (value = port) or a `default` port"
        )
    declared: tuple[str, ...] = tuple(dict.fromkeys(options["ports"]))
    stray = sorted(named - set(declared))
    if declared and stray:
        ports = ", ".join(f"`{port}`" for port in declared)
        raise wrong_config(
            SPEC, f"the port `{stray[0]}` is not one of `ports`", f"`ports` are {ports}"
        )
    return declared or tuple(sorted(named))
