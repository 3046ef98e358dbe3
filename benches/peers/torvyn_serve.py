"""Torvyn's server, as `torvyn serve` runs it: the scripted engine, a block-list, `response`.

`--paced` makes the engine wait for a turn of the loop after every token, so that no two tokens are
ready together and each leaves in a chunk of its own, as it does in the peers.
"""

from __future__ import annotations

import argparse

import torvyn
from benches.work_serving import GUARD, MODEL, answer
from torvyn.components.filter_blocklist import Blocklist
from torvyn.engine import Scripted, Service
from torvyn.transport import Settings, app, serve


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    parser.add_argument("--tokens", type=int)
    parser.add_argument("--paced", action="store_true")
    parser.add_argument("--bare", action="store_true", help="without the guard")
    options = parser.parse_args()
    tokens = answer(options.tokens)
    script = [item for token in tokens for item in (0.0, token)] if options.paced else tokens
    make_flow = None if options.bare else lambda: torvyn.Flow(Blocklist(GUARD))
    service = Service(MODEL, Scripted(script), make_flow=make_flow)
    serve(app({MODEL: service}, Settings(port=options.port)), lambda url: None, lambda: None)


if __name__ == "__main__":
    main()
