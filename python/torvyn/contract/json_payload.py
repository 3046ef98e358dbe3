"""Objects as payloads: a dict or a dataclass becomes JSON, and `element.json()` reads it.

The native core asks `json_text` last, when it knows no other meaning of a component's result.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar, Final, Protocol

from torvyn.contract.inspection import class_attribute, class_name, is_instance
from torvyn.contract.signals import End
from torvyn.errors import ContractError, InvalidInput

JSON: Final = "application/json"


class Dataclass(Protocol):
    """An instance of a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


def _fields(value: Any) -> dict[str, Any]:
    """A dataclass inside of another object."""
    if not _is_dataclass(value):
        raise TypeError(f"an object of type {class_name(value)} has no form in JSON")
    return {name: getattr(value, name) for name in type(value).__dataclass_fields__}


def _is_dataclass(value: object) -> bool:
    kind = type(value)
    return class_attribute(kind, "__dataclass_fields__") is not None and not issubclass(kind, End)


_ENCODER: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_fields
)


def json_text(value: object) -> str | None:
    """A dict or a dataclass as JSON; None for anything else."""
    if not is_instance(value, dict) and not _is_dataclass(value):
        return None
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        message = f"a {class_name(value)} cannot be sent as JSON: {error}"
        hint = "a payload is str, bytes, or a dict or dataclass of what JSON knows"
        raise ContractError("contract.wrong-result", message, hint=hint) from error


def read_json(element: Any) -> Any:
    """The payload of an element as JSON."""
    try:
        return json.loads(element.text)
    except ValueError as error:
        raise InvalidInput(f"the payload is not JSON: {error}") from error
