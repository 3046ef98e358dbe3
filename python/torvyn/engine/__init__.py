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

from typing import TYPE_CHECKING

from torvyn._lazy import attach

if TYPE_CHECKING:
    from torvyn.engine.answer.answer import Answer
    from torvyn.engine.delta import Choice, Completion, Delta
    from torvyn.engine.engine import Engine
    from torvyn.engine.generation import Generation
    from torvyn.engine.local.engine import Local
    from torvyn.engine.mlc import MLC
    from torvyn.engine.openai.engine import OpenAI
    from torvyn.engine.pool.engine import Pool
    from torvyn.engine.prompt.prompt_flow import PromptGuard
    from torvyn.engine.registry import ENGINES, open
    from torvyn.engine.request import Request
    from torvyn.engine.scripted import Scripted
    from torvyn.engine.service.service import Service
    from torvyn.engine.step import ChoiceStep, Step
    from torvyn.engine.thread_stream import ThreadStream
    from torvyn.engine.timing import Timing, otel
    from torvyn.engine.transformers.engine import Transformers
    from torvyn.protocol.frames import ToolCall, Usage

__all__ = [
    "ENGINES",
    "MLC",
    "Answer",
    "Choice",
    "ChoiceStep",
    "Completion",
    "Delta",
    "Engine",
    "Generation",
    "Local",
    "OpenAI",
    "Pool",
    "PromptGuard",
    "Request",
    "Scripted",
    "Service",
    "Step",
    "ThreadStream",
    "Timing",
    "ToolCall",
    "Transformers",
    "Usage",
    "open",
    "otel",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "Answer": "torvyn.engine.answer.answer",
            "Choice": "torvyn.engine.delta",
            "ChoiceStep": "torvyn.engine.step",
            "Completion": "torvyn.engine.delta",
            "Delta": "torvyn.engine.delta",
            "ENGINES": "torvyn.engine.registry",
            "Engine": "torvyn.engine.engine",
            "Generation": "torvyn.engine.generation",
            "Local": "torvyn.engine.local.engine",
            "MLC": "torvyn.engine.mlc",
            "OpenAI": "torvyn.engine.openai.engine",
            "Pool": "torvyn.engine.pool.engine",
            "PromptGuard": "torvyn.engine.prompt.prompt_flow",
            "Request": "torvyn.engine.request",
            "Scripted": "torvyn.engine.scripted",
            "Service": "torvyn.engine.service.service",
            "Step": "torvyn.engine.step",
            "ThreadStream": "torvyn.engine.thread_stream",
            "Timing": "torvyn.engine.timing",
            "ToolCall": "torvyn.protocol.frames",
            "Transformers": "torvyn.engine.transformers.engine",
            "Usage": "torvyn.protocol.frames",
            "open": "torvyn.engine.registry",
            "otel": "torvyn.engine.timing",
        },
    )
