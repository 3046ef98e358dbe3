"""Instances: the answers that run now and those that ended recently, for operators.

Costs nothing per token: running answers are inspected when a request asks for them, and only the
counters of ended ones are kept. No text is kept.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from torvyn._observe.logs import rfc3339

if TYPE_CHECKING:
    from torvyn.engine.answer.answer import FlowAccount
    from torvyn.engine.service.service import Service
    from torvyn.protocol.frames import Usage
    from torvyn.transport.access.caller import Caller
    from torvyn.transport.call import Call

PER_TURN: Final = 32
"""How many running answers are read in one turn of the loop, at up to 30 us each."""
MAX_ENDED: Final = 128
"""How many ended answers are kept, of all tenants together."""
MAX_LISTED: Final = 32
"""How many of them are listed; the others can be found by their ids."""


@dataclass(frozen=True, slots=True)
class EndedAnswer:
    tenant: str
    summary: Mapping[str, Any]
    accounts: tuple[FlowAccount, ...]


class Instances:
    def __init__(self, calls: Mapping[str, Call], services: Mapping[str, Service]) -> None:
        self._calls = calls
        self._services = services
        self._ended: deque[EndedAnswer] = deque(maxlen=MAX_ENDED)

    def ended(self, call: Call, usage: Usage, timing: Mapping[str, float]) -> Mapping[str, Any]:
        """Keeps the summary of a call that has ended, and returns it."""
        summary = self._summary(call, _state(call), usage, timing)
        tenant, accounts = call.wire.caller.tenant, call.answer.accounts
        self._ended.append(EndedAnswer(tenant, summary, accounts))
        return summary

    async def running(self, caller: Caller) -> AsyncIterator[dict[str, Any]]:
        """The running answers that the caller may see, with the connections of their flows. Other
        streams go on meanwhile: an answer may end while those before it are read."""
        for place, call in enumerate(list(self._calls.values()), 1):
            if place % PER_TURN == 0:
                await asyncio.sleep(0)
            if self._calls.get(call.id) is call and _sees(caller, call.wire.caller.tenant):
                connections = [*_connections(call.answer.accounts)]
                yield {**self._running(call), "connections": connections}

    def recent(self, caller: Caller) -> Iterator[Mapping[str, Any]]:
        """The ended answers that the caller may see, the latest first."""
        seen = (one.summary for one in reversed(self._ended) if _sees(caller, one.tenant))
        return islice(seen, MAX_LISTED)

    def find(self, id: str, caller: Caller) -> dict[str, Any] | None:
        """The latest answer with that id that the caller may see, with its accounts."""
        for call in reversed(list(self._calls.values())):
            if id == call.id and _sees(caller, call.wire.caller.tenant):
                return _with_accounts(self._running(call), call.answer.accounts)
        for ended in reversed(self._ended):
            if id == ended.summary["id"] and _sees(caller, ended.tenant):
                return _with_accounts(ended.summary, ended.accounts)
        return None

    def _running(self, call: Call) -> dict[str, Any]:
        return self._summary(call, "running", call.answer.usage, call.answer.timing)

    def _summary(
        self, call: Call, state: str, usage: Usage, timing: Mapping[str, float]
    ) -> dict[str, Any]:
        answer, engine = call.answer, self._services[call.flow].engine
        return {
            "id": call.id,
            "flow": call.flow,
            "model": str(engine.describe().get("model") or engine.name),
            "dialect": call.request.dialect,
            "state": state,
            "started": rfc3339(call.created_s),
            "elapsed_s": round(timing.get("duration_s", time.time() - call.created_s), 6),
            "path": call.wire.path,
            "peer": call.wire.peer,
            "choices": answer.request.n,
            "finish": [] if state == "running" else _finishes(call),
            "error": None if call.failure is None else call.failure.code,
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            **timing,
        }


def _sees(caller: Caller, tenant: str) -> bool:
    return caller.is_admin or caller.tenant == tenant


def _state(call: Call) -> str:
    if call.failure is not None or "error" in call.answer.finish_reasons:
        return "failed"
    reasons = set(call.answer.finish_reasons)
    return "cancelled" if reasons <= {"cancelled", None} else "completed"


def _finishes(call: Call) -> list[dict[str, Any]]:
    finishes = []
    for index, reason in enumerate(call.answer.finish_reasons):
        finish = call.finish(index, reason, None)
        side = {} if finish.side is None else {"side": finish.side}
        finishes.append({"index": index, "reason": finish.reason, **side})
    return finishes


def _connections(accounts: tuple[FlowAccount, ...]) -> Iterator[dict[str, Any]]:
    for account in accounts:
        for node in account.statistics.nodes.values():
            if node.connection is not None:
                yield {"node": node.name, "choice": account.choice, **asdict(node.connection)}


def _with_accounts(summary: Mapping[str, Any], accounts: tuple[FlowAccount, ...]) -> dict[str, Any]:
    return {**summary, "flows": [account.to_dict() for account in accounts]}
