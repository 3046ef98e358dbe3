"""A service: a flow that answers requests. Answers go through the guards of the flow.

    [flow.chat.nodes.question]  component = "request"
    [flow.chat.nodes.privacy]   component = "redact"
    [flow.chat.nodes.model]     component = "engine:local"
    [flow.chat.nodes.policy]    component = "blocklist"
    [flow.chat.nodes.answer]    component = "response"

The engine is opened once and shared. Each request gets its own copy of the nodes before the engine,
and each choice its own copy of the nodes after it. The config of the engine's node gives defaults
for requests. Without a `request` node, prompts reach the engine unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Self

from torvyn._io.closing import CloseOnExit
from torvyn.engine.engine import Engine
from torvyn.engine.generation import Generation, load_flows
from torvyn.engine.nodes.processor import EngineProcessor
from torvyn.engine.nodes.source import EngineSource
from torvyn.engine.nodes.source_request import RequestSource
from torvyn.engine.request import Message, PromptLike, Request, options_of
from torvyn.engine.service.flow_parts import ServiceParts, service_parts, unfit
from torvyn.errors import FlowError

if TYPE_CHECKING:
    from torvyn._link.plan import NodePlan, Plan
    from torvyn.engine.answer.answer_flows import MakeFlow
    from torvyn.engine.prompt.prompt_flow import PromptGuard


_NO_OPTIONS: Final[Mapping[str, Any]] = {}


class _Version:
    """What an answer keeps from its beginning to its end."""

    def __init__(
        self,
        defaults: dict[str, Any],
        make_flow: MakeFlow | None,
        deadline_s: float | None,
        prompt_guard: PromptGuard | None,
    ) -> None:
        self.preamble: tuple[Message, ...] = tuple(defaults.pop("messages", None) or ())
        self.defaults = defaults
        self.make_flow = make_flow
        self.deadline_s = deadline_s
        self.prompt_guard = prompt_guard

    def with_preamble(self, prompt: str | Sequence[Message]) -> str | Sequence[Message]:
        if not self.preamble:
            return prompt
        own = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        return [*self.preamble, *own]


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
        self._engine_node: NodePlan | None = None
        self._version = _Version(dict(defaults or {}), make_flow, deadline_s, prompt_guard)

    @classmethod
    def open(cls, plan: Plan) -> Self:
        """Opens the engine of the plan; raises if the plan cannot answer requests."""
        parts = service_parts(plan)
        source = _source_of(parts.engine, plan)
        engine = source.open_engine(source.options(parts.engine.config))
        service = cls(plan.name, engine)
        service._engine_node = parts.engine
        service._version = _version_of(plan, parts, source)
        return service

    def adopt(self, plan: Plan) -> None:
        """Answers that begin from now on go through this version of the flow. Those that have begun
        keep theirs. Raises if the engine is another one."""
        parts = self.check_engine(plan)
        self._version = _version_of(plan, parts, _source_of(parts.engine, plan))

    def check_engine(self, plan: Plan) -> ServiceParts:
        """The parts of a new version of the flow. Raises if its engine is another one: an engine
        is opened only once."""
        parts = service_parts(plan)
        if self._engine_node != parts.engine:
            message = f"the engine of flow `{self.name}` has changed"
            raise FlowError("swap.unfit", message, hint="restart the server")
        return parts

    @property
    def deadline_s(self) -> float | None:
        """How long an answer may take; the server enforces it."""
        return self._version.deadline_s

    def generate(
        self, prompt: PromptLike, *, fallback: Mapping[str, Any] = _NO_OPTIONS, **options: Any
    ) -> Generation:
        """The answer, through the flow. The flow's config gives defaults for options, and
        `fallback` for those that it does not set."""
        if isinstance(prompt, Request):
            options = options_of(prompt) | options
            prompt = prompt.messages if prompt.prompt is None else prompt.prompt
        version = self._version
        options = {**fallback, **version.defaults} | {
            key: value for key, value in options.items() if value is not None
        }
        if version.preamble:
            # Messages in front of the prompt make it a conversation.
            options.pop("raw_prompt", None)
        return self.engine.generate(
            version.with_preamble(prompt),
            through=version.make_flow,
            prompt_guard=version.prompt_guard,
            **options,
        )

    def prepare(self) -> None:
        """Loads what the first answer would have to load."""
        version = self._version
        if version.make_flow is not None or version.prompt_guard is not None:
            load_flows()

    def close(self) -> None:
        self.engine.close()


def _version_of(plan: Plan, parts: ServiceParts, source: EngineSource) -> _Version:
    from torvyn._flow.flow import Flow

    guard, prompt_defaults = _prompt_guard(parts)
    answer = parts.answer
    make_flow = (lambda: Flow.from_plan(answer)) if answer.nodes else None
    defaults = source.defaults(source.options(parts.engine.config)) | prompt_defaults
    return _Version(defaults, make_flow, plan.deadline_s, guard)


def _source_of(node: NodePlan, plan: Plan) -> EngineSource:
    """The component that opens the engine of the node."""
    from torvyn._link.component_library import instantiate

    component = instantiate(node.component)
    if isinstance(component, EngineProcessor):
        return component.source_type()
    if not isinstance(component, EngineSource):
        raise unfit(plan, f"`{node.name}` is not an engine")
    return component


def _prompt_guard(parts: ServiceParts) -> tuple[PromptGuard | None, dict[str, Any]]:
    """The flow for prompts, and the defaults that the `request` node gives."""
    from torvyn._flow.flow import Flow
    from torvyn.engine.prompt.prompt_flow import PromptGuard

    node, plan = parts.request, parts.prompt
    if node is None or plan is None:
        return None, {}
    node_options = RequestSource().options(node.config)
    defaults = {} if node_options["messages"] is None else {"messages": node_options["messages"]}
    if not plan.nodes:
        return None, defaults
    return PromptGuard(lambda: Flow.from_plan(plan), node_options["roles"] or None), defaults
