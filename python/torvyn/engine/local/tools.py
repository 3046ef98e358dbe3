"""Required tool calls for local models, enforced with a JSON schema.

llama.cpp does not enforce `tool_choice: "required"` for most models, but it does enforce a schema.
So the request asks for the call as JSON of a schema, and the JSON that streams back becomes a tool
call: its name, then its arguments in pieces.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from torvyn.engine.request import Request, invalid
from torvyn.engine.step import ChoiceStep, Step
from torvyn.errors import Internal
from torvyn.protocol.frames import ToolCall

Json = dict[str, Any]
_WORDS: Final = ("auto", "none", "required")
_HEAD: Final = re.compile(r'\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"arguments"\s*:\s*')
_TAIL: Final = re.compile(r"\s*\}?\s*\Z")
"""The possible end of the object around the arguments."""
_ASKS: Final = (
    "Call one of these functions. Answer with a JSON object that has the name of the function as "
    "`name` and its arguments as `arguments`.\n"
)


def required_tools(request: Request) -> list[Mapping[str, Any]]:
    """The tools of which one must be called; empty if no call is required."""
    choice = request.tool_choice
    if choice is None or choice in ("auto", "none"):
        return []
    if isinstance(choice, str) and choice not in _WORDS:
        raise invalid([f"`tool_choice` is one of {', '.join(_WORDS)}, or names a function"])
    tools = {_name(tool): tool for tool in request.tools}
    if isinstance(choice, Mapping):
        name = _name(choice)
        if name not in tools:
            raise invalid([f"`tool_choice` names `{name[:64]}`, which is not one of the `tools`"])
        tools = {name: tools[name]}
    if not tools:
        raise invalid([f"`tool_choice` is `{choice}`, but the request has no `tools`"])
    if request.response_format is not None:
        raise invalid(["a required tool call and a `response_format` exclude each other"])
    return list(tools.values())


def require_call(body: Json, tools: Sequence[Mapping[str, Any]]) -> Json:
    """The body of a request that makes any model call one of the tools."""
    functions = [tool["function"] for tool in tools]
    asks = {"role": "system", "content": _ASKS + "\n".join(map(json.dumps, functions))}
    messages = list(body["messages"])
    if messages[0].get("role") == "system" and isinstance(messages[0].get("content"), str):
        first = messages.pop(0)
        asks["content"] = f"{first['content']}\n\n{asks['content']}"
    schema = {"type": "json_schema", "json_schema": {"schema": _schema(functions)}}
    kept = {name: value for name, value in body.items() if name not in ("tools", "tool_choice")}
    return {**kept, "messages": [asks, *messages], "response_format": schema}


class Calls:
    """Turns the JSON of a model into pieces of a tool call, per choice."""

    def __init__(self) -> None:
        self._texts: dict[int, str] = {}
        self._begun: set[int] = set()

    def step(self, step: Step) -> Step:
        parts = [out for part in step.choices for out in self._parts(part)]
        return Step(parts, step.usage)

    def _parts(self, part: ChoiceStep) -> list[ChoiceStep]:
        if part.kind != "text":
            return [part]
        index, reason = part.index, part.finish_reason
        text = self._texts.get(index, "") + part.text
        pieces: list[ToolCall] = []
        if index not in self._begun and (head := _HEAD.match(text)) is not None:
            self._begun.add(index)
            id, text = f"call_{secrets.token_hex(8)}", text[head.end() :]
            pieces.append(ToolCall(0, id, json.loads(head[1])))
        if index in self._begun:
            end = _TAIL.search(text)
            ready = text if end is None else text[: end.start()]
            text = text[len(ready) :]
            pieces += [ToolCall(0, arguments=ready)] if ready else []
        self._texts[index] = text
        steps = [_piece(part, call) for call in pieces]
        if reason is None:
            return steps or [replace(part, text="")]
        if reason == "stop" and index not in self._begun:
            raise Internal("the model did not call the required tool", code="engine.failed")
        finish = "tool_calls" if reason == "stop" else reason
        return [*steps, replace(part, text="", tokens=0, finish_reason=finish)]


def _piece(part: ChoiceStep, call: ToolCall) -> ChoiceStep:
    return ChoiceStep(part.index, kind="tool_call", call=call, tokens=part.tokens)


def _name(tool: Mapping[str, Any]) -> str:
    function = tool.get("function")
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str) or not name:
        raise invalid(['a tool is `{"type": "function", "function": {"name": ...}}`'])
    return name


def _schema(functions: Sequence[Mapping[str, Any]]) -> Json:
    """The schema of a call of any of the functions, each under its own name for references."""
    calls = {f"call-{place}": _call(function, place) for place, function in enumerate(functions)}
    return {"$defs": calls, "anyOf": [{"$ref": f"#/$defs/{name}"} for name in calls]}


def _call(function: Mapping[str, Any], place: int) -> Json:
    arguments = function.get("parameters") or {"type": "object", "properties": {}}
    moved = _rebase_references(arguments, f"#/$defs/call-{place}/properties/arguments")
    return {
        "type": "object",
        "properties": {"name": {"const": function["name"]}, "arguments": moved},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _rebase_references(schema: Any, root: str) -> Any:
    """The schema with its references moved to its new root."""
    if isinstance(schema, list):
        return [_rebase_references(item, root) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    moved = {name: _rebase_references(value, root) for name, value in schema.items()}
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        moved["$ref"] = root + reference[1:]
    return moved
