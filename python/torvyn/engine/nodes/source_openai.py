"""`engine:openai`: an OpenAI-compatible upstream as the source of a flow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torvyn.components.spec import Option, Spec
from torvyn.engine.engine import Engine
from torvyn.engine.nodes.source import EngineSource, spec_of
from torvyn.engine.registry import open as open_engine

SPEC = spec_of(
    "openai",
    "An upstream that speaks OpenAI's protocol, such as vLLM, SGLang, llama.cpp or Ollama.",
    (
        Option("model", "text", None, "The name of the model at the upstream.", required=True),
        Option("base_url", "text", None, "The address. By default, `OPENAI_BASE_URL`."),
        Option("api", "choice", "chat", "The API to call.", choices=("chat", "completions")),
        Option("api_key", "text", None, "The API key. Write `${VARIABLE}`, not the key itself."),
        Option("api_key_env", "text", "OPENAI_API_KEY", "The variable with the API key."),
        Option("connect_timeout", "duration", 10.0, "The time limit to connect."),
        Option("first_token_timeout", "duration", 120.0, "The time limit to the first token."),
        Option("idle_timeout", "duration", 60.0, "The time limit between two tokens."),
        Option(
            "retries",
            "integer",
            2,
            "How often to retry before the first token.",
            minimum=0,
        ),
        Option("max_line", "size", 1 << 20, "The most bytes in a line of the response."),
        Option("extra_body", "table", None, "Other fields for the request body, such as `top_k`."),
        Option(
            "forward_unknown",
            "boolean",
            True,
            "Whether unknown fields of a request are forwarded to the upstream.",
        ),
        Option(
            "hide_not_found",
            "boolean",
            False,
            "Whether a 404 of the upstream is a 502 for clients of a server.",
        ),
        Option(
            "client",
            "choice",
            "native",
            "What sends the requests; `aiohttp` must be installed.",
            choices=("native", "aiohttp"),
        ),
    ),
    """\
[flow.main.nodes.model]
component = "engine:openai"
config = { base_url = "http://127.0.0.1:8000/v1", model = "qwen3-8b", prompt = "Hello" }
""",
)
_LIMITS = ("connect_timeout", "first_token_timeout", "idle_timeout")
_SAME = ("model", "base_url", "api", "api_key", "api_key_env", "retries", "extra_body", "client")


class OpenAISource(EngineSource):
    spec: ClassVar[Spec] = SPEC

    def open_engine(self, options: Mapping[str, Any]) -> Engine:
        limits: dict[str, Any] = {f"{name}_s": options[name] for name in _LIMITS}
        limits["max_line_bytes"] = options["max_line"]
        same = {name: options[name] for name in (*_SAME, "forward_unknown", "hide_not_found")}
        return open_engine("openai", **limits, **same)
