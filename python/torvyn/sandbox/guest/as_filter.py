"""A Python filter as `torvyn:filtering/guard`, which has words for all of its verdicts."""

from __future__ import annotations

from typing import Any

from wit_world.exports import guard  # type: ignore[import-not-found]

from torvyn.contract import Verdict
from torvyn.sandbox.guest import adapter
from torvyn.sandbox.guest.adapter import Lifecycle

__all__ = ["Guard", "Lifecycle"]


def evaluate(element: Any) -> Any:
    answer = adapter.component.evaluate(element)
    if answer is True or answer is Verdict.PASS:
        return guard.Verdict_Pass()
    if answer is False or answer is Verdict.DROP:
        return guard.Verdict_Drop()
    if not isinstance(answer, Verdict):
        raise adapter.wrong(answer, "bool or Verdict")
    if answer.kind == "replace":
        return guard.Verdict_Replace(adapter.output(answer.text))
    if answer.kind == "block":
        return guard.Verdict_Block(answer.reason or "")
    words = {"pass": guard.Verdict_Pass, "drop": guard.Verdict_Drop, "hold": guard.Verdict_Hold}
    return words[answer.kind]()


class Guard:
    def evaluate(self, element: Any) -> Any:
        return adapter.lend(evaluate, element)
