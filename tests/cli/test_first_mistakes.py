"""The law of mistakes: a manifest with one wrong line gets the same answer from every command.

Each example and each template of `torvyn init`, with every line deleted, doubled, misspelt,
emptied or retyped, goes through `check`, `link`, `run --check` and `serve --check`. A seeded
sample runs always, all of them with `--full`.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from manifest_mutants import Mutant, mutants_of
from scale import sample

from torvyn._cli import app
from torvyn._cli.templates.project_files import LANGUAGES, files_of
from torvyn._cli.templates.project_template import TEMPLATES
from torvyn._manifest.parse import parse_leniently
from torvyn._manifest.problems import Problems
from torvyn._manifest.records import Manifest

EXAMPLES = Path(__file__).parents[2] / "examples"
MANIFESTS = sorted(path.parent for path in EXAMPLES.glob("**/Torvyn.toml"))
MUTANTS = 8
"""The mutants of each project that are tried without `--full`."""

NOWHERE = "nowhere"

Problem = tuple[str, str, str]
"""Code, message and location."""


class Answer(NamedTuple):
    code: int
    problems: frozenset[Problem]
    """The errors."""
    text: str


def answer(*arguments: str) -> Answer:
    """The answer of a command, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = app.run([*arguments, "--format", "json"])
    text = out.getvalue() + err.getvalue()
    found = [item for document in documents(text) for item in document.get("problems", ())]
    errors = (item for item in found if item["severity"] == "error")
    return Answer(code, frozenset(map(problem, errors)), text)


