"""A flow as a service: requests go to its engine, answers come through its guards.

    [flow.chat.nodes.model]   component = "engine:local"
    [flow.chat.nodes.policy]  component = "blocklist"
    [flow.chat.nodes.answer]  component = "response"

The engine is opened once and shared; what lies between it and the response is made anew for every
choice of every request. The config of the engine's node gives the requests their defaults.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Self

from torvyn.engine.engine import Asked, Engine
from torvyn.engine.generation import Generation
from torvyn.engine.request import Message, Request
from torvyn.engine.source import EngineSource
from torvyn.errors import LinkError
from torvyn.loops.closing import Closing

if TYPE_CHECKING:
    from torvyn.engine.shaping import MakeFlow
    from torvyn.link.plan import NodePlan, Plan

RESPONSE = "response"


class Service(Closing):
    """Answers requests through a flow. Open one with `Service.open(project.plan("chat"))`."""

    def __init__(
        self,
        name: str,
        engine: Engine,
        defaults: Mapping[str, Any] | None = None,
        make_flow: MakeFlow | None = None,
        deadline_s: float | None = None,
    ) -> None:
        self.name = name
        self.engine = engine
        self.deadline_s = deadline_s
        """How long an answer may take; who serves it sees to that."""
        self._defaults = dict(defaults or {})
        self._preamble: tuple[Message, ...] = tuple(self._defaults.pop("messages", None) or ())
        self._make_flow = make_flow

    @classmethod
    def open(cls, plan: Plan) -> Self:
        """Opens the engine that the plan names; raises when the plan is no service."""
        from torvyn.reactor import Flow

        node, middle = parts(plan)
        source = _source(node, plan)
        given = source.options(node.config)
        engine = source.open_engine(given)
        make_flow = (lambda: Flow.from_plan(middle)) if middle.nodes else None
        return cls(plan.name, engine, source.defaults(given), make_flow, plan.deadline_s)

    def generate(self, asked: Asked, **options: Any) -> Generation:
        """An answer, through the flow. What the request leaves open, the flow's config says."""
        if isinstance(asked, Request):
            options = _said(asked) | options
            asked = asked.messages if asked.prompt is None else asked.prompt
        options = self._defaults | {key: held for key, held in options.items() if held is not None}
        if self._preamble:
            # What the flow says first makes a conversation of every prompt.
            options.pop("raw_prompt", None)
        return self.engine.generate(self._with_preamble(asked), through=self._make_flow, **options)

    def _with_preamble(self, asked: str | Sequence[Message]) -> str | Sequence[Message]:
        if not self._preamble:
            return asked
        own = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
        return [*self._preamble, *own]

    def close(self) -> None:
        self.engine.close()


def _said(request: Request) -> dict[str, Any]:
    """What the request does not leave at its default, which stands for what it leaves open."""
    held = {item.name: (getattr(request, item.name), item.default) for item in fields(Request)}
    asked = ("prompt", "messages")
    return {
        name: value
        for name, (value, default) in held.items()
        if value != default and name not in asked
    }


def parts(plan: Plan) -> tuple[NodePlan, Plan]:
    """The node of the engine, and the flow between it and the response."""
    sources = [node for node in plan.nodes if node.role == "source"]
    if len(sources) != 1 or not sources[0].component.name.startswith("engine:"):
        raise _unfit(plan, "it needs one source, and that an engine such as `engine:local`")
    responses = [node for node in plan.nodes if node.component.name == RESPONSE]
    if len(responses) != 1:
        raise _unfit(plan, f"it needs one sink `{RESPONSE}`, and has {len(responses)}")
    ends = {sources[0].name, responses[0].name}
    middle = replace(
        plan,
        nodes=tuple(node for node in plan.nodes if node.name not in ends),
        edges=tuple(e for e in plan.edges if e.source not in ends and e.target not in ends),
    )
    heads = {edge.target for edge in plan.edges if edge.source in ends}
    tails = {edge.source for edge in plan.edges if edge.target in ends}
    if len(heads) != 1 or len(tails) != 1:
        raise _unfit(plan, "one edge leaves the engine, and one reaches the response")
    if middle.nodes and (middle.head not in heads or middle.tail not in tails):
        raise _unfit(plan, "the node before the response sends to the response alone")
    return sources[0], middle


def _source(node: NodePlan, plan: Plan) -> EngineSource:
    from torvyn.link.loading import instantiate

    source = instantiate(node.component)
    if not isinstance(source, EngineSource):
        raise _unfit(plan, f"`{node.name}` is no engine")
    return source


def _unfit(plan: Plan, why: str) -> LinkError:
    return LinkError(
        "engine.flow-unfit",
        f"flow `{plan.name}` answers no requests: {why}",
        hint="engine -> guards, processors and aggregators -> response",
    )
