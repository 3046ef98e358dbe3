"""Pipecat: a `Pipeline` of four `FrameProcessor`s; every token is a `TextFrame`.

The fastest idiomatic form: the source pushes from inside the pipeline; turn tracking, idle
detection, RTVI and logging are off. `pipecat-defaults` leaves all but logging on. `pipecat-direct`
has processors call each other without queues (`enable_direct_mode`, meant for plumbing). The queues
have no bound: all tokens may wait in front of the filter.
"""

# The peer may be missing or untyped; mypy must give the same result in both cases.
# mypy: disable-error-code="import-not-found,import-untyped,misc,no-untyped-call"
# mypy: no-warn-unused-ignores

from __future__ import annotations

import asyncio
import importlib.util
from typing import Any

from benches.peers import distribution_version
from benches.work import Result

NAME = "pipecat"


def VERSION() -> str:
    return f"pipecat-ai {distribution_version('pipecat-ai')}"


def available() -> str | None:
    if importlib.util.find_spec("pipecat") is None:
        return "pipecat-ai is not installed"
    from loguru import logger

    logger.remove()
    return None


QUIET: dict[str, Any] = {
    "cancel_on_idle_timeout": False,
    "enable_rtvi": False,
    "enable_turn_tracking": False,
    "idle_timeout_secs": None,
}


async def _flow(tokens: list[str], options: dict[str, Any], direct: bool = False) -> Result:
    from pipecat.pipeline.pipeline import Pipeline
    from pipecat.pipeline.worker import PipelineWorker
    from pipecat.workers.runner import WorkerRunner

    from benches.peers.pipecat_processors import Aggregator, Filter, Sink, Source

    source = Source(tokens, enable_direct_mode=direct)
    guard = Filter(enable_direct_mode=direct)
    aggregator = Aggregator(enable_direct_mode=direct)
    sink = Sink(enable_direct_mode=direct)
    worker = PipelineWorker(Pipeline([source, guard, aggregator, sink]), **options)
    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    await runner.run()
    return Result(len(sink.texts), guard.filtered, sink.texts)


def run(tokens: list[str]) -> Result:
    return asyncio.run(_flow(tokens, QUIET))


def run_direct(tokens: list[str]) -> Result:
    return asyncio.run(_flow(tokens, QUIET, direct=True))


def run_defaults(tokens: list[str]) -> Result:
    return asyncio.run(_flow(tokens, {}))


VARIANTS = {"pipecat-direct": run_direct, "pipecat-defaults": run_defaults}
