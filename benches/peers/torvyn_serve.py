"""Torvyn's server, as `torvyn serve` runs it: an engine, a block-list, `response`.

The engine is a list of steps. With `--paced` it waits for a loop turn before each, so that no two
tokens are ready together and each leaves in its own chunk, as in the peers; with `--rate` it
generates that many tokens per second, each with the time at which it was generated.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import AsyncIterator

import torvyn
from benches.work_serving import GUARD, MODEL, RATE_FLOW, answer
from torvyn.components import Blocklist
from torvyn.engine import ChoiceStep, Engine, OpenAI, Pool, Request, Service, Step
from torvyn.serve import ServerSettings, app, serve

QUIET_RATE = 1e-5


class Listed(Engine):
    """Says what it was given."""

    name = "listed"

    def __init__(self, tokens: int, is_paced: bool, rate: float, repeat: int = 1) -> None:
        super().__init__()
        self._steps = [Step((ChoiceStep(text=token * repeat),)) for token in answer(tokens)]
        self._last = Step((ChoiceStep(tokens=0, finish_reason="stop"),))
        self._is_paced = is_paced
        self._pause_s = 1 / rate if rate else 0.0

    async def steps(self, request: Request) -> AsyncIterator[Step]:
        if self._pause_s:
            for number in range(len(self._steps)):
                await asyncio.sleep(self._pause_s * (1 if number else _phase(request.id)))
                yield Step((ChoiceStep(text=f" {time.time_ns()}"),))
        else:
            for step in self._steps:
                if self._is_paced:
                    await asyncio.sleep(0)
                yield step
        yield self._last


def _phase(id: str) -> float:
    """Streams that begin together do not speak together."""
    return int(id[-4:], 36) % 1000 / 1000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    parser.add_argument("--tokens", type=int, default=1)
    parser.add_argument("--paced", action="store_true")
    parser.add_argument("--rate", type=float, default=0.0)
    parser.add_argument("--rate-tokens", type=int, default=0, help="the rate is of another flow")
    parser.add_argument("--repeat", type=int, default=1, help="words per token")
    parser.add_argument("--upstream", default="", help="an upstream's address, as the engine")
    parser.add_argument("--members", nargs="*", default=(), help="upstreams, as a pool")
    parser.add_argument("--bare", action="store_true", help="without the guard")
    parser.add_argument("--write-timeout", type=float, default=30.0)
    parser.add_argument("--grace", type=float, default=10.0)
    parser.add_argument("--max-streams", type=int, default=4096)
    parser.add_argument("--session-store", default=None)
    parser.add_argument("--quiet", action="store_true", help="also a flow that says nothing")
    parser.add_argument("--tls", nargs=2, default=("", ""), metavar=("CERT", "KEY"))
    options = parser.parse_args()
    rate = 0.0 if options.rate_tokens else options.rate
    engine: Engine = Listed(options.tokens, options.paced, rate, options.repeat)
    if options.upstream:
        engine = OpenAI(base_url=options.upstream, model=MODEL, api_key="sk-bench")
    if options.members:
        limits = {"max_in_flight": options.max_streams}
        engine = Pool(members=options.members, model=MODEL, api_key="sk-bench", **limits)
    plan = torvyn.Flow(Blocklist(GUARD)).plan
    make_flow = None if options.bare else lambda: torvyn.Flow.from_plan(plan)
    settings = ServerSettings(
        # Whoever measures silent streams waits for their start.
        first_byte_wait_s=0.1,
        port=options.port,
        max_streams=options.max_streams,
        max_connections=options.max_streams + 1024,
        max_connections_per_address=options.max_streams + 1024,
        write_timeout_s=options.write_timeout,
        shutdown_grace_s=options.grace,
        session_store=options.session_store,
        tls_cert=options.tls[0],
        tls_key=options.tls[1],
    )
    services = {MODEL: Service(MODEL, engine, make_flow=make_flow)}
    if options.rate_tokens:
        paced = Listed(options.rate_tokens, False, options.rate)
        services[RATE_FLOW] = Service(RATE_FLOW, paced, make_flow=make_flow)
    if options.quiet:
        services["quiet"] = Service("quiet", Listed(1, False, QUIET_RATE), make_flow=make_flow)
    serve(app(services, settings), lambda url: None, lambda: None)


if __name__ == "__main__":
    main()
