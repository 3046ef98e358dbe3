"""A request to an engine: checked once, then only read."""

from __future__ import annotations

import difflib
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final

from torvyn.engine.extra_fields import extra_problems
from torvyn.errors import InvalidInput

if TYPE_CHECKING:
    from torvyn.engine.nodes.source_request import RequestSource

MOST_STOPS: Final = 16
MOST_CHOICES: Final = 128
MOST_TOP_LOGPROBS: Final = 20
SHOWN_ID: Final = 12
"""Letters of an id in logs and lists: whoever has all of it can stop the answer."""
_MOST_PROBLEMS: Final = 8
_MOST_SHOWN: Final = 64
"""Of what is told to who asked for nonsense: an error is not as large as the request."""
ROLES: Final = ("system", "developer", "user", "assistant", "tool")
PRIORITIES: Final = ("critical", "high", "normal", "low", "background")
Message = Mapping[str, Any]


def new_id() -> str:
    """128 random bits: a request id can be a secret."""
    return "req-" + secrets.token_hex(16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked of an engine. `prompt` or `messages`, never both.

    `max_tokens = None` leaves the length to the engine: until it ends or its context is full.
    """

    prompt: str | None = None
    messages: tuple[Message, ...] = ()
    raw_prompt: bool = False
    """The prompt is continued as it is, by engines that would make a conversation of it."""
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    include_stop: bool = False
    n: int = 1
    logprobs: bool = False
    top_logprobs: int = 0
    tools: tuple[Mapping[str, Any], ...] = ()
    tool_choice: str | Mapping[str, Any] | None = None
    response_format: Mapping[str, Any] | None = None
    user: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields that are not ours, such as `top_k`, for engines that forward them."""
    priority: str = "normal"
    id: str = field(default_factory=new_id)

    @property
    def log_id(self) -> str:
        """Enough of the id to find a request by."""
        return self.id[:SHOWN_ID]

    @classmethod
    def make(cls, asked: str | Sequence[Message] | Request, **options: Any) -> Request:
        """The request for a prompt or messages; raises `InvalidInput` with all that is wrong.

        An option that is None is left out. `request_id` is the id.
        """
        options = {name: value for name, value in options.items() if value is not None}
        if isinstance(asked, Request):
            if not options:
                return asked
            # What is changed is judged as what is new.
            given = {name: getattr(asked, name) for name in _OPTIONS - options.keys()}
            options |= {name: value for name, value in given.items() if value is not None}
            asked = asked.messages if asked.prompt is None else asked.prompt
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
        if isinstance(asked, str):
            request = cls(prompt=asked, **options)
        elif isinstance(asked, Mapping) or not isinstance(asked, Iterable):
            raise invalid([f"a prompt is text, or a list of messages, not {_shown(asked)}"])
        else:
            request = cls(messages=tuple(asked), **options)
        if problems := list(request.problems()):
            raise invalid(problems)
        return request

    def source(self, roles: Sequence[str] = ()) -> RequestSource:
        """The source of a flow that guards its texts: `Flow(request.source(), guard,
        engine.processor())`. `roles` are those whose texts go through the flow; without them,
        everybody's do."""
        # It stands on components, which many programs with an engine never need.
        from torvyn.engine.nodes.source_request import RequestSource

        return RequestSource(self, roles)

    def problems(self) -> Iterator[str]:
        """All that is wrong with it, as sentences."""
        if (self.prompt is None) == (not self.messages):
            yield "a request has either a prompt or messages"
        if self.prompt == "":
            yield "the prompt is empty"
        if self.raw_prompt and self.prompt is None:
            yield "`raw_prompt` is for a prompt, and there are messages"
        for place, message in enumerate(self.messages):
            if not isinstance(message, Mapping) or message.get("role") not in ROLES:
                yield f"messages[{place}] has no role of {', '.join(ROLES)}"
        yield from self._problems_of_numbers()
        if len(self.stop) > MOST_STOPS:
            yield f"{len(self.stop)} stop strings; at most {MOST_STOPS} are looked for"
        if not all(map(_is_text, self.stop)):
            yield "a stop string is empty or no text"
        yield from extra_problems(self.extra)
        if self.priority not in PRIORITIES:
            yield f"`priority` is one of {', '.join(PRIORITIES)}, not {_brief(self.priority)}"

    def _problems_of_numbers(self) -> Iterator[str]:
        for name, (kind, least, most) in _RANGES.items():
            value = getattr(self, name)
            if value is None:
                continue
            is_kind = isinstance(value, kind) and not isinstance(value, bool)
            if not is_kind or not least <= value <= most:
                words = "a whole number" if kind is int else "a number"
                yield f"`{name}` is {words} from {least} to {most}, not {_brief(value)}"


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


def _shown(value: object) -> str:
    return "None" if value is None else type(value).__name__


def _brief(value: object) -> str:
    """As it was given; not all of it, if it is long."""
    shown = repr(value)
    return shown if len(shown) <= _MOST_SHOWN else shown[:_MOST_SHOWN] + "..."


def _is_text(value: object) -> bool:
    """Whether it is some text that can be looked for: half of a surrogate pair is in no answer."""
    try:
        return isinstance(value, str) and bool(value.encode())
    except UnicodeEncodeError:
        return False


def _unknown(name: str) -> str:
    close = difflib.get_close_matches(name, _OPTIONS, 1)
    return f"`{name}` is no option of a request" + "".join(f"; `{one}` is" for one in close)


def options_of(request: Request) -> dict[str, Any]:
    """What the request does not leave at its default, which stands for what it leaves open."""
    held = {item.name: (getattr(request, item.name), item.default) for item in fields(Request)}
    return {
        name: value
        for name, (value, default) in held.items()
        if value != default and name in _OPTIONS
    }


def invalid(problems: Sequence[str]) -> InvalidInput:
    """One error for what is wrong with a request: all of it, unless that is much."""
    said = "; ".join(problems[:_MOST_PROBLEMS])
    if (more := len(problems) - _MOST_PROBLEMS) > 0:
        said += f"; and {more} more"
    return InvalidInput(said, code="engine.request-invalid")
