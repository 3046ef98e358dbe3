"""`engine:pool`: several servers as the source of a flow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torvyn.components.spec import Option, Spec
from torvyn.engine.engine import Engine
from torvyn.engine.nodes.source import REQUEST_OPTIONS, EngineSource, spec_of
from torvyn.engine.registry import open as open_engine

SPEC = spec_of(
    "pool",
    "Several servers that speak OpenAI's protocol, as one engine.",
    (
        Option("members", "texts", (), "The addresses of the members, such as `http://gpu1/v1`."),
        Option("model", "text", None, "The name of the model at these members."),
        Option(
            "on",
            "text",
            None,
            "Starts the members on Ray, instead of `members`: `ray`, or a cluster's address.",
        ),
        Option(
            "member",
            "table",
            None,
            "What each member on Ray runs: the name of an `engine`, and its options.",
        ),
        Option("place", "table", None, "What each needs on Ray: `cpus`, `gpus`, `resources`."),
        Option("min", "integer", 1, "The fewest members on Ray.", minimum=1),
        Option("max", "integer", None, "The most members on Ray. By default, `min`.", minimum=1),
        Option(
            "scale_up_wait",
            "duration",
            0.5,
            "The queue time above which Ray starts one more member.",
        ),
        Option(
            "scale_down_after",
            "duration",
            60.0,
            "How long a member must have been unnecessary before it leaves.",
        ),
        Option("start_timeout", "duration", 300.0, "The time limit for a new member to be well."),
        Option("api", "choice", "chat", "The API to call.", choices=("chat", "completions")),
        Option("api_key", "text", None, "The API key. Write `${VARIABLE}`, not the key itself."),
        Option("api_key_env", "text", "OPENAI_API_KEY", "The variable with the API key."),
        Option("max_in_flight", "integer", 64, "The most requests per member.", minimum=1),
        Option("max_waiting", "integer", 256, "The most requests that wait.", minimum=0),
        Option("max_wait", "duration", 10.0, "How long a request waits for a member."),
        Option(
            "affinity",
            "boolean",
            True,
            "Whether the requests of one `user` (or `session_id`, or `prompt_cache_key`) go to the "
            "same member.",
        ),
        Option(
            "retries",
            "integer",
            1,
            "How often another member gets a request that failed before its first text.",
            minimum=0,
        ),
        Option(
            "health_path",
            "text",
            "models",
            "What health checks request, below the address of a member, or below its host if it "
            "begins with `/`.",
        ),
        Option("health_interval", "duration", 2.0, "The time between two health checks."),
        Option("connect_timeout", "duration", 2.0, "The time limit to connect."),
        Option("first_token_timeout", "duration", 120.0, "The time limit to the first token."),
        Option("idle_timeout", "duration", 60.0, "The time limit between two tokens."),
        Option("extra_body", "table", None, "Other fields for the request body, such as `top_k`."),
        Option(
            "forward_unknown",
            "boolean",
            True,
            "Whether unknown fields of a request are forwarded to the member.",
        ),
        Option(
            "hide_not_found",
            "boolean",
            False,
            "Whether a 404 of the members is a 502 for clients of a server.",
        ),
    ),
    """\
[flow.main.nodes.model]
component = "engine:pool"
config = { model = "qwen3-8b", members = ["http://gpu1:8000/v1", "http://gpu2:8000/v1"] }
""",
)
_DURATIONS = (
    "max_wait",
    "scale_up_wait",
    "scale_down_after",
    "start_timeout",
    "health_interval",
    "connect_timeout",
    "first_token_timeout",
    "idle_timeout",
)


class PoolSource(EngineSource):
    spec: ClassVar[Spec] = SPEC

    def open_engine(self, options: Mapping[str, Any]) -> Engine:
        shared = {option.name for option in REQUEST_OPTIONS}
        given = {
            f"{name}_s" if name in _DURATIONS else name: value
            for name, value in options.items()
            if name not in shared and value is not None
        }
        least = given.pop("min")
        most = given.pop("max", least)
        return open_engine("pool", min_members=least, max_members=most, **given)
