"""What windows must give, computed the slow and obvious way: sort by event time, then group."""

import json

from torvyn import Element
from torvyn.components.event_time import render_time

SECOND_NS = 1_000_000_000


def fixed(readings, every, slide):
    """(start, end, values) of every window with a reading, in order."""
    found = {}
    for second, value in sorted(readings, key=lambda reading: reading[0]):
        start = second - second % slide
        while start > second - every:
            found.setdefault(start, []).append(value)
            start -= slide
    return [(start, start + every, found[start]) for start in sorted(found)]


def sessions(readings, gap):
    found = []
    for second, value in sorted(readings, key=lambda reading: reading[0]):
        if found and second - found[-1][1] <= gap:
            found[-1] = (found[-1][0], second, [*found[-1][2], value])
        else:
            found.append((second, second, [value]))
    return found


def rendered(windows, key=None):
    """The same windows as the component sends them."""
    head = {} if key is None else {"key": key}
    return [
        {
            **head,
            "start": render_time(start * SECOND_NS),
            "end": render_time(end * SECOND_NS),
            "count": len(values),
            "total": sum(values),
            "low": min(values),
            "high": max(values),
        }
        for start, end, values in windows
    ]


COMPUTE = {"total": "sum(v)", "low": "min(v)", "high": "max(v)"}


def reading(second, value, **more):
    return Element(json.dumps({"at": second, "v": value, **more}))


def shuffled(readings, lateness, random):
    """The readings out of order, none more than `lateness` seconds behind a newer one."""
    delayed = [(second + random.randint(0, lateness), second, value) for second, value in readings]
    return [(second, value) for _, second, value in sorted(delayed)]


def sent(component, elements):
    outputs = [output for element in elements for output in component.ingest(element)]
    outputs += component.flush()
    return [json.loads(output.data) for output in outputs if output.port is None]
