"""`request`: a request as the source of a flow: `request -> guards -> engine -> response`.

Each text of the request is an element. In a served flow the request comes from the client; under
`torvyn run` it comes from the config, `--input` or standard input.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, ClassVar

from torvyn._contract.element import Output
from torvyn._contract.roles import RequestSource as RequestSourceRole
from torvyn.components.config import parse_config
from torvyn.components.spec import Option, Spec
from torvyn.engine.prompt.prompt import Prompt
from torvyn.engine.prompt.prompt_file import read_input
from torvyn.engine.request import Request

SPEC = Spec(
    name="request",
    role="source",
    summary="The texts of a request, for guards in front of an engine.",
    options=(
        Option(
            "prompt", "text", None, "The prompt under `torvyn run`. By default, `path` is read."
        ),
        Option(
            "messages",
            "list",
            None,
            "A conversation: tables with `role` and `content`. In a served flow they precede the "
            "messages of the client.",
        ),
        Option("path", "text", None, "A file with the prompt. By default, standard input."),
        Option(
            "roles",
            "words",
            (),
            "The roles whose texts go through the flow, such as `user, tool`. By default, all. The "
            "other texts go to the engine unchanged. `tools` means the descriptions of tools.",
        ),
    ),
    main="prompt",
    example="""\
[flow.main.nodes.question]
component = "request"
""",
)


class RequestSource(RequestSourceRole):
    """`Request.source()` makes one over a request."""

    spec: ClassVar[Spec] = SPEC
    unit = "texts"

    def __init__(self, request: Request | None = None, roles: Collection[str] = ()) -> None:
        super().__init__()
        self._fixed_request = request
        self.request = request
        self.roles = tuple(roles) or None
        """The roles whose texts go through the flow; None: all."""

    def init(self, config: str) -> None:
        if self._fixed_request is None:
            options = self.options(config)
            self.roles = options["roles"] or None
            self.request = Request.make(read_input(SPEC, options))

    def options(self, config: str) -> dict[str, Any]:
        """The options of the config, validated."""
        return parse_config(SPEC, config)

    def __iter__(self) -> Iterator[Output]:
        assert self.request is not None
        return iter(Prompt(self.request, self.roles).outputs())
