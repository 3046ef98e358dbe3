"""The spec of a built-in component: its name, its summary and its options.

Every component file has one spec. It parses the component's config and generates its reference
page, so the docs and the parser agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

KINDS: Final[dict[str, str]] = {
    "text": "text",
    "choice": "one of a few words",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "duration": 'a duration such as "100ms", or seconds as a number',
    "size": 'a size such as "1KiB", or bytes as a number',
    "words": "a list of text, or text split at commas; each word is trimmed",
    "tokens": "a list of text, or text split at commas; nothing is trimmed",
    "list": "a list of tables",
    "texts": "a list of text, or one text; nothing is split or trimmed",
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
        """The values that the option takes, in words."""
        if self.choices:
            return " or ".join(f'"{choice}"' for choice in self.choices)
        if self.minimum is not None and self.kind in ("integer", "number"):
            return f"{KINDS[self.kind]}, {self.minimum:g} or more"
        return KINDS[self.kind]


@dataclass(frozen=True, slots=True)
class Spec:
    """A built-in component. A plain-text config is the value of the option `main`."""

    name: str
    role: str
    summary: str
    options: tuple[Option, ...] = ()
    example: str = ""
    """A node in a manifest."""
    main: str | None = None
    other_names: Mapping[str, str] = field(default_factory=dict)
    """Names that people look for, and the option's name; for hints."""

    def option(self, name: str) -> Option | None:
        return next((option for option in self.options if option.name == name), None)


def did_you_mean(name: str, known: Iterable[str], other_names: Mapping[str, str]) -> str:
    """The end of a hint: the option that an unknown name may stand for."""
    names = {**{option: option for option in known}, **other_names}
    import difflib

    near = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean `{names[near[0]]}`?" if near else ""
