"""Brings the flow of a deployment to another generation, in the process that runs it.

`torvyn deploy run` asks for it, and exchanges the process if this is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torvyn.edge.running.project_change import (
    ProjectChange,
    folders_in_use,
    other_wheels,
    without_folders,
)
from torvyn.reactor.swap.plan_difference import PlanDifference, compare

if TYPE_CHECKING:
    from torvyn.cli.supervision.reloader import Reloader
    from torvyn.link.plan import Plan

LinkProject = Callable[[Path, bool], "Plan"]
"""Links the flow of the project in a folder; whether its precompiled code is trusted."""


class Exchanger:
    def __init__(self, reloader: Reloader, project: Path, link: LinkProject) -> None:
        self._reloader = reloader
        self._project = project
        self._link = link
        self._folders = [project]

    def exchange(self, request: dict[str, Any]) -> dict[str, Any]:
        """`project`: the folder of the new generation; `trial_s`: how long its components are on
        trial. The answer has `refused`, with the reason, if the process must be exchanged."""
        project, is_trusted = Path(request["project"]).resolve(), bool(request.get("is_trusted"))
        with self._reloader.lock:
            change = ProjectChange(self._project, project)
            if change.wheels:
                return {"refused": other_wheels(change.wheels)}
            link = partial(self._link, project, is_trusted)
            plan = link()
            self._folders = [*(each for each in self._folders if each != project), project]
            difference = self._compare(plan, change)
            if reason := self._refusal(plan, difference, change.shared(plan)):
                return {"refused": reason, **_shown(difference)}
            answer = self._reloader.apply(difference, plan, trial_s=float(request["trial_s"]))
            if errors := answer.get("errors"):
                first = errors[0]
                return {"refused": first["message"], "code": first["code"], **_shown(difference)}
            self._project, self._reloader.link = project, link
            self._folders = folders_in_use(self._reloader.running_plan, self._folders)
            return {**_shown(difference), **self._done(difference, answer)}

    def _compare(self, plan: Plan, change: ProjectChange) -> PlanDifference:
        running = self._reloader.running_plan
        place_free = partial(without_folders, folders=self._folders)
        return compare(running, plan, change.content(plan), place_free)

    def _refusal(self, plan: Plan, difference: PlanDifference, shared: list[str]) -> str | None:
        if shared:
            return f"`{shared[0]}` has changed, and any node may use it"
        if difference.later:
            return f"`{difference.later[0]}` has changed, which only a new start applies"
        if not plan.secrets <= self._reloader.running_plan.secrets:
            return "it has other secrets, which the log of this process would show"
        return None

    def _done(self, difference: PlanDifference, answer: dict[str, Any]) -> dict[str, Any]:
        pauses_ms = [each["pause_ms"] for each in (*answer["swaps"], answer) if "pause_ms" in each]
        pause_ms = answer.get("restarted_ms", max(pauses_ms, default=0.0))
        folders = [str(folder) for folder in self._folders]
        way = "graph" if difference.graph else "swap"
        return {"way": way, "pause_ms": pause_ms, "folders": folders}


def _shown(difference: PlanDifference) -> dict[str, Any]:
    """What has changed, for people."""
    nodes = {change.node.name: list(change.parts) for change in difference.nodes}
    return {"changes": nodes, "graph": list(difference.graph)}
