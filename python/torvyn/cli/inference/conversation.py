"""A conversation: what was said, and the file in which it outlives the program.

The file has one JSON object a line and only ever grows: messages in their order, and
`{"reset": true}` where a new conversation begins. A line that cannot be read stops everything
before anything is written.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Final

from torvyn.errors import MissingError, UsageError

ROLES: Final = ("system", "user", "assistant")
_RESET: Final = {"reset": True}


@dataclass(frozen=True, slots=True)
class Message:
    """`finish_reason` is there when an answer is not whole: `cancelled`, `length` ..."""

    role: str
    content: str
    finish_reason: str | None = None

    def to_dict(self) -> dict[str, str]:
        told = {"role": self.role, "content": self.content}
        return told if self.finish_reason is None else {**told, "finish_reason": self.finish_reason}


class Conversation:
    def __init__(self, path: str | None = None) -> None:
        self.system: str | None = None
        self.messages: list[Message] = []
        self._path = None if path is None else Path(path)
        self._is_line_open = False
        """Somebody has edited the file, and its last line has no end."""
        if self._path is not None:
            self._load(self._path)

    def asking(self, question: str) -> list[dict[str, str]]:
        """All that the model is told; the question is not kept before it is answered."""
        told = [] if self.system is None else [{"role": "system", "content": self.system}]
        told += [{"role": m.role, "content": m.content} for m in self.messages]
        return [*told, {"role": "user", "content": question}]

    def add(self, question: str, answer: str, finish_reason: str | None) -> None:
        reason = None if finish_reason == "stop" else finish_reason
        turn = (Message("user", question), Message("assistant", answer, reason))
        self.messages += turn
        self._append(*(message.to_dict() for message in turn))

    def instruct(self, text: str) -> None:
        """Another system message, or none, from now on."""
        self.system = text or None
        self._append(Message("system", text).to_dict())

    def reset(self) -> None:
        """Forgets what was said, not who it is said to."""
        self.messages.clear()
        self._append(_RESET)

    def save(self, name: str) -> None:
        """Into a new file: Markdown if its name says so, else what `--history` reads."""
        said = list(self.messages)
        if self.system is not None:
            said.insert(0, Message("system", self.system))
        if name.endswith(".md"):
            text = "\n".join(f"## {message.role}\n\n{message.content}\n" for message in said)
        else:
            text = _lines(message.to_dict() for message in said)
        try:
            with open(name, "x", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise _unwritable(name, error) from None

    def _append(self, *entries: dict[str, Any]) -> None:
        if self._path is None:
            return
        try:
            # Nobody else's business; and in one write, so that no half of a turn is left.
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(file, b"\n" * self._is_line_open + _lines(entries).encode())
                self._is_line_open = False
            finally:
                os.close(file)
        except OSError as error:
            raise _unwritable(str(self._path), error) from None

    def _load(self, path: Path) -> None:
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            message = f"cannot read {path}: {(error.strerror or str(error)).lower()}"
            raise MissingError("cli.input-unreadable", message) from None
        for number, line in enumerate(data.split(b"\n"), 1):
            if line.strip():
                self._take(_parsed(line, f"{path}:{number}"))
        self._is_line_open = bool(data) and not data.endswith(b"\n")

    def _take(self, entry: dict[str, Any]) -> None:
        if entry.get("reset"):
            self.messages.clear()
        elif entry["role"] == "system":
            self.system = entry["content"] or None
        else:
            self.messages.append(
                Message(entry["role"], entry["content"], entry.get("finish_reason"))
            )


def _parsed(line: bytes, place: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError:
        raise _unusable(place, "it is not JSON") from None
    if entry == _RESET:
        return _RESET
    is_message = (
        isinstance(entry, dict)
        and entry.get("role") in ROLES
        and isinstance(entry.get("content"), str)
        and isinstance(entry.get("finish_reason"), (str, NoneType))
    )
    if not is_message:
        raise _unusable(place, f"it needs `content` and a `role` of {', '.join(ROLES)}")
    return dict(entry)


def _lines(entries: Any) -> str:
    return "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)


def _unusable(place: str, why: str) -> UsageError:
    return UsageError(
        "cli.history-unusable",
        f"{place}: this is no line of a conversation: {why}",
        hint="mend or remove the line, or name another file; nothing was changed",
    )


def _unwritable(name: str, error: OSError) -> MissingError:
    reason = (error.strerror or str(error)).lower()
    return MissingError("cli.file-unwritable", f"cannot write {name}: {reason}")
