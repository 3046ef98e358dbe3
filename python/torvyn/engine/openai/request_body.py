"""A request as the JSON body for an OpenAI-compatible upstream. Pure.

`stop` is sent unless the stop string is part of the answer or there are more than upstreams accept;
stop strings are matched here in any case. `priority` is not sent. Of other fields, those of the
engine's `extra_body` win over those of the request, which replace nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from torvyn.engine.request import Request
from torvyn.errors import InvalidInput

Api = Literal["chat", "completions"]
MOST_STOPS: Final = 4
_SAME: Final = ("temperature", "top_p", "seed", "user", "response_format")


@dataclass(frozen=True, slots=True)
class Shape:
    """The form of body that an upstream expects."""

    model: str
    api: Api = "chat"
    max_tokens_field: str = "max_tokens"
    asks_usage: bool = True
    extra: Mapping[str, Any] = field(default_factory=dict)


def body_of(request: Request, shape: Shape) -> dict[str, Any]:
    body: dict[str, Any] = {"model": shape.model, "stream": True, **_input(request, shape.api)}
    if shape.asks_usage:
        body["stream_options"] = {"include_usage": True}
    if request.max_tokens is not None:
        body[shape.max_tokens_field] = request.max_tokens
    for name in _SAME:
        if (value := getattr(request, name)) is not None:
            body[name] = value
    if request.n > 1:
        body["n"] = request.n
    if request.stop and not request.include_stop and len(request.stop) <= MOST_STOPS:
        body["stop"] = list(request.stop)
    if request.tools:
        body["tools"] = list(request.tools)
    if request.tool_choice is not None:
        body["tool_choice"] = request.tool_choice
    return {**request.extra, **body, **_logprobs(request, shape.api), **shape.extra}


def must_be_prompt(request: Request, api: Api) -> None:
    if api == "completions" and request.prompt is None:
        raise InvalidInput(
            "this upstream uses the completions API, which takes a prompt, not messages",
            hint='open the engine with `api="chat"`',
            code="engine.request-invalid",
        )


def _input(request: Request, api: Api) -> dict[str, Any]:
    must_be_prompt(request, api)
    if api == "completions":
        return {"prompt": request.prompt}
    if request.prompt is not None:
        return {"messages": [{"role": "user", "content": request.prompt}]}
    return {"messages": list(request.messages)}


def _logprobs(request: Request, api: Api) -> dict[str, Any]:
    if not request.logprobs:
        return {}
    if api == "completions":
        return {"logprobs": request.top_logprobs}
    if request.top_logprobs:
        return {"logprobs": True, "top_logprobs": request.top_logprobs}
    return {"logprobs": True}
