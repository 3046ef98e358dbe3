"""Does a request without a valid key get an answer? Does a key appear in logs or files?"""

from __future__ import annotations

import functools
import sys
import tempfile
from pathlib import Path

from benches.reliability.case import Case, Measurement
from benches.reliability.guests import TESTS


@functools.cache
def _attacked(rounds: int) -> tuple[int, int, int, int]:
    """Numbers of requests, of answered ones, of keys searched for, and of keys found."""
    sys.path.insert(0, str(TESTS / "security"))
    from guarded_server import KEYED, WRONG, everything_written, serving, stream_of

    statuses: list[int] = []
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as world:
        keys = world.keys
        world.torvyn("keys", "revoke", "gone")
        world.until_revoked("gone")
        _, id = stream_of(world, keys["ours"])
        for _ in range(rounds):
            for method, path in KEYED:
                for key in (None, WRONG, keys["gone"]):
                    statuses.append(world.refused(method, path, key)[0])
                if "{id}" in path:
                    theirs = path.replace("{id}", id)
                    statuses.append(world.refused(method, theirs, keys["theirs"])[0])
        world.ask("DELETE", f"/v1/streams/{id}", keys["ours"]).read()
        text = everything_written(world)
    searched = [*keys.values(), WRONG]
    found = sum(key.removeprefix("tvk_") in text for key in searched)
    answered = sum(status not in (401, 404) for status in statuses)
    return len(statuses), answered, len(searched), found


def answered(rounds: int) -> Measurement:
    requests, count, *_ = _attacked(rounds)
    return Measurement(count, [float(count)], f"{requests} requests")


def found(rounds: int) -> Measurement:
    *_, searched, count = _attacked(rounds)
    return Measurement(count, [float(count)], f"{searched} keys")


CASES = [
    Case(
        "keys.routes",
        "a missing, wrong or revoked key on every route; another tenant's stream",
        "a real server, every route and method that needs a key",
        0,
        "answered",
        answered,
    ),
    Case(
        "keys.secrets",
        "keys in logs, answers, the audit and the key file",
        "searches everything that the server and the commands wrote during the attack",
        0,
        "found",
        found,
    ),
]
