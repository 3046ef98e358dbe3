"""A topic with the fields of an element: `sensors/{id}`.

A name in braces is a field of the JSON payload, by its dotted path; `{@name}` is an attribute.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from torvyn.components.config import wrong_config
from torvyn.components.json_fields import MISSING, get_field, parse_object
from torvyn.components.mqtt.options import check_topic
from torvyn.components.spec import Spec
from torvyn.contract import Element
from torvyn.errors import InvalidInput

_FIELD = re.compile(r"\{([^{}]*)\}")


def topic_template(spec: Spec, template: str) -> Callable[[Element], bytes]:
    """The topic of each element; raises `ContractError` for a template that is none."""
    names = _FIELD.findall(template)
    rest = _FIELD.sub("x", template)
    if "" in names or "{" in rest or "}" in rest:
        hint = "write `{field}` for a field of the JSON payload, `{@name}` for an attribute"
        raise wrong_config(spec, f"`topic` is {template!r}, with a brace that names no field", hint)
    check_topic(spec, "topic", rest)
    fixed = template.encode()
    if not names:
        return lambda element: fixed
    reads_payload = any(not name.startswith("@") for name in names)

    def topic_of(element: Element) -> bytes:
        record = parse_object(element) if reads_payload else {}
        return _FIELD.sub(lambda match: _value(match[1], record, element), template).encode()

    return topic_of


def _value(name: str, record: dict[str, Any], element: Element) -> str:
    if name.startswith("@"):
        value = element.attributes.get(name[1:], MISSING)
    else:
        value = get_field(record, name)
    if value is MISSING or not isinstance(value, (str, int, float)):
        what = f"attribute `{name[1:]}`" if name.startswith("@") else f"field `{name}`"
        raise InvalidInput(f"its topic needs the {what}, which is missing or no text and no number")
    text = str(value)
    if not text or any(sign in text for sign in "+#\0"):
        raise InvalidInput(f"its topic would have {text!r} in it, which MQTT does not allow")
    return text
