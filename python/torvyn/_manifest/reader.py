"""A TOML value -> a Python value, as its `Key` requires; None and a problem if it is wrong.

Tables and required keys are checked in `parse.py`. In strings `${VAR}` is a variable of the
environment and `$$` a dollar sign; a dollar before any other character is itself. Values from the
environment are recorded, because they must never be printed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from torvyn._contract.units import parse_duration_s, parse_size_bytes, render_duration, render_size
from torvyn._manifest.problems import Problems
from torvyn._manifest.schema import Key
from torvyn._manifest.toml_tree import Node
from torvyn.errors import Location, quoted, suggestion

_JSON_KINDS = ("string", "table", "array", "integer", "float", "boolean")
"""The kinds of TOML values that a config may be."""

_NAME = re.compile(r"\w[\w-]*")
NAME_PATTERN = r"^\w[\w-]*$"
VERSION_PATTERN = r"^[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?$"
_VERSION = re.compile(VERSION_PATTERN, re.ASCII)
_ARTICLES = {"integer": "an integer", "array": "an array"}


class Values:
    """Reads values and collects problems."""

    def __init__(self, problems: Problems, variables: Variables) -> None:
        self.problems = problems
        self.variables = variables

    def read(self, key: Key, node: Node) -> Any:
        return getattr(self, f"_{key.kind}")(key, node)

    def text(self, node: Node, what: str) -> str | None:
        """A string with its variables expanded."""
        if node.kind != "string":
            self.wrong_type(node, what, "a string")
            return None
        return self.variables.expand(node.value, node.location)

    def wrong_type(self, node: Node, what: str, expected: str, hint: str | None = None) -> None:
        got = _ARTICLES.get(node.kind, f"a {node.kind}")
        message = f"`{what}` is {got}, not {expected}"
        self.problems.add("manifest.wrong-type", message, node.location, hint)

    def bad(self, node: Node, message: str, hint: str | None, code: str = "bad-value") -> None:
        self.problems.add(f"manifest.{code}", message, node.location, hint)

    def name(self, name: str, node_or_key: Any) -> bool:
        """Whether the name is valid in `node:port` and `node.key`."""
        if _NAME.fullmatch(name):
            return True
        hint = "use letters, digits, `_` and `-`"
        self.problems.add(
            "manifest.bad-name", f"`{name}` is not a valid name", node_or_key.location, hint
        )
        return False

    def _string(self, key: Key, node: Node) -> str | None:
        text = self.text(node, key.name)
        if text == "" and key.required:
            self.bad(node, f"`{key.name}` is empty", f"write {key.meaning}")
            return None
        if text is None or not key.choices:
            return text
        text = dict(key.aliases).get(text, text)
        if text in key.choices:
            return text
        if text in key.unsupported:
            hint = f"this build supports {quoted(key.choices)}"
            message = f'`{key.name} = "{text}"` is not supported by this build'
            self.bad(node, message, hint, "unsupported")
            return None
        meant = suggestion(text, key.choices, f"it must be {quoted(key.choices, 'or')}")
        self.bad(node, f"`{text}` is not a value of `{key.name}`", meant)
        return None

    def _name(self, key: Key, node: Node) -> str | None:
        text = self.text(node, key.name)
        return text if text is not None and self.name(text, node) else None

    def _version(self, key: Key, node: Node) -> str | None:
        text = self.text(node, key.name)
        if text is None:
            return None
        if not _VERSION.fullmatch(text):
            self.bad(node, f"`{text}` is not a version", 'write it as "1.2.3"')
        elif key.choices and text not in key.choices:
            message = f"contract version `{text}` is not supported by this build"
            self.bad(node, message, f"this build supports {quoted(key.choices)}", "unsupported")
        else:
            return text
        return None

    def _integer(self, key: Key, node: Node) -> int | None:
        if node.kind != "integer":
            self.wrong_type(node, key.name, "an integer")
            return None
        return int(node.value) if self._in_range(key, node, node.value, str) else None

    def _boolean(self, key: Key, node: Node) -> bool | None:
        if node.kind == "boolean":
            return bool(node.value)
        hint = f"write `{key.name} = true`, without quotes"
        self.wrong_type(node, key.name, "true or false", hint)
        return None

    def _ratio(self, key: Key, node: Node) -> float | None:
        if node.kind not in ("integer", "float"):
            self.wrong_type(node, key.name, f"a number from 0 to {key.maximum:g}")
            return None
        return float(node.value) if self._in_range(key, node, node.value, "{:g}".format) else None

    def _size(self, key: Key, node: Node) -> Any:
        return self._quantity(key, node, ("size", parse_size_bytes, render_size, "B"))

    def _duration(self, key: Key, node: Node) -> Any:
        return self._quantity(key, node, ("duration", parse_duration_s, render_duration, "s"))

    def _quantity(self, key: Key, node: Node, quantity: tuple[str, Any, Any, str]) -> Any:
        what, parse, render, unit = quantity
        if node.kind == "integer":
            hint = f'write `{key.name} = "{node.value}{unit}"`'
            self.wrong_type(node, key.name, f"a {what}", hint)
            return None
        text = self.text(node, key.name)
        if text is None:
            return None
        try:
            value = parse(text)
        except ValueError as error:
            self.bad(node, f"`{text}` is not a {what}", str(error), f"bad-{what}")
            return None
        return value if self._in_range(key, node, value, render) else None

    def _in_range(self, key: Key, node: Node, value: float, render: Any) -> bool:
        if not math.isfinite(value) or value < key.minimum:
            least = "more than 0" if 0 < key.minimum < 1 else f"at least {render(key.minimum)}"
            self.bad(node, f"`{key.name}` is {render(value)}; it must be {least}", None)
            return False
        if value > key.maximum:
            limit = f"it must be at most {render(key.maximum)}"
            self.bad(node, f"`{key.name}` is {render(value)}; {limit}", None)
            return False
        return True

    def _strings(self, key: Key, node: Node) -> tuple[str, ...] | None:
        if node.kind != "array":
            self.wrong_type(node, key.name, "an array of strings")
            return None
        texts = [self.text(item, key.name) for item in node.value]
        return tuple(text for text in texts if text is not None)

    def _amounts(self, key: Key, node: Node) -> dict[str, float] | None:
        """Numbers by name."""
        if node.kind != "table":
            self.wrong_type(node, key.name, "a table of numbers", "write `{ name = 1 }`")
            return None
        amounts: dict[str, float] = {}
        for entry in node.entries():
            if entry.node.kind not in ("integer", "float"):
                self.wrong_type(entry.node, f"{key.name}.{entry.key}", "a number")
            elif not 0 < entry.node.value < math.inf:
                message = f"`{key.name}.{entry.key}` is {entry.node.value}; it must be more than 0"
                self.bad(entry.node, message, None)
            else:
                amounts[entry.key] = float(entry.node.value)
        return amounts

    def _config(self, key: Key, node: Node) -> Any:
        if node.kind in _JSON_KINDS:
            return self._plain(node)
        # Link knows the component, and says what it takes.
        self.wrong_type(node, key.name, "a string or a table", "write a date as a string")
        return None

    def _plain(self, node: Node) -> Any:
        """The value as JSON data."""
        if node.kind == "string":
            return self.text(node, "config")
        if node.kind == "table":
            return {entry.key: self._plain(entry.node) for entry in node.entries()}
        if node.kind == "array":
            return [self._plain(item) for item in node.value]
        if node.kind == "float" and not math.isfinite(node.value):
            self.bad(node, f"`{node.value}` cannot be written as JSON", "write a finite number")
            return None
        return node.value


_MARK = re.compile(r"\$(?:(?P<dollar>\$)|\{(?P<name>[^}]*)(?P<close>\}?))")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class Variables:
    """The environment variables that one file uses."""

    def __init__(self, environ: Mapping[str, str], problems: Problems) -> None:
        self._environ = environ
        self._problems = problems
        self.used: set[str] = set()

    def expand(self, text: str, location: Location) -> str | None:
        """The text with its variables expanded, or None and a problem."""
        if "$" not in text:
            return text
        is_complete = True

        def fill(match: re.Match[str]) -> str:
            nonlocal is_complete
            value = self._value(match, location)
            is_complete = is_complete and value is not None
            return value or ""

        expanded = _MARK.sub(fill, text)
        return expanded if is_complete else None

    def _value(self, match: re.Match[str], location: Location) -> str | None:
        if match["dollar"]:
            return "$"
        name = match["name"]
        if not match["close"] or not _VARIABLE_NAME.fullmatch(name):
            self._problems.add(
                "manifest.bad-substitution",
                f"`{match[0]}` is not a variable",
                location,
                "write `${NAME}`, or `$$` for a dollar sign",
            )
            return None
        self.used.add(name)
        value = self._environ.get(name)
        if value is None:
            hint = suggestion(name, self._environ, f"set it: export {name}=...")
            message = f"the environment variable `{name}` is not set"
            self._problems.add("manifest.variable-undefined", message, location, hint)
        elif not _is_text(value):
            message = f"the environment variable `{name}` is not UTF-8"
            self._problems.add("manifest.bad-substitution", message, location)
            return None
        elif value:
            self._problems.secrets.add(value)
        return value


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def escape(text: str) -> str:
    """The text, escaped so that `expand` returns it unchanged."""
    return text.replace("$", "$$")
