"""An engine that plays a script, and what a client and an operator see of its answer."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from live_server import Served, served, wait_for

import torvyn
from torvyn.components import Blocklist
from torvyn.engine import ChoiceStep, Engine, Request, Service, Step
from torvyn.engine.answer.direct_path import DirectPath
from torvyn.transport.answer_stream import AnswerStream

WORDS = {"words": ["bad", "worse"], "mode": "stream"}
GUARDS: dict[str, Callable[[], torvyn.Flow] | None] = {
    "none": None,
    "replace": lambda: torvyn.Flow(Blocklist({**WORDS, "action": "replace"})),
    "block": lambda: torvyn.Flow(Blocklist({**WORDS, "action": "block"})),
}


PAUSE, FAILURE = None, "failure"


class Played(Engine):
    """Plays steps, and waits for a turn of the loop where there is a pause."""

    name = "played"

    def __init__(self, script: Sequence[Step | str | None]) -> None:
        super().__init__()
        self._script = script

    async def steps(self, request: Request) -> AsyncIterator[Step]:
        for each in self._script:
            if each is PAUSE:
                await asyncio.sleep(0)
            elif each == FAILURE:
                raise ValueError("boom")
            elif isinstance(each, Step):
                yield each


def text(value: str) -> Step:
    return Step((ChoiceStep(text=value),))


@contextmanager
def playing(script: Sequence[Any], guard: str = "none", **options: Any) -> Iterator[Served]:
    service = Service("chat", Played(script), make_flow=GUARDS[guard])
    with served({"chat": service}, **{"first_byte_wait_s": 10.0, **options}) as server:
        yield server


def words(count: int, is_paced: bool = True) -> list[Step | None]:
    """Texts, with a pause after each if it is paced."""
    return [each for n in range(count) for each in (text(f"word{n} "), *[PAUSE] * is_paced)]


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[Step | None]:
    """The steps that native code has left to Python."""
    steps: list[Step | None] = []
    pieces = DirectPath.pieces

    def looking(self: DirectPath, step: Step | None) -> Any:
        steps.append(step)
        return pieces(self, step)

    monkeypatch.setattr(DirectPath, "pieces", looking)
    return steps


def frames_of(server: Served, **body: Any) -> list[dict[str, Any]]:
    data = json.dumps({"prompt": "x", **body}).encode()
    asked = urllib.request.Request(f"{server.url}/v1/streams", data)
    try:
        with urllib.request.urlopen(asked, timeout=20) as answer:
            lines = [line[6:] for line in answer if line.startswith(b"data: ")]
    except urllib.error.HTTPError as error:
        # It failed before anything was sent.
        return [{"type": "failed", "status": error.code, **json.load(error)["error"]}]
    return [json.loads(line) for line in lines]


OWN = ("seq", "timing", "id", "created")
"""What differs between any two answers."""


def seen(frames: list[dict[str, Any]], is_cut: bool) -> list[Any]:
    """What a client sees, however the text was cut into frames."""
    out: list[Any] = []
    for whole in frames:
        frame = {key: value for key, value in whole.items() if key not in OWN}
        if is_cut:
            frame.pop("usage", None)
        last = out[-1] if out else {}
        if frame.get("text") and last.get("text") and _about(last) == _about(frame):
            last["text"] += frame["text"]
        else:
            out.append(frame)
    return out


def _about(frame: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in frame.items() if key != "text"}


COUNTS = ("received", "passed", "filtered", "failed", "absorbed", "unread", "emitted", "matches")


def account(server: Served, frames: list[dict[str, Any]]) -> Any:
    """What the flows of an answer have counted."""
    wait_for(lambda: not server.application.running.calls)
    with urllib.request.urlopen(f"{server.url}/flows/{frames[0]['id']}", timeout=20) as answer:
        told = json.load(answer)
    nodes = [node for flow in told["flows"] for node in flow["nodes"].values()]
    return told["completion_tokens"], [{name: node[name] for name in COUNTS} for node in nodes]


def on_both_paths(
    monkeypatch: pytest.MonkeyPatch,
    serve: Callable[[], AbstractContextManager[Served]],
    guard: str,
    **body: Any,
) -> list[Any]:
    """What is seen and counted on the direct path and on the ordinary one."""
    outcomes = []
    for is_direct in (True, False):
        with monkeypatch.context() as patch, serve() as server:
            if not is_direct:
                patch.setattr(AnswerStream, "direct_text", lambda self: None)
            frames = frames_of(server, **body)
            # What is counted before a cut depends on what arrives together.
            is_cut = guard == "block" or "stop" in body or frames[0]["type"] == "failed"
            counts = None if is_cut else account(server, frames)
            outcomes.append((seen(frames, is_cut), counts))
    return outcomes
