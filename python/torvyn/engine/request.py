"""A request to an engine: validated once, then read-only."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final

from torvyn._contract.enums import PriorityClass
from torvyn.engine.extra_fields import extra_problems
from torvyn.errors import InvalidInput

if TYPE_CHECKING:
    from torvyn.engine.nodes.source_request import RequestSource

MOST_STOPS: Final = 16
MOST_CHOICES: Final = 128
MOST_TOP_LOGPROBS: Final = 20
_OWN_ID: Final = re.compile("req-[0-9a-f]{32}")
_MOST_PROBLEMS: Final = 8
_MOST_SHOWN: Final = 64
"""Characters of a wrong value in an error message."""
ROLES: Final = ("system", "developer", "user", "assistant", "tool")
CUT_CHARACTERS: Final = ("drop", "replace")
PRIORITIES: Final = PriorityClass.texts()
Message = Mapping[str, Any]


def new_id() -> str:
    """128 random bits: nobody can guess the id of an answer, and with it stop the answer."""
    return "req-" + os.urandom(16).hex()


def is_own_id(id: str) -> bool:
    """Whether the id looks as if `new_id` had made it."""
    return _OWN_ID.fullmatch(id) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to an engine: `prompt` or `messages`, never both.

    `max_tokens = None` leaves the length to the engine and its context.
    """

    prompt: str | None = None
    messages: tuple[Message, ...] = ()
    raw_prompt: bool = False
    """Continue the prompt as it is instead of making a conversation of it."""
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    include_stop: bool = False
    cut_character: str = "drop"
    """What becomes of a character that the end of the answer cuts, at a limit or because somebody
    ended it: `drop`, or `replace` by U+FFFD."""
    n: int = 1
    logprobs: bool = False
    top_logprobs: int = 0
    tools: tuple[Mapping[str, Any], ...] = ()
    tool_choice: str | Mapping[str, Any] | None = None
    response_format: Mapping[str, Any] | None = None
    user: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Other fields, such as `top_k`, for engines that forward them."""
    priority: str = "normal"
    id: str = field(default_factory=new_id)

    @classmethod
    def make(cls, prompt: PromptLike, **options: Any) -> Request:
        """A request for a prompt or messages. Raises `InvalidInput` with all problems.

        Options that are None are ignored. `request_id` sets the id.
        """
        options = {name: value for name, value in options.items() if value is not None}
        if isinstance(prompt, Request):
            if not options:
                return prompt
            # A changed request is validated like a new one.
            others = {name: getattr(prompt, name) for name in _OPTIONS - options.keys()}
            options |= {name: value for name, value in others.items() if value is not None}
            prompt = prompt.messages if prompt.prompt is None else prompt.prompt
        if "request_id" in options:
            options["id"] = options.pop("request_id")
        if unknown := sorted(set(options) - _OPTIONS):
            raise invalid([_unknown(name) for name in unknown])
        if isinstance(options.get("stop"), str):
            options["stop"] = (options["stop"],)
        for name in ("stop", "tools"):
            if not isinstance(value := options.get(name, ()), (list, tuple)):
                raise invalid([f"`{name}` is a list, not {type(value).__name__}"])
            options[name] = tuple(value)
        if isinstance(prompt, str):
            request = cls(prompt=prompt, **options)
        elif isinstance(prompt, Mapping) or not isinstance(prompt, Iterable):
            raise invalid([f"a prompt is text or a list of messages, not {_type_name(prompt)}"])
        else:
            request = cls(messages=tuple(prompt), **options)
        if problems := list(request.problems()):
            raise invalid(problems)
        return request

    def source(self, roles: Sequence[str] = ()) -> RequestSource:
        """The source of a flow that guards its texts: `Flow(request.source(), guard,
        engine.processor())`. Only texts of these roles go through the flow; by default all do."""
        # It needs components, which many programs with an engine never load.
        from torvyn.engine.nodes.source_request import RequestSource

        return RequestSource(self, roles)

    def problems(self) -> Iterator[str]:
        """All problems of the request, as sentences."""
        if (self.prompt is None) == (not self.messages):
            yield "a request has either a prompt or messages"
        if self.prompt == "":
            yield "the prompt is empty"
        if self.raw_prompt and self.prompt is None:
            yield "`raw_prompt` needs a prompt, not messages"
        for place, message in enumerate(self.messages):
            if not isinstance(message, Mapping) or message.get("role") not in ROLES:
                yield f"messages[{place}] needs a role: {', '.join(ROLES)}"
        yield from self._number_problems()
        if len(self.stop) > MOST_STOPS:
            yield f"{len(self.stop)} stop strings; the most is {MOST_STOPS}"
        if not all(map(_is_text, self.stop)):
            yield "a stop string is empty or not text"
        if self.cut_character not in CUT_CHARACTERS:
            known = " or ".join(f'"{way}"' for way in CUT_CHARACTERS)
            yield f"`cut_character` is {known}, not {_brief(self.cut_character)}"
        yield from extra_problems(self.extra)
        if self.priority not in PRIORITIES:
            yield f"`priority` is one of {', '.join(PRIORITIES)}, not {_brief(self.priority)}"

    def _number_problems(self) -> Iterator[str]:
        for name, (kind, least, most) in _RANGES.items():
            value = getattr(self, name)
            if value is None:
                continue
            is_kind = isinstance(value, kind) and not isinstance(value, bool)
            if not is_kind or not least <= value <= most:
                expected = "a whole number" if kind is int else "a number"
                yield f"`{name}` is {expected} from {least} to {most}, not {_brief(value)}"


PromptLike = str | Sequence[Message] | Request
_OPTIONS: Final = frozenset(item.name for item in fields(Request)) - {"prompt", "messages"}
_WHOLE: Final = 2**63 - 1
_RANGES: Final[dict[str, tuple[Any, float, float]]] = {
    "max_tokens": (int, 0, _WHOLE),
    "temperature": ((int, float), 0, 2),
    "top_p": ((int, float), 0, 1),
    "seed": (int, -_WHOLE - 1, _WHOLE),
    "n": (int, 1, MOST_CHOICES),
    "top_logprobs": (int, 0, MOST_TOP_LOGPROBS),
}


def _type_name(value: object) -> str:
    return "None" if value is None else type(value).__name__


def _brief(value: object) -> str:
    """The value, shortened."""
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "..."


def _is_text(value: object) -> bool:
    """Whether it is text that an answer can contain; half of a surrogate pair is not."""
    try:
        return isinstance(value, str) and bool(value.encode())
    except UnicodeEncodeError:
        return False


def _unknown(name: str) -> str:
    close = difflib.get_close_matches(name, _OPTIONS, 1)
    return f"`{name}` is not an option of a request" + "".join(f"; `{one}` is" for one in close)


def options_of(request: Request) -> dict[str, Any]:
    """The options that differ from their defaults."""
    values = {item.name: (getattr(request, item.name), item.default) for item in fields(Request)}
    return {
        name: value
        for name, (value, default) in values.items()
        if value != default and name in _OPTIONS
    }


def invalid(problems: Sequence[str]) -> InvalidInput:
    """One error for the problems of a request, the first few in full."""
    message = "; ".join(problems[:_MOST_PROBLEMS])
    if (more := len(problems) - _MOST_PROBLEMS) > 0:
        message += f"; and {more} more"
    return InvalidInput(message, code="engine.request-invalid")
