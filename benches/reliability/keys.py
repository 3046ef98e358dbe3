"""Who is answered that should not be, and where does a key turn up that should not?"""

from __future__ import annotations

import functools
import importlib.util
import sys
import tempfile
from pathlib import Path

from benches.reliability.line import LeftOut, Line, Measured
from benches.reliability.setting import TESTS


@functools.cache
def _attacked(rounds: int) -> tuple[int, int, int, int]:
    """Requests, those that were answered, keys that were looked for, those that were found."""
    if importlib.util.find_spec("granian") is None:
        raise LeftOut('pip install "torvyn[serve]"')
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
    looked_for = [*keys.values(), WRONG]
    found = sum(key.removeprefix("tvk_") in text for key in looked_for)
    answered = sum(status not in (401, 404) for status in statuses)
    return len(statuses), answered, len(looked_for), found


def answered(rounds: int) -> Measured:
    asked, count, *_ = _attacked(rounds)
    return Measured(count, [float(count)], f"{asked} requests")


def found(rounds: int) -> Measured:
    *_, looked_for, count = _attacked(rounds)
    return Measured(count, [float(count)], f"{looked_for} keys, in all that was written")


LINES = [
    Line(
        "keys.routes",
        "a missing, wrong or revoked key on every route; another tenant's stream",
        "a real server, every route and method that needs a key",
        0,
        "answered",
        answered,
    ),
    Line(
        "keys.secrets",
        "keys in logs, answers, the audit and the key file",
        "all that the server and the commands wrote during the attack is looked through",
        0,
        "found",
        found,
    ),
]
