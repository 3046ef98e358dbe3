"""A Python filter as `torvyn:filtering/guard`, which has all verdicts."""

from __future__ import annotations

from typing import Any

from wit_world.exports import guard  # type: ignore[import-not-found]

from torvyn._contract.signals import Verdict
from torvyn._sandbox.guest import adapter
from torvyn._sandbox.guest.adapter import Lifecycle

__all__ = ["Guard", "Lifecycle"]


def evaluate(element: Any) -> Any:
    result = adapter.call_method("evaluate", element)
    if result is True or result is Verdict.PASS:
        return guard.Verdict_Pass()
    if result is False or result is Verdict.DROP:
        return guard.Verdict_Drop()
    if not isinstance(result, Verdict):
        raise adapter.wrong_result(result, "bool or Verdict")
    if result.kind == "replace":
        return guard.Verdict_Replace(adapter.output(result.text))
    if result.kind == "block":
        return guard.Verdict_Block(result.reason or "")
    verdicts = {"pass": guard.Verdict_Pass, "drop": guard.Verdict_Drop, "hold": guard.Verdict_Hold}
    return verdicts[result.kind]()


class Guard:
    def evaluate(self, element: Any) -> Any:
        return adapter.call_with_element(evaluate, element)
