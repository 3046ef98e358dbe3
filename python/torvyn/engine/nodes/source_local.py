"""`engine:local`: llama.cpp inside the process as the source of a flow."""

from __future__ import annotations

from typing import ClassVar

from torvyn.components.spec import Option, Spec
from torvyn.engine.nodes.source import EngineSource, spec_of

SPEC = spec_of(
    "local",
    "A model in this process, by llama.cpp.",
    (
        Option("model", "text", None, "A GGUF file; without it, SmolLM2-135M-Instruct."),
        Option("context", "integer", 4096, "Tokens the model sees at once.", minimum=1),
        Option("parallel", "integer", 1, "Answers at a time; at least `n`. More wait.", minimum=1),
        Option(
            "threads",
            "integer",
            None,
            "Threads it computes with; without it, all cores but one.",
            minimum=1,
        ),
        Option("gpu_layers", "integer", 0, "Layers that a GPU computes.", minimum=0),
        Option(
            "api",
            "choice",
            "chat",
            "Whether a prompt is answered, or continued as it is.",
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
