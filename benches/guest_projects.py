"""Projects with C and Python guests for `sandbox_guests`: writes, builds and runs them."""

from __future__ import annotations

import shutil
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
ELEMENTS = 100_000
PYTHON_ELEMENTS = 20_000
TOKENS = 20
HEAD = '[torvyn]\nname = "x"\nversion = "0.1.0"\ncontract_version = "0.1.0"\n'

# Sends "hello world" as many times as its config says, then ends, or waits if that has a `?`.
SOURCE = """
#define TORVYN_POLLED_SOURCE
#include <torvyn.h>
static uint64_t left;
static bool waits;
static const char *const words[] = {WORDS};
static unsigned at;
void torvyn_init(torvyn_bytes config) {
    for (size_t i = 0; i < config.size; i++) {
        if (config.data[i] == '?') waits = true;
        else left = left * 10 + (uint64_t)(config.data[i] - '0');
    }
}
torvyn_polled torvyn_poll(void) {
    if (left == 0) return waits ? TORVYN_PENDING : TORVYN_END;
    left--;
    const char *word = words[at++ % (sizeof words / sizeof *words)];
    size_t size = 0;
    while (word[size]) size++;
    torvyn_emit(word, size);
    return TORVYN_ELEMENT;
}
"""
HELLO = '"hello world"'
# The tokens of the example: three sentences, one with the blocked word.
TOKEN_WORDS = ", ".join(
    f'"{word}"'
    for word in (
        *("The", " quick", " brown", " fox", " jumped", " over", " the", " lazy", " dog", "."),
        *(" The", " blocked_word", " was", " filtered", "."),
        *(" Torvyn", " handles", " streaming", " tokens", "."),
    )
)
PROCESSOR = """
#define TORVYN_PROCESSOR
#include <torvyn.h>
void torvyn_process(const torvyn_element *element) {
    torvyn_bytes text = torvyn_read(element);
    torvyn_emit(text.data, text.size);
}
"""
SINK = """
#define TORVYN_SINK
#include <torvyn.h>
static uint64_t bytes;
torvyn_signal torvyn_push(const torvyn_element *element) {
    bytes += torvyn_read(element).size;
    return TORVYN_READY;
}
"""
PYTHON = """
import torvyn

class Same(torvyn.Processor):
    def process(self, element):
        return element.text
"""


PYTHON_BATCH = """
import torvyn

class Same(torvyn.Processor):
    def process_batch(self, elements):
        return elements.texts
"""


def make_python(folder: Path, name: str) -> None:
    """Writes and builds a project with a Python guest; the project `two` has none."""
    chain = ("source", "sink") if name == "two" else ("source", name, "sink")
    text = _manifest(chain, str(PYTHON_ELEMENTS))
    path = f'path = "../components/{name}"\n'
    text = text.replace(path, path + 'isolation = "wasm"\n')
    if name != "two":
        source = PYTHON_BATCH if name == "python-batch" else PYTHON
        _write(folder / "components" / name / "component.py", source)
    _write(folder / name / "Torvyn.toml", text)
    build(folder / name)


def make(folder: Path) -> Path:
    """Writes all projects and builds those in C."""
    components = folder / "components"
    texts = {"source": SOURCE.replace("WORDS", HELLO), "processor": PROCESSOR, "sink": SINK}
    texts["tokens"] = SOURCE.replace("WORDS", TOKEN_WORDS)
    for name, text in texts.items():
        _write(components / name / "component.c", text)
    _write(components / "python" / "component.py", PYTHON)
    for name in ("content-filter", "sentence-aggregator"):
        shutil.copytree(EXAMPLES / "token-streaming-c" / "components" / name, components / name)
    chains = {
        "three": ("source", "processor", "sink"),
        "filtered": ("source", "content-filter", "processor", "sink"),
        "tokens": ("tokens", "content-filter", "sentence-aggregator", "sink"),
    }
    for name, chain in chains.items():
        _write(folder / name / "Torvyn.toml", _manifest(chain))
        build(folder / name)
    for language, example in (("c", "token-streaming-c"), ("python", "token-streaming-wasm")):
        skipped = shutil.ignore_patterns("build", "__pycache__")
        shutil.copytree(EXAMPLES / example, folder / f"example-{language}", ignore=skipped)
    return folder


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def _manifest(chain: tuple[str, ...], count: str = str(ELEMENTS)) -> str:
    text = HEAD
    for name in chain:
        text += f'[[component]]\nname = "{name}"\npath = "../components/{name}"\n'
    for name in chain:
        text += f'[flow.main.nodes.{name}]\ncomponent = "{name}"\n'
        text += f'config = "{count}"\n' if name == chain[0] else ""
        text += 'config = "blocked_word"\n' if name == "content-filter" else ""
    for source, target in pairwise(chain):
        text += f'[[flow.main.edges]]\nfrom = "{source}"\nto = "{target}"\n'
    return text


def build(project: Path) -> None:
    from click.testing import CliRunner

    from torvyn._cli.app import group

    manifest = str(project / "Torvyn.toml")
    done = CliRunner().invoke(group, ["build", "--manifest", manifest], standalone_mode=False)
    assert done.return_value == 0, done.output


def run(project: Path, elements: int = ELEMENTS) -> tuple[float, float]:
    """Microseconds and copies per element of the source."""
    import torvyn

    flow = torvyn.load(project).flow("main")
    start = time.perf_counter()
    flow.run()
    spent_s = time.perf_counter() - start
    assert flow.statistics.produced == elements
    assert flow.statistics.nodes["sink"].received > 0
    return spent_s / elements * 1e6, flow.statistics.copies / elements


def instantiate(projects: Path, language: str, times: int) -> list[float]:
    """Milliseconds of each start of a guest, with compiled and loaded code."""
    from torvyn._sandbox.build import build as build_guest
    from torvyn._sandbox.component import guest_class
    from torvyn._sandbox.project import GuestProject

    folder = projects / "components" / ("processor" if language == "c" else "python")
    cls = guest_class(build_guest(GuestProject(folder.name, folder, language)).path, folder.name)
    samples = []
    for number in range(-1, times):
        guest = cls()
        start = time.perf_counter()
        guest.init("")
        samples += [(time.perf_counter() - start) * 1e3] if number >= 0 else []
        guest.teardown()
    return samples


def start_idle(project: Path, count: int) -> list[Any]:
    """Starts `count` flows, each of which has processed one element and waits."""
    import torvyn

    manifest = project / "Torvyn.toml"
    chain = ("tokens", "content-filter", "sentence-aggregator", "sink")
    waiting = project.parent / "waiting" / "Torvyn.toml"
    _write(waiting, _manifest(chain, "1?"))
    assert manifest.is_file()
    loaded = torvyn.load(waiting)
    flows = [loaded.flow("main").start() for _ in range(count)]
    deadline_s = time.monotonic() + 120
    while any(flow.statistics.nodes["sentence-aggregator"].received < 1 for flow in flows):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    return flows


def cancel(flows: list[Any]) -> None:
    for flow in flows:
        flow.cancel()
    assert all(flow.wait(60) for flow in flows)
