"""`engine:transformers`: a model of that library as the source of a flow."""

from __future__ import annotations

from typing import ClassVar

from torvyn.components.spec import Option, Spec
from torvyn.engine.nodes.source import EngineSource, spec_of

SPEC = spec_of(
    "transformers",
    "A model of the library `transformers` in this process.",
    (
        Option("model", "text", None, "A folder, or a name on Hugging Face.", required=True),
        Option("device", "text", None, "The device, such as `cuda`."),
        Option("dtype", "text", "auto", "The type of the weights, such as `bfloat16`."),
        Option("offline", "boolean", False, "Whether to use only downloaded files."),
        Option(
            "batching",
            "boolean",
            None,
            "Whether requests share one batch. By default, if the model supports it.",
        ),
        Option("max_batch", "integer", 64, "How many answers are generated at a time.", minimum=1),
        Option(
            "cache_memory",
            "number",
            None,
            "The share of free memory for the attention cache. By default 0.8 on a GPU, 0.25 on "
            "a CPU.",
            minimum=0,
        ),
        Option(
            "cuda_graphs",
            "boolean",
            None,
            "Whether to replay recorded CUDA graphs, which do not support `logprobs`. By default, "
            "with flash attention.",
        ),
    ),
    """\
[flow.main.nodes.model]
component = "engine:transformers"
config = { model = "HuggingFaceTB/SmolLM2-135M-Instruct", prompt = "Hello", max_tokens = 50 }
""",
)


class TransformersSource(EngineSource):
    spec: ClassVar[Spec] = SPEC
