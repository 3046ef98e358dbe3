"""`request`: what was asked, as the source of a flow: `request -> guards -> engine -> response`.

Each text of the request is an element. When the flow is served, the request is the client's; under
`torvyn run` it is the config's, or what `--input` and standard input have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, ClassVar

from torvyn.components.config import parse_config
from torvyn.components.spec import Option, Spec
from torvyn.contract import Output
from torvyn.contract.request_roles import RequestSource as Requested
from torvyn.engine.prompt.prompt import Prompt
from torvyn.engine.prompt.prompt_file import read_prompt
from torvyn.engine.request import Request

SPEC = Spec(
    name="request",
    role="source",
    summary="What was asked: its texts, for guards in front of an engine.",
    options=(
        Option("prompt", "text", None, "What is asked under `torvyn run`; else `path` is read."),
        Option(
            "messages",
            "list",
            None,
            "A conversation: tables with `role` and `content`. When the flow is served, they come "
            "before those of the client.",
        ),
        Option("path", "text", None, "A file with the prompt; without it, standard input."),
        Option(
            "roles",
            "words",
            (),
            "Whose texts go through the flow, such as `user, tool`; without it, everybody's. The "
            "others go to the engine as they are. `tools` are the descriptions of tools.",
        ),
    ),
    main="prompt",
    example="""\
[flow.main.nodes.question]
component = "request"
""",
)


class RequestSource(Requested):
    """`Request.source()` makes one over a request."""

    spec: ClassVar[Spec] = SPEC
    unit = "texts"

    def __init__(self, request: Request | None = None, roles: Collection[str] = ()) -> None:
        super().__init__()
        self._given = request
        self.request = request
        self.roles = tuple(roles) or None
        """Whose texts go through the flow; None: everybody's."""

    def init(self, config: str) -> None:
        if self._given is None:
            given = self.options(config)
            self.roles = given["roles"] or None
            self.request = _asked(given)

    def options(self, config: str) -> dict[str, Any]:
        """What the config says, checked."""
        return parse_config(SPEC, config)

    def __iter__(self) -> Iterator[Output]:
        assert self.request is not None
        return iter(Prompt(self.request, self.roles).outputs())


def _asked(given: Mapping[str, Any]) -> Request:
    if given["messages"] is not None:
        return Request.make(given["messages"])
    prompt = given["prompt"]
    if given["path"] is not None or prompt is None:
        prompt = read_prompt(SPEC, given["path"])
    return Request.make(prompt)
