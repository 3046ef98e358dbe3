"""A text with the fields of an element, such as the topic `sensors/{id}`.

A name in braces is a field of the JSON payload, by its dotted path; `{@name}` is an attribute.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from torvyn._contract.element import Element
from torvyn.components.config import wrong_config
from torvyn.components.json_fields import MISSING, get_field, parse_object
from torvyn.components.spec import Spec
from torvyn.errors import InvalidInput

_FIELD = re.compile(r"\{([^{}]*)\}")


def text_template(
    spec: Spec, option: str, template: str, *, forbidden: str, check: Callable[[str], None]
) -> Callable[[Element], str]:
    """The text of each element. Values must not have a `forbidden` character. Raises
    `ContractError` for a template that is none; `check` gets it with its fields filled in."""
    names = _FIELD.findall(template)
    rest = _FIELD.sub("x", template)
    if "" in names or "{" in rest or "}" in rest:
        hint = "write `{field}` for a field of the JSON payload, `{@name}` for an attribute"
        message = f"`{option}` is {template!r}, with a brace that names no field"
        raise wrong_config(spec, message, hint)
    check(rest)
    if not names:
        return lambda element: template
    reads_payload = any(not name.startswith("@") for name in names)

    def text_of(element: Element) -> str:
        record = parse_object(element) if reads_payload else {}
        values = {name: _value(option, name, record, element, forbidden) for name in names}
        return _FIELD.sub(lambda match: values[match[1]], template)

    return text_of


def _value(option: str, name: str, record: dict[str, Any], element: Element, forbidden: str) -> str:
    if name.startswith("@"):
        value = element.attributes.get(name[1:], MISSING)
    else:
        value = get_field(record, name)
    if value is MISSING or not isinstance(value, (str, int, float)):
        what = f"attribute `{name[1:]}`" if name.startswith("@") else f"field `{name}`"
        message = f"its {option} needs the {what}, which is missing or no text and no number"
        raise InvalidInput(message)
    text = str(value)
    if not text or any(sign in text for sign in forbidden):
        raise InvalidInput(f"its {option} would have {text!r} in it, which is not allowed")
    return text
