"""Engines for language models behind one interface: send a request, read the answer as deltas.

engine = torvyn.engine.open("scripted")
for delta in engine.generate("Hello"):
    print(delta.text, end="")

engine         the interface of every engine
registry       opens an engine by name
request        a request, validated once
step           raw engine output
answer         steps to deltas, through guards and aggregators
delta          the pieces of an answer
completion     deltas to the whole answer
generation     an answer as a program reads it
prompt         the prompt, through the guards in front of the engine
service        flows that answer requests
nodes          engines as nodes of a flow
timing         time to first token, latency, rates
thread_stream  a blocking library's output as an async stream
extra_fields   provider-specific request fields
upstream_text  text of an upstream, made safe to repeat
scripted       the engine for tests and demonstrations
openai         the engine for OpenAI-compatible upstreams
pool           the engine for several servers
local          the engine for llama.cpp
transformers   the engine for the transformers library
mlc            the engine for MLC LLM
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torvyn.engine.answer.answer import Answer
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
    "Answer",
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

_MODULES = {
    "ENGINES": "registry",
    "open": "registry",
    "Answer": "answer.answer",
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

    home = import_module(f"torvyn.engine.{_MODULES.get(name, name.lower())}")
    value = globals()[name] = getattr(home, name)
    return value
