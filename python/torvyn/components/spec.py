"""The spec of a built-in component: what it is called, what it does and which options it takes.

One spec a component file. Its config is parsed by it and its page in the reference is generated
from it, so what the docs say is what the parser does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

KINDS: Final[dict[str, str]] = {
    "text": "text",
    "choice": "one of a few words",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "duration": 'a duration such as "100ms", or seconds as a number',
    "size": 'a size such as "1KiB", or bytes as a number',
    "words": "a list of text, or text with commas; each word is trimmed",
    "tokens": "a list of text, or text cut at its commas; nothing is trimmed",
    "list": "a list of tables",
    "texts": "a list of text, or one text; nothing is cut or trimmed",
    "table": "a table",
    "text table": "a table of text",
}


@dataclass(frozen=True, slots=True)
class Option:
    """One option: `kind` is a key of `KINDS`."""

    name: str
    kind: str
    default: Any
    doc: str
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    required: bool = False

    @property
    def expects(self) -> str:
        """What to write, in words."""
        if self.choices:
            return " or ".join(f'"{choice}"' for choice in self.choices)
        if self.minimum is not None and self.kind in ("integer", "number"):
            return f"{KINDS[self.kind]}, {self.minimum:g} or more"
        return KINDS[self.kind]


@dataclass(frozen=True, slots=True)
class Spec:
    """A built-in component. A config that is plain text fills the option `main`."""

    name: str
    role: str
    summary: str
    options: tuple[Option, ...] = ()
    example: str = ""
    """A node of a manifest, as it would be written there."""
    main: str | None = None

    def option(self, name: str) -> Option | None:
        return next((option for option in self.options if option.name == name), None)
