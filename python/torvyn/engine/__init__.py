"""LLM engines behind one interface: ask for an answer, get it as deltas while it is made.

engine = torvyn.engine.open("scripted")
for delta in engine.generate("Hello"):
    print(delta.text, end="")

engine      what every engine is            request     what is asked
generation  an answer on its way            step        what an engine makes
response    steps -> deltas                 delta       what the caller gets
timing      TTFT, latency, rates            source      an engine as the source of a flow
shaping     an answer through a flow        service     a flow that answers requests
prompt_flow a request through a flow        processor   an engine that a request leads to
scripted, openai, local, mlc ...            the engines, imported when they are opened
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torvyn.engine.delta import Choice, Completion, Delta
    from torvyn.engine.engine import Engine
    from torvyn.engine.generation import Generation
    from torvyn.engine.prompt.prompt_flow import PromptGuard
    from torvyn.engine.registry import ENGINES, open
    from torvyn.engine.request import Request
    from torvyn.engine.scripted import Scripted
    from torvyn.engine.service.service import Service
    from torvyn.engine.step import ChoiceStep, Step
    from torvyn.engine.timing import Timing

__all__ = [
    "ENGINES",
    "Choice",
    "ChoiceStep",
    "Completion",
    "Delta",
    "Engine",
    "Generation",
    "PromptGuard",
    "Request",
    "Scripted",
    "Service",
    "Step",
    "Timing",
    "open",
]

_HOMES = {
    "ENGINES": "registry",
    "open": "registry",
    "Choice": "delta",
    "Completion": "delta",
    "Delta": "delta",
    "PromptGuard": "prompt.prompt_flow",
    "Service": "service.service",
    "ChoiceStep": "step",
    "Step": "step",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'torvyn.engine' has no attribute {name!r}")
    from importlib import import_module

    home = import_module(f"torvyn.engine.{_HOMES.get(name, name.lower())}")
    value = globals()[name] = getattr(home, name)
    return value
