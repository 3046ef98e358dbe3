"""`engine:mlc`: a model of MLC LLM as the source of a flow."""

from __future__ import annotations

from typing import ClassVar

from torvyn.components.spec import Option, Spec
from torvyn.engine.nodes.source import EngineSource, spec_of

SPEC = spec_of(
    "mlc",
    "A model that MLC LLM runs in this process.",
    (
        Option("model", "text", None, "The name of the model in MLC LLM.", required=True),
        Option("api", "choice", "chat", "The API to call.", choices=("chat", "completions")),
    ),
    """\
[flow.main.nodes.model]
component = "engine:mlc"
config = { model = "HF://mlc-ai/Llama-3-8B-Instruct-q4f16_1-MLC", prompt = "Hello" }
""",
)


class MLCSource(EngineSource):
    spec: ClassVar[Spec] = SPEC
