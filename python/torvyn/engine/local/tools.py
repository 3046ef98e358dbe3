"""Tools that a local model must call: a grammar lets it write nothing else.

llama.cpp reads `tool_choice: "required"` and lets most models answer as they like all the same. So
the call is asked for as JSON that fits a schema, which the library does enforce, and what streams
back is made into a call: its name, then its arguments piece by piece.
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
"""What may be the end of the object around the arguments."""
_ASKS: Final = (
    "Call one of these functions. Answer with a JSON object that has the name of the function as "
    "`name` and its arguments as `arguments`.\n"
)


def required_tools(request: Request) -> list[Mapping[str, Any]]:
    """The tools of which one has to be called; none when the model may do as it likes."""
    choice = request.tool_choice
    if choice is None or choice in ("auto", "none"):
        return []
    if isinstance(choice, str) and choice not in _WORDS:
        raise invalid([f"`tool_choice` is one of {', '.join(_WORDS)}, or names a function"])
    tools = {_name(tool): tool for tool in request.tools}
    if isinstance(choice, Mapping):
        name = _name(choice)
        if name not in tools:
            raise invalid([f"`tool_choice` names `{name[:64]}`, which is none of the `tools`"])
        tools = {name: tools[name]}
    if not tools:
        raise invalid([f"`tool_choice` is `{choice}`, and there are no `tools`"])
    if request.response_format is not None:
        raise invalid(["a tool that must be called and a `response_format` exclude each other"])
    return list(tools.values())


def require_call(body: Json, tools: Sequence[Mapping[str, Any]]) -> Json:
    """The body that gets such a call out of any model."""
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
    """JSON as the model writes it -> pieces of a call, for each choice."""

    def __init__(self) -> None:
        self._texts: dict[int, str] = {}
        self._begun: set[int] = set()

    def step(self, step: Step) -> Step:
        parts = [made for part in step.choices for made in self._parts(part)]
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
        made = [_piece(part, call) for call in pieces]
        if reason is None:
            return made or [replace(part, text="")]
        if reason == "stop" and index not in self._begun:
            raise Internal("the model did not call a tool, as it had to", code="engine.failed")
        finish = "tool_calls" if reason == "stop" else reason
        return [*made, replace(part, text="", tokens=0, finish_reason=finish)]


def _piece(part: ChoiceStep, call: ToolCall) -> ChoiceStep:
    return ChoiceStep(part.index, kind="tool_call", call=call, tokens=part.tokens)


def _name(tool: Mapping[str, Any]) -> str:
    function = tool.get("function")
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str) or not name:
        raise invalid(['a tool is `{"type": "function", "function": {"name": ...}}`'])
    return name


def _schema(functions: Sequence[Mapping[str, Any]]) -> Json:
    """A call of any of them. Each has a name of its own, to which the references inside lead."""
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
    """The schema with its references to its own root where that is now."""
    if isinstance(schema, list):
        return [_rebase_references(item, root) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    moved = {name: _rebase_references(value, root) for name, value in schema.items()}
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        moved["$ref"] = root + reference[1:]
    return moved
