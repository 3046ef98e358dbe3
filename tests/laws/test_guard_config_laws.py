"""Laws of the configs of guards: whatever slips into one, the guard is refused or it guards.

A guard that is accepted and lets everything pass, although nobody asked for that, fails open.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest

import torvyn
from torvyn.components import GUARDS, Blocklist, Pattern, Redact
from torvyn.errors import TorvynError

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
SPECS = {"blocklist": Blocklist.spec, "pattern": Pattern.spec, "redact": Redact.spec}
TOKENS = (
    "call", " ", "secret", ",", " ", "al@example.org", " ", "5", " true ", "[]{}", " , ", "null",
    '""', " SECRET ,call",
)  # fmt: skip
"""A text with whatever the configs below may name."""

SLIPS: tuple[Any, ...] = (
    None, "", " ", ",", " , ", "[]", "{}", "null", '""', '{"words": []}', '{"wrods": ["secret"]}',
    [], [""], [" "], [[]], {}, 5, True, "secret", ["secret"], " SECRET ,call",
)  # fmt: skip
VALUES: tuple[Any, ...] = (None, "", " ", ",", [], [""], [" "], {}, 5, True, "secret", ["secret"])


def configs(name: str) -> list[Any]:
    """The slips by themselves, and as the value of each option, in both modes."""
    spec = SPECS[name]
    tables = [
        {**mode, option: value}
        for option, value in itertools.product([each.name for each in spec.options], VALUES)
        for mode in ({}, {"mode": "stream"}, {spec.main or "": "call"})
    ]
    return [*SLIPS, *tables]


def left(component: str, config: Any) -> list[str] | None:
    """What passes a guard; None if it is refused."""
    try:
        flow = torvyn.Flow().add("source", torvyn.source(TOKENS))
        flow.add("guard", component, config=config).connect("source", "guard")
        return [element.text for element in flow]
    except TorvynError:
        return None


@pytest.mark.promise("tokens.built-ins")
@pytest.mark.parametrize("name", sorted(GUARDS))
def test_a_built_in_guard_is_refused_or_guards(name: str) -> None:
    outcomes = [(config, left(name, config)) for config in configs(name)]

    open_ones = [
        config
        for config, passed in outcomes
        if passed is not None and "".join(passed) == "".join(TOKENS) and not is_asked_for(config)
    ]
    assert set(SPECS) == GUARDS
    assert open_ones == []
    assert any(passed is None for _, passed in outcomes)


def is_asked_for(config: Any) -> bool:
    """Whether the config names something else to guard, or says that nothing is guarded."""
    if not isinstance(config, dict):
        return False
    names_other = config.get("kinds") not in (None, [], "") or config.get("policy") == "shadow"
    return bool(names_other or config.get("allow_empty"))


@pytest.mark.parametrize("name", sorted(GUARDS))
def test_a_guard_that_guards_nothing_must_be_asked_for(name: str) -> None:
    spec = SPECS[name]
    assert spec.main is not None
    for mode in ({}, {"mode": "stream"}) if name == "blocklist" else ({},):
        assert left(name, {**mode, spec.main: []}) is None
    if name == "blocklist":
        assert left(name, {"words": [], "allow_empty": True}) == [*TOKENS]


FILTER_SOURCE = re.compile(r"torvyn\.Filter\b|#define TORVYN_(FILTER|GUARD)\b|filter::Guest")


def example_filters() -> list[str]:
    """The filters that examples are written with, in any language."""
    files = [
        path for end in ("py", "c", "rs") for path in EXAMPLES.glob(f"*/components/**/*.{end}")
    ]
    found = [path for path in files if FILTER_SOURCE.search(path.read_text(encoding="utf-8"))]
    return sorted(str(path.relative_to(EXAMPLES)) for path in found)


def test_every_filter_of_an_example_is_under_this_law() -> None:
    """That in the process below; those of the sandbox in `test_sandboxed_examples.py`."""
    in_python = [
        f"token-streaming{form}/components/content-filter/component.py"
        for form in ("-mixed", "-wasm", "")
    ]
    others = [
        "token-streaming-c/components/content-filter/component.c",
        "token-streaming-rust/components/content-filter/src/lib.rs",
    ]
    assert example_filters() == sorted([*in_python, *others])
    assert len({(EXAMPLES / name).read_bytes() for name in in_python}) == 1


NAMED = ("fox", " FOX ,dog", '{"words": "fox"}', '{"words": ["FOX "]}', '{"words": ["", "fox"]}')
EMPTY = ("", " ", ",", " , ,", '{"words": ""}', '{"words": []}', '{"words": [""]}')
WRONG = ("{}", '{"words": 5}', '{"words": null}', '{"words": [5]}', '{"wrods": ["fox"]}')


@pytest.mark.promise("tokens.default-block-list", "tokens.config-table")
@pytest.mark.parametrize("config", [*NAMED, *EMPTY, *WRONG])
def test_the_filter_of_token_streaming_is_refused_or_filters(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    project = torvyn.load(EXAMPLES / "token-streaming" / "Torvyn.toml")
    if config in WRONG:
        with pytest.raises(TorvynError):
            project.flow("main", config={"filter": config}).run()
        return

    project.flow("main", config={"filter": config}).run()

    printed = capsys.readouterr().out
    assert ("fox" in printed) is (config in EMPTY)
    assert ("blocked_word" in printed) is (config in NAMED)
