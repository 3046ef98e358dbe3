"""A flow as a service: requests go to its engine, answers come through its guards.

    [flow.chat.nodes.question]  component = "request"
    [flow.chat.nodes.privacy]   component = "redact"
    [flow.chat.nodes.model]     component = "engine:local"
    [flow.chat.nodes.policy]    component = "blocklist"
    [flow.chat.nodes.answer]    component = "response"

The engine is opened once and shared; what lies between it and the response is made anew for every
choice of every request, and what lies between the request and the engine for every request. The
config of the engine's node gives the requests their defaults. Without a `request` the engine is the
first node, and prompts reach it as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from torvyn.concurrency.context_managers import CloseOnExit
from torvyn.engine.engine import Asked, Engine
from torvyn.engine.generation import Generation
from torvyn.engine.nodes.processor import EngineProcessor
from torvyn.engine.nodes.source import EngineSource
from torvyn.engine.nodes.source_request import RequestSource
from torvyn.engine.request import Message, Request, options_of
from torvyn.engine.service.flow_parts import Parts, parts, unfit

if TYPE_CHECKING:
    from torvyn.engine.answer.answer_flows import MakeFlow
    from torvyn.engine.prompt.prompt_flow import PromptGuard
    from torvyn.link.plan import NodePlan, Plan


class Service(CloseOnExit):
    """Answers requests through a flow. Open one with `Service.open(project.plan("chat"))`."""

    def __init__(
        self,
        name: str,
        engine: Engine,
        defaults: Mapping[str, Any] | None = None,
        make_flow: MakeFlow | None = None,
        deadline_s: float | None = None,
        prompt_guard: PromptGuard | None = None,
    ) -> None:
        self.name = name
        self.engine = engine
        self.deadline_s = deadline_s
        """How long an answer may take; who serves it sees to that."""
        self._defaults = dict(defaults or {})
        self._preamble: tuple[Message, ...] = tuple(self._defaults.pop("messages", None) or ())
        self._make_flow = make_flow
        self._prompt_guard = prompt_guard

    @classmethod
    def open(cls, plan: Plan) -> Self:
        """Opens the engine that the plan names; raises when the plan is no service."""
        from torvyn.reactor import Flow

        found = parts(plan)
        source = _source_of(found.engine, plan)
        given = source.options(found.engine.config)
        guard, asked = _prompt_guard(found)
        engine = source.open_engine(given)
        answer = found.answer
        make_flow = (lambda: Flow.from_plan(answer)) if answer.nodes else None
        defaults = source.defaults(given) | asked
        return cls(plan.name, engine, defaults, make_flow, plan.deadline_s, guard)

    def generate(self, asked: Asked, **options: Any) -> Generation:
        """An answer, through the flow. What the request leaves open, the flow's config says."""
        if isinstance(asked, Request):
            options = options_of(asked) | options
            asked = asked.messages if asked.prompt is None else asked.prompt
        options = self._defaults | {key: held for key, held in options.items() if held is not None}
        if self._preamble:
            # What the flow says first makes a conversation of every prompt.
            options.pop("raw_prompt", None)
        return self.engine.generate(
            self._with_preamble(asked),
            through=self._make_flow,
            prompt_guard=self._prompt_guard,
            **options,
        )

    def _with_preamble(self, asked: str | Sequence[Message]) -> str | Sequence[Message]:
        if not self._preamble:
            return asked
        own = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
        return [*self._preamble, *own]

    def close(self) -> None:
        self.engine.close()


def _source_of(node: NodePlan, plan: Plan) -> EngineSource:
    """What knows how to open the engine of that node, be it a source or a processor."""
    from torvyn.link.component_loader import instantiate

    component = instantiate(node.component)
    if isinstance(component, EngineProcessor):
        return component.source_type()
    if not isinstance(component, EngineSource):
        raise unfit(plan, f"`{node.name}` is not an engine")
    return component


def _prompt_guard(found: Parts) -> tuple[PromptGuard | None, dict[str, Any]]:
    """What requests go through before the engine is asked, and what their node says of them."""
    from torvyn.engine.prompt.prompt_flow import PromptGuard
    from torvyn.reactor import Flow

    node, plan = found.request, found.prompt
    if node is None or plan is None:
        return None, {}
    given = RequestSource().options(node.config)
    defaults = {} if given["messages"] is None else {"messages": given["messages"]}
    if not plan.nodes:
        return None, defaults
    return PromptGuard(lambda: Flow.from_plan(plan), given["roles"] or None), defaults
