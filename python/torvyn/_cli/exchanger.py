"""Brings the flows of a deployment to another generation, in the process that runs them.

`torvyn deploy run` asks for it, and exchanges the process if this is refused. Several flows are of
one generation: none changes before it is known that all of them can.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torvyn._deploy.exchange import ProjectChange, folders_in_use, other_wheels, without_folders
from torvyn.errors import TorvynError

if TYPE_CHECKING:
    from torvyn._flow.plan_difference import PlanDifference
    from torvyn._flow.reload import Reloader
    from torvyn._link.plan import Plan

LinkProject = Callable[[Path, bool], Sequence["Plan"]]
"""Links the flows of the project in a folder; whether its precompiled code is trusted."""


class Exchanger:
    def __init__(self, reloaders: Mapping[str, Reloader], project: Path, link: LinkProject) -> None:
        """`reloaders`: those of all flows of the process, by name."""
        self._reloaders = reloaders
        self._project = project
        self._link = link
        self._folders = [project]

    def exchange(self, request: dict[str, Any]) -> dict[str, Any]:
        """`project`: the folder of the new generation; `trial_s`: how long its components are on
        trial. The answer has `refused`, with the reason, if the process must be exchanged."""
        project, is_trusted = Path(request["project"]).resolve(), bool(request.get("is_trusted"))
        with ExitStack() as stack:
            for reloader in self._reloaders.values():
                stack.enter_context(reloader.lock)
            change = ProjectChange(self._project, project)
            if change.wheels:
                return {"refused": other_wheels(change.wheels)}
            plans = self._link(project, is_trusted)
            if reason := self._other_flows(plans):
                return {"refused": reason}
            self._folders = [*(each for each in self._folders if each != project), project]
            differences = {plan.name: self._compare(plan, change) for plan in plans}
            if reason := self._refusal(plans, differences, change.shared(*plans)):
                return {"refused": reason}
            answer = self._apply(plans, differences, float(request["trial_s"]))
            if "refused" not in answer:
                self._adopt(project, is_trusted)
            return {**self._shown(differences), **answer, "folders": list(map(str, self._folders))}

    def _other_flows(self, plans: Sequence[Plan]) -> str | None:
        """Why these are not the flows that run."""
        for name in sorted({plan.name for plan in plans} ^ {*self._reloaders}):
            return f"flow `{name}` was {'removed' if name in self._reloaders else 'added'}"
        for name, reloader in self._reloaders.items():
            if reloader.has_ended:
                return f"flow `{name}` has ended, and only a new process runs it again"
        return None

    def _compare(self, plan: Plan, change: ProjectChange) -> PlanDifference:
        place_free = partial(without_folders, folders=self._folders)
        return self._reloaders[plan.name].compare(plan, change.content(plan), place_free)

    def _refusal(
        self,
        plans: Sequence[Plan],
        differences: Mapping[str, PlanDifference],
        shared: list[str],
    ) -> str | None:
        if shared:
            return f"`{shared[0]}` has changed, and any node may use it"
        for plan in plans:
            difference = differences[plan.name]
            if difference.later:
                return f"`{difference.later[0]}` has changed, which only a new start applies"
            if not plan.secrets <= self._reloaders[plan.name].running_plan.secrets:
                return "it has other secrets, which the log of this process would show"
            difference.refuse_graph(plan.name)
            refusals = () if difference.graph else (each.refusal for each in difference.nodes)
            if refusal := next((each for each in refusals if each is not None), None):
                return refusal.message
        return None

    def _apply(
        self, plans: Sequence[Plan], differences: Mapping[str, PlanDifference], trial_s: float
    ) -> dict[str, Any]:
        pauses_ms = [0.0]
        for number, plan in enumerate(plans):
            reloader = self._reloaders[plan.name]
            try:
                answer = reloader.apply(differences[plan.name], plan, trial_s=trial_s)
                errors = answer.get("errors")
            except TorvynError as error:
                errors = [each.to_dict() for each in error.diagnostics]
            if errors:
                first, is_mixed = errors[0], number > 0
                return {"refused": first["message"], "code": first["code"], "is_mixed": is_mixed}
            swaps = [each["pause_ms"] for each in answer["swaps"]]
            pauses_ms.append(answer.get("restarted_ms", max(swaps, default=0.0)))
        is_restart = any(difference.graph for difference in differences.values())
        return {"way": "restart" if is_restart else "swap", "pause_ms": max(pauses_ms)}

    def _adopt(self, project: Path, is_trusted: bool) -> None:
        """The new generation runs."""
        self._project = project
        for name, reloader in self._reloaders.items():
            reloader.link = partial(self._link_one, name, project, is_trusted)
        running = [reloader.running_plan for reloader in self._reloaders.values()]
        used = [each for plan in running for each in folders_in_use(plan, self._folders)]
        self._folders = [each for each in self._folders if each in used]

    def _link_one(self, name: str, project: Path, is_trusted: bool) -> Plan:
        return next(plan for plan in self._link(project, is_trusted) if plan.name == name)

    def _shown(self, differences: Mapping[str, PlanDifference]) -> dict[str, Any]:
        """What has changed, for people."""
        changes, graph = {}, []
        for flow, difference in differences.items():
            is_alone = len(differences) == 1
            for change in difference.nodes:
                name = change.node.name if is_alone else f"{flow}.{change.node.name}"
                changes[name] = list(change.parts)
            graph += [line if is_alone else f"flow `{flow}`: {line}" for line in difference.graph]
        return {"changes": changes, "graph": graph}