def documents(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in a text, one after the other."""
    decoder, at = json.JSONDecoder(), text.find("{")
    while at >= 0:
        document, at = decoder.raw_decode(text, at)
        yield document
        at = text.find("{", at)


def problem(item: dict[str, Any]) -> Problem:
    place = item.get("location", {})
    return (item["code"], item["message"], f"{place.get('file', NOWHERE)}:{place.get('line', 0)}")


def answers(manifest: Manifest) -> dict[str, Answer]:
    """The answers of all commands for the manifest in this folder, by command."""
    found = {"check": answer("check"), "serve": answer("serve", "--check")}
    for name in manifest.flows or ("main",):
        found[f"link {name}"] = answer("link", f"flow.{name}")
        found[f"run {name}"] = answer("run", f"flow.{name}", "--check")
    return found


def complaint(manifest: Manifest, base: dict[str, Answer]) -> str | None:
    """What is wrong with the answers, or None."""
    found = answers(manifest)
    for command, got in found.items():
        is_missing = got.code == 3 and command in base and base[command].code == 3
        if got.code not in (0, 2) and not is_missing:
            return f"{command}: exit code {got.code}: {got.text}"
        if not is_missing and any(place.startswith(NOWHERE) for _, _, place in got.problems):
            return f"{command}: a problem without a position: {got.text}"
    if any(got.code == 3 for command, got in found.items() if command != "serve"):
        return None  # what is missing hides the rest
    linked = [got.problems for command, got in found.items() if command.startswith("link ")]
    named = {item for item in frozenset().union(*linked) if item[0] not in OF_ARGUMENTS}
    checked = {item for item in found["check"].problems if not is_of_check(item, manifest)}
    if named != checked:
        return f"check and link differ in {named ^ checked}"
    served = found["serve"].problems
    # A problem of a flow that is not served is only a warning there.
    unsaid = checked - served if len(manifest.flows) == 1 and not manifest.serve.routes else ()
    if (checked and not served) or (unsaid and base["serve"].code != 3):
        return f"serve finds {served}, check finds {checked}"
    return None


OF_ARGUMENTS = ("link.flow-unknown", "link.flow-ambiguous")
"""Problems of what the command line names, when the mistake is in the name of the flow."""


def is_of_check(item: Problem, manifest: Manifest) -> bool:
    """Whether a problem is about a component that no flow uses, which only `check` loads, or about
    a name that the command line may have got wrong as well."""
    used = {node.component for flow in manifest.flows.values() for node in flow.nodes.values()}
    names = {component.name for component in manifest.components} - used
    is_unused = any(f"component `{name}`" in item[1] for name in names)
    return is_unused or item[0] in OF_ARGUMENTS


def read(text: str) -> Manifest:
    return parse_leniently(text, Problems())


def write_example(folder: Path, name: str) -> None:
    ignored = shutil.ignore_patterns("build", ".torvyn", "__pycache__", "target")
    shutil.copytree(EXAMPLES / name, folder, ignore=ignored)


def write_template(folder: Path, name: str) -> None:
    template, _, language = name.partition(" in ")
    for file, text in files_of(TEMPLATES[template], "mine", language or None).items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)


EVERY_EXAMPLE = [str(folder.relative_to(EXAMPLES)) for folder in MANIFESTS]
EVERY_TEMPLATE = [*TEMPLATES, *(f"pipeline in {language}" for language in LANGUAGES)]
PROJECTS = [
    *(pytest.param(write_example, name, id=name) for name in EVERY_EXAMPLE),
    *(pytest.param(write_template, name, id=f"init {name}") for name in EVERY_TEMPLATE),
]


def chosen(mutants: list[Mutant], seed: str) -> list[Mutant]:
    """All mutants with `--full`, else a seeded sample."""
    count = min(sample(MUTANTS, full=len(mutants)), len(mutants))
    return random.Random(seed).sample(mutants, count)


@pytest.fixture
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """None that Torvyn reads as settings."""
    for name in [name for name in os.environ if name.startswith("TORVYN_")]:
        monkeypatch.delenv(name)


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("no_variables")
@pytest.mark.parametrize(("write", "name"), PROJECTS)
def test_one_wrong_line_gets_the_same_answer_from_every_command(
    write: Callable[[Path, str], None],
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "project"
    write(folder, name)
    monkeypatch.chdir(folder)
    manifest = Path("Torvyn.toml")
    base = answers(read(manifest.read_text()))
    complaints = {}
    for mutant in chosen([*mutants_of(manifest.read_text())], name):
        manifest.write_text(mutant.text)
        complaints[str(mutant)] = complaint(read(mutant.text), base)
    assert not {mutant: text for mutant, text in complaints.items() if text}


@pytest.mark.promise("tokens.mistakes")
def test_a_misspelt_key_is_one_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_template(tmp_path, "pipeline")
    monkeypatch.chdir(tmp_path)
    manifest = Path("Torvyn.toml")
    manifest.write_text(manifest.read_text().replace("component = ", "compnent = ", 1))

    (only,) = answer("check").problems

    assert only[:2] == (
        "manifest.unknown-key",
        "unknown key `compnent` in `[flow.main.nodes.source]`",
    )


@pytest.mark.promise("tokens.mistakes")
@pytest.mark.parametrize(
    ("file", "right", "wrong", "hint"),
    [
        ("Torvyn.toml", '"components/pairs"', '"components/pears"', "mean `components/pairs`?"),
        ("Torvyn.toml", '"pairs"\n\n', "pairs\n\n", "write texts in quotes"),
        ("components/pairs/component.py", "def ingest", "def injest", "to `ingest`"),
        ("components/pairs/component.py", "def ingest", "def other", "write `def ingest(self, el"),
    ],
)
def test_a_mistake_in_a_new_project_gets_a_hint(
    file: str, right: str, wrong: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_template(tmp_path, "pipeline")
    monkeypatch.chdir(tmp_path)
    Path(file).write_text(Path(file).read_text().replace(right, wrong))

    got = answer("check")

    assert (got.code, hint in got.text) == (2, True), got.text


@pytest.mark.usefixtures("no_variables")
@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ('compnent = "content-filter"', "did you mean `component`?"),
        ('component = "content-fitler"', "did you mean `content-filter`?"),
        ('component = ""', "write the name of a declared, built-in or installed component"),
    ],
)
def test_a_mistake_in_a_node_gets_a_hint(
    wrong: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_example(tmp_path / "project", "token-streaming")
    monkeypatch.chdir(tmp_path / "project")
    manifest = Path("Torvyn.toml")
    manifest.write_text(manifest.read_text().replace('component = "content-filter"', wrong))
    for command in ("check", "link", "run"):
        got = answer(command)
        assert (got.code, hint in got.text) == (2, True)
