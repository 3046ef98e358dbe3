"""`engine:local`: llama.cpp inside the process as the source of a flow."""

from __future__ import annotations

from typing import ClassVar

from torvyn.components.spec import Option, Spec
from torvyn.engine.nodes.source import EngineSource, spec_of

SPEC = spec_of(
    "local",
    "A model in this process, run by llama.cpp.",
    (
        Option("model", "text", None, "A GGUF file. By default, SmolLM2-135M-Instruct."),
        Option("context", "integer", 4096, "The size of the context window in tokens.", minimum=1),
        Option(
            "parallel",
            "integer",
            1,
            "The number of parallel answers, `n` or more.",
            minimum=1,
        ),
        Option(
            "threads",
            "integer",
            None,
            "The number of CPU threads. By default, all cores but one.",
            minimum=1,
        ),
        Option("gpu_layers", "integer", 0, "How many layers run on a GPU.", minimum=0),
        Option(
            "api",
            "choice",
            "chat",
            "`chat` answers a prompt; `completions` continues it.",
            choices=("chat", "completions"),
        ),
    ),
    """\
[flow.main.nodes.model]
component = "engine:local"
config = { prompt = "Why is the sky blue?", max_tokens = 100 }
""",
)


class LocalSource(EngineSource):
    spec: ClassVar[Spec] = SPEC
