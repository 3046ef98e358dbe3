"""Is whatever comes from outside read or refused, and does a server that stalls cost more than the
limit?"""

from __future__ import annotations

import contextlib
import itertools
import random
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from benches.reliability.case import Case, Measurement
from benches.reliability.guests import TESTS

MUTANTS = 200
"""Of each text, per round."""
LIMIT_S = 1.0
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.oci.image.manifest.v1+json\r\n"
ANSWERS = {
    "head": HEAD + b"X-Padding: " + b"a" * 8000,
    "body": HEAD + b"Content-Length: 8000\r\n\r\n" + b" " * 8000,
    "chunk size": HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"0" * 8000,
}


def _use_tests() -> None:
    folders = [str(TESTS), *(str(TESTS / name) for name in ("artifact", "suite"))]
    sys.path[:0] = [folder for folder in folders if folder not in sys.path]
    from scale import choose

    choose(is_full=False)


def _bugs(rounds: int) -> Measurement:
    _use_tests()
    from test_hostile_input import FILES, PARSERS, mutants, refusal

    from torvyn._artifact.cache import Cache

    figures, count = [], 0
    for seed in range(rounds):
        dice, bugs = random.Random(seed), 0
        for data, parse in PARSERS.values():
            chosen = [*mutants(data, dice)]
            for mutant in dice.sample(chosen, min(MUTANTS, len(chosen))):
                count += 1
                bugs += _is_bug(lambda parse=parse, mutant=mutant: refusal(partial(parse, mutant)))
        for place, value, read in FILES.values():
            with tempfile.TemporaryDirectory() as name:
                Cache(Path(name))
                path = Path(name, place)
                path.parent.mkdir(parents=True, exist_ok=True)
                chosen = [*mutants(_json(value), dice)]
                for mutant in dice.sample(chosen, min(MUTANTS, len(chosen))):
                    path.write_bytes(mutant)
                    count += 1
                    bugs += _is_bug(lambda read=read, name=name: refusal(partial(read, Path(name))))
        figures.append(float(bugs))
    texts = len(PARSERS) + len(FILES)
    return Measurement(sum(figures), figures, f"{count:,} mutants of {texts} texts")


def _json(value: object) -> bytes:
    import json

    return json.dumps(value).encode()


def _is_bug(action: object) -> bool:
    """Whether it ends with anything but a `TorvynError`, which `refusal` returns."""
    assert callable(action)
    try:
        action()
    except Exception:
        return True
    return False


def _slow_servers(rounds: int) -> Measurement:
    _use_tests()
    from dripping_server import dripping
    from torvyn._artifact.fetch import FetchOptions, fetch
    from torvyn._artifact.registry_http import Limits
    from torvyn._artifact.trust import Rule, TrustPolicy
    from torvyn._deploy.source import FetchLimits, open_source
    from torvyn.errors import TorvynError

    slow = FetchLimits(silence_s=LIMIT_S / 2, min_bytes_per_s=1e9, total_s=LIMIT_S)
    limits = Limits(connect_s=LIMIT_S / 2, silence_s=LIMIT_S / 2, least_bytes_per_s=10**9, tries=0)
    figures = []
    # The first round loads modules.
    for _ in range(rounds + 1):
        worst_s = 0.0
        for answer, is_registry in itertools.product(ANSWERS.values(), (True, False)):
            with (
                dripping(answer, at_once=len(HEAD)) as host,
                tempfile.TemporaryDirectory() as folder,
            ):
                options = FetchOptions(
                    TrustPolicy((Rule("", "allow"),)), Path(folder, "cache"), limits=limits
                )
                began_s = time.perf_counter()
                with contextlib.suppress(TorvynError):
                    if is_registry:
                        fetch(f"oci://{host}/a:1", options)
                    else:
                        open_source(f"http://{host}/channel.json", slow).publication()
                worst_s = max(worst_s, time.perf_counter() - began_s)
        figures.append(round(worst_s / LIMIT_S, 2))
    detail = f"a byte every 20 ms in {', '.join(ANSWERS)}, from a registry and a web server"
    return Measurement(max(figures[1:]), figures[1:], detail)


CASES = [
    Case(
        "artifacts.hostile",
        "changed bundles, manifests, channels, policies, logins and states",
        "hostile values in each place, deep nesting, random bytes",
        0,
        "that end as a bug",
        _bugs,
    ),
    Case(
        "artifacts.slow",
        "servers that send a byte from time to time",
        "in a head, a body and the size of a chunk",
        1.5,
        "of the total limit",
        _slow_servers,
    ),
]
