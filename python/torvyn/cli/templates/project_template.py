"""The templates of `torvyn init`: a pipeline, and one project per role with one component.

A template is data: the source of its components, the nodes and edges of its flow, and the flow's
output and counts, which the generated test and README repeat.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from textwrap import dedent
from typing import Final

from torvyn.cli.templates import c_components


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


LANGUAGES: Final = ("python", "c")


def files_of(template: Template, name: str, language: str | None = None) -> dict[str, str]:
    """The path and text of every file. With a language, the components run in the sandbox."""
    manifest = _manifest(template, name, language) + (_grants(template) if language else "")
    files = {"Torvyn.toml": manifest, "README.md": _readme(template, name, language)}
    for component, text in template.components.items():
        if language == "c":
            files[f"components/{component}/component.c"] = c_components.COMPONENTS[component]
        else:
            files[f"components/{component}/component.py"] = text
    if language:
        files[".gitignore"] = "build/\n"
    files["tests/test_flow.py"] = _test(template)
    return files


def _grants(template: Template) -> str:
    printing = [name for name in template.components if name in c_components.PRINTING]
    grant = 'capabilities = ["stdio:stdout"]'
    return "".join(f"\n[security.grants.{name}]\n{grant}\n" for name in printing)


def _manifest(template: Template, name: str, language: str | None) -> str:
    parts = [f'[torvyn]\nname = "{name}"\nversion = "0.1.0"\ncontract_version = "0.1.0"\n']
    isolation = 'isolation = "wasm"\n' if language == "python" else ""
    for component in template.components:
        keys = f'name = "{component}"\npath = "components/{component}"\n{isolation}'
        parts.append(f"[[component]]\n{keys}")
    parts.append(f'[flow.main]\ndescription = "A flow with {template.summary}"\n')
    parts += [f"[flow.main.nodes.{node}]\n{keys}\n" for node, keys in template.nodes.items()]
    parts += [f'[[flow.main.edges]]\nfrom = "{a}"\nto = "{b}"\n' for a, b in template.edges]
    return "\n".join(parts)


def _test(template: Template) -> str:
    return (
        '"""Runs the whole flow and checks its output and its counts."""\n\n'
        "from pathlib import Path\n\nimport pytest\nimport torvyn\n\n"
        "PROJECT = Path(__file__).parents[1]\n\n\n"
        "def test_the_flow_prints_the_expected_output(\n"
        "    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch\n"
        ") -> None:\n"
        "    monkeypatch.chdir(tmp_path)\n"
        '    statistics = torvyn.load(PROJECT).flow("main").run()\n\n'
        f"    assert capsys.readouterr().out == {_quote(template.output)}\n"
        f"    assert statistics.produced == {template.produced}\n"
        "    assert statistics.live == 0\n"
    )


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


_BUILD: Final = "    torvyn build     # compile the components: pip install 'torvyn[{extra}]'\n"
_EXTRAS: Final = {"c": "c", "python": "python-guest"}


def _readme(template: Template, name: str, language: str | None) -> str:
    nodes = "\n".join(f"- `{component}`" for component in template.components)
    return (
        f"# {name}\n\nA Torvyn project: a flow with {template.summary}.\n\n"
        f"{_BUILD.format(extra=_EXTRAS[language]) if language else ''}"
        "    torvyn check     # check the manifest\n"
        "    torvyn run       # run the flow\n"
        "    python -m pytest # run the test\n\n"
        f"`Torvyn.toml` describes the flow. Its components are in `components/`:\n\n{nodes}\n\n"
        f"`torvyn run -q` prints:\n\n{_indent(template.output)}"
    )


def _indent(text: str) -> str:
    return "".join(f"    {line}" for line in text.splitlines(keepends=True))
