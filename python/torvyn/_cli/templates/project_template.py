"""The templates of `torvyn init`: a pipeline, a gateway, and one project per role.

A template is data: the source of its components, the nodes and edges of its flow, and the flow's
output and counts, which the generated test and README repeat.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from textwrap import dedent
from typing import Final

from torvyn._cli.templates import gateway


@dataclass(frozen=True)
class Template:
    summary: str
    components: dict[str, str]
    """Name -> the text of its `component.py`."""
    nodes: dict[str, str]
    """Name -> the keys of its table."""
    edges: tuple[tuple[str, str], ...]
    output: str
    produced: int
    edge_keys: dict[tuple[str, str], str] = field(default_factory=dict)
    """Edge -> more keys of its table."""
    readme: str = ""
    """What the README says in addition."""


def _code(text: str) -> str:
    return dedent(text).lstrip("\n")


_WORDS = 'component = "scripted"\nconfig = { tokens = ["one", "two", "three", "four"] }'
_CONSOLE = 'component = "console"'

_COUNTDOWN = _code('''
    """Counts down; its config is the number to start from."""

    from collections.abc import Iterator

    import torvyn


    class Countdown(torvyn.Source):
        unit = "numbers"

        def init(self, config: str) -> None:
            self.start = int(config or "3")

        def __iter__(self) -> Iterator[str]:
            for number in range(self.start, 0, -1):
                yield str(number)
''')

_SHOUT = _code('''
    """Converts every element to upper case."""

    import torvyn


    class Shout(torvyn.Processor):
        unit = "shouts"

        def process(self, element: torvyn.Element) -> str:
            return element.text.upper() + "!"
''')

_KEEP_SHORT = _code('''
    """Passes short elements; its config is the maximum length."""

    import torvyn


    class KeepShort(torvyn.Filter):
        unit = "words"

        def init(self, config: str) -> None:
            self.limit = int(config or "3")

        def evaluate(self, element: torvyn.Element) -> bool:
            return len(element.text) <= self.limit
''')

_BY_LENGTH = _code('''
    """Sends short elements to one port and long elements to another."""

    import torvyn


    class ByLength(torvyn.Router):
        ports = ("short", "long")

        def route(self, element: torvyn.Element) -> list[str]:
            return ["short" if len(element.text) <= 3 else "long"]
''')

_PAIRS = _code('''
    """Joins every two elements into one."""

    import torvyn


    class Pairs(torvyn.Aggregator):
        unit = "pairs"

        def init(self, config: str) -> None:
            self.texts: list[str] = []

        def ingest(self, element: torvyn.Element) -> str | None:
            self.texts.append(element.text)
            return self.join() if len(self.texts) == 2 else None

        def flush(self) -> list[str]:
            return [self.join()] if self.texts else []

        def join(self) -> str:
            pair = " and ".join(self.texts)
            self.texts.clear()
            return pair
''')

_NUMBERED = _code('''
    """Prints every element with its number."""

    import torvyn


    class Numbered(torvyn.Sink):
        unit = "lines"

        def init(self, config: str) -> None:
            self.received = 0

        def push(self, element: torvyn.Element) -> None:
            self.received += 1
            print(f"{self.received}. {element.text}")
''')


def _chain(*names: str) -> tuple[tuple[str, str], ...]:
    return tuple(pairwise(names))


TEMPLATES: Final[dict[str, Template]] = {
    "pipeline": Template(
        "its own source, filter, aggregator and sink",
        {
            "countdown": _COUNTDOWN,
            "keep-short": _KEEP_SHORT,
            "pairs": _PAIRS,
            "numbered": _NUMBERED,
        },
        {
            "source": 'component = "countdown"\nconfig = "11"',
            "filter": 'component = "keep-short"\nconfig = "1"',
            "aggregator": 'component = "pairs"',
            "sink": 'component = "numbered"',
        },
        _chain("source", "filter", "aggregator", "sink"),
        "1. 9 and 8\n2. 7 and 6\n3. 5 and 4\n4. 3 and 2\n5. 1\n",
        11,
    ),
    "gateway": Template(
        "its own detector of anomalies, and an uplink that may be away",
        {"detector": gateway.DETECTOR},
        gateway.NODES,
        _chain("readings", "detector", "uplink"),
        gateway.OUTPUT,
        len(gateway.READINGS),
        {("detector", "uplink"): gateway.DISK_EDGE},
        gateway.README,
    ),
    "source": Template(
        "its own source",
        {"countdown": _COUNTDOWN},
        {"source": 'component = "countdown"\nconfig = "3"', "sink": _CONSOLE},
        _chain("source", "sink"),
        "3\n2\n1\n",
        3,
    ),
    "processor": Template(
        "its own processor",
        {"shout": _SHOUT},
        {"source": _WORDS, "shout": 'component = "shout"', "sink": _CONSOLE},
        _chain("source", "shout", "sink"),
        "ONE!\nTWO!\nTHREE!\nFOUR!\n",
        4,
    ),
    "filter": Template(
        "its own filter",
        {"keep-short": _KEEP_SHORT},
        {
            "source": _WORDS,
            "filter": 'component = "keep-short"\nconfig = "3"',
            "sink": _CONSOLE,
        },
        _chain("source", "filter", "sink"),
        "one\ntwo\n",
        4,
    ),
    "router": Template(
        "its own router",
        {"by-length": _BY_LENGTH},
        {
            "source": _WORDS,
            "router": 'component = "by-length"',
            "short": 'component = "console"\nconfig = { prefix = "short: " }',
            "long": 'component = "file"\nconfig = { path = "long.txt", mode = "truncate" }',
        },
        (("source", "router"), ("router:short", "short"), ("router:long", "long")),
        "short: one\nshort: two\n",
        4,
    ),
    "aggregator": Template(
        "its own aggregator",
        {"pairs": _PAIRS},
        {"source": _WORDS, "aggregator": 'component = "pairs"', "sink": _CONSOLE},
        _chain("source", "aggregator", "sink"),
        "one and two\nthree and four\n",
        4,
    ),
    "sink": Template(
        "its own sink",
        {"numbered": _NUMBERED},
        {"source": _WORDS, "sink": 'component = "numbered"'},
        _chain("source", "sink"),
        "1. one\n2. two\n3. three\n4. four\n",
        4,
    ),
}
