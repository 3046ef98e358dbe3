"""An engine that is swapped while it answers: the new one goes on, or the swap is refused."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import torvyn
from torvyn.engine.scripted import Scripted
from torvyn.errors import FlowError

ANSWER = " ".join(f"w{at}" for at in range(400))


class Texts(torvyn.Sink):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.has_some = threading.Event()

    def push(self, element: torvyn.Element) -> None:
        self.texts.append(element.text)
        if len(self.texts) > 20:
            self.has_some.set()


def answering(sink: Texts, checkpoint_s: float | None) -> torvyn.Flow:
    flow = torvyn.Flow(checkpoint_s=checkpoint_s)
    flow.add("model", Scripted(ANSWER, delay=0.002).source("Hello"))
    flow.add("out", sink)
    return flow.connect("model", "out")


def test_a_swapped_engine_continues_the_answer_of_a_flow_that_saves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORVYN_RUNTIME__STATE_DIR", str(tmp_path))
    sink = Texts()
    flow = answering(sink, 0.05)
    running = threading.Thread(target=flow.run)
    running.start()
    sink.has_some.wait(30)
    report = flow.swap("model", Scripted(ANSWER).source("Hello"))
    running.join(30)
    assert (report.state, "".join(sink.texts)) == ("restored", ANSWER)


def test_a_swap_is_refused_if_the_flow_does_not_save_the_answer() -> None:
    sink = Texts()
    flow = answering(sink, None)
    running = threading.Thread(target=flow.run)
    running.start()
    sink.has_some.wait(30)
    with pytest.raises(FlowError, match="the rest of the answer is lost"):
        flow.swap("model", Scripted(ANSWER).source("Hello"))
    running.join(30)
    assert "".join(sink.texts) == ANSWER
