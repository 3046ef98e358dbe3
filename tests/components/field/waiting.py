"""Waits for what another thread or process does."""

import json
import socket
import time

from torvyn._contract.signals import Pending

PATIENCE_S = 20.0


def pull(source, count):
    """The next elements of a source, waiting for each as a flow does."""
    found, deadline_s = [], time.monotonic() + PATIENCE_S
    while len(found) < count:
        source._node.event.clear()
        item = source.pull()
        if not isinstance(item, Pending):
            found.append(item)
            deadline_s = time.monotonic() + PATIENCE_S
            continue
        wait_s = deadline_s - time.monotonic()
        assert wait_s > 0, f"only {found}"
        source._node.event.wait(wait_s if item.after_s is None else min(wait_s, item.after_s))
    return found


def pull_json(source, count=1):
    return [json.loads(output.data) for output in pull(source, count)]


def eventually(condition):
    """Waits for something that another process does, of which nobody tells us."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


def find_free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
