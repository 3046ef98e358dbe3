"""A conversation: its messages, and the file that keeps them.

The file has one JSON object per line and is only appended to: messages in order, and
`{"reset": true}` where a new conversation begins. If a line cannot be read, nothing is written.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Final

from torvyn.errors import MissingError, UsageError, os_reason

ROLES: Final = ("system", "user", "assistant")
_RESET: Final = {"reset": True}


@dataclass(frozen=True, slots=True)
class Message:
    """`finish_reason` is set if an answer is incomplete: `cancelled`, `length` ..."""

    role: str
    content: str
    finish_reason: str | None = None

    def to_dict(self) -> dict[str, str]:
        reason = {} if self.finish_reason is None else {"finish_reason": self.finish_reason}
        return {"role": self.role, "content": self.content, **reason}


class Conversation:
    def __init__(self, path: str | None = None) -> None:
        self.system: str | None = None
        self.messages: list[Message] = []
        self._path = None if path is None else Path(path)
        self._is_line_open = False
        """The last line has no line end, because the file was edited."""
        if self._path is not None:
            self._load(self._path)

    def messages_with(self, question: str) -> list[dict[str, str]]:
        """The messages of a request. The question is added to the conversation by `add`, when it
        is answered."""
        messages = [] if self.system is None else [{"role": "system", "content": self.system}]
        messages += [{"role": m.role, "content": m.content} for m in self.messages]
        return [*messages, {"role": "user", "content": question}]

    def add(self, question: str, answer: str, finish_reason: str | None) -> None:
        reason = None if finish_reason == "stop" else finish_reason
        turn = (Message("user", question), Message("assistant", answer, reason))
        self.messages += turn
        self._append(*(message.to_dict() for message in turn))

    def set_system(self, text: str) -> None:
        """Replaces the system message; an empty text removes it."""
        self.system = text or None
        self._append(Message("system", text).to_dict())

    def reset(self) -> None:
        """Removes the messages, except the system message."""
        self.messages.clear()
        self._append(_RESET)

    def save(self, name: str) -> None:
        """Writes a new file: Markdown if it is named `*.md`, else lines that `--history` reads."""
        messages = list(self.messages)
        if self.system is not None:
            messages.insert(0, Message("system", self.system))
        if name.endswith(".md"):
            text = "\n".join(f"## {message.role}\n\n{message.content}\n" for message in messages)
        else:
            text = _lines(message.to_dict() for message in messages)
        try:
            with open(name, "x", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise _unwritable(name, error) from None

    def _append(self, *entries: dict[str, Any]) -> None:
        if self._path is None:
            return
        try:
            # Readable by its owner only, and in one write, so that no half of a turn is left.
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
            message = f"cannot read {path}: {os_reason(error)}"
            raise MissingError("cli.input-unreadable", message) from None
        for number, line in enumerate(data.split(b"\n"), 1):
            if line.strip():
                self._add_entry(_parse_entry(line, f"{path}:{number}"))
        self._is_line_open = bool(data) and not data.endswith(b"\n")

    def _add_entry(self, entry: dict[str, Any]) -> None:
        if entry.get("reset"):
            self.messages.clear()
        elif entry["role"] == "system":
            self.system = entry["content"] or None
        else:
            self.messages.append(
                Message(entry["role"], entry["content"], entry.get("finish_reason"))
            )


def _parse_entry(line: bytes, place: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError:
        raise _unusable(place, "it is not valid JSON") from None
    if entry == _RESET:
        return _RESET
    is_message = (
        isinstance(entry, dict)
        and entry.get("role") in ROLES
        and isinstance(entry.get("content"), str)
        and isinstance(entry.get("finish_reason"), (str, NoneType))
    )
    if not is_message:
        raise _unusable(place, f"it needs a `content` and a `role` ({', '.join(ROLES)})")
    return dict(entry)


def _lines(entries: Any) -> str:
    return "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)


def _unusable(place: str, why: str) -> UsageError:
    return UsageError(
        "cli.history-unusable",
        f"{place}: this line is not a message: {why}",
        hint="fix or remove the line, or name another file; the file was not changed",
    )


def _unwritable(name: str, error: OSError) -> MissingError:
    reason = os_reason(error)
    return MissingError("cli.file-unwritable", f"cannot write {name}: {reason}")
