"""The complaints a person reads, to the letter."""

from __future__ import annotations

from textwrap import dedent

import pytest

from torvyn._manifest.parse import parse
from torvyn.errors import ManifestError

WRONG = """\
[torvyn]
nme = "x"
version = 3
contract_version = "0.1.0"

[[component]]
name = "a"
path = "a"
language = "zig"

[flow.main]
priorty = "high"
deadline = 5
queue_bytes = "64MB"

[flow.main.nodes.x]
component = "${NOPE}"
run = "ascync"

[[flow.main.edges]]
from = "x:"
to = "y"
"""

EXPECTED = """\
error[manifest.unknown-key]: unknown key `nme` in `[torvyn]`
  at flows/Torvyn.toml:2:1, torvyn.nme

hint: did you mean `name`?

error[manifest.wrong-type]: `version` is an integer, not a string
  at flows/Torvyn.toml:3:11, torvyn.version

error[manifest.unsupported]: `language = "zig"` is not supported by this build
  at flows/Torvyn.toml:9:12, component[0].language

hint: this build supports `python`, `c`, `rust` and `wasm`

error[manifest.unknown-key]: unknown key `priorty` in `[flow.main]`
  at flows/Torvyn.toml:12:1, flow.main.priorty

hint: did you mean `priority`?

error[manifest.wrong-type]: `deadline` is an integer, not a duration
  at flows/Torvyn.toml:13:12, flow.main.deadline

hint: write `deadline = "5s"`

error[manifest.bad-size]: `64MB` is not a size
  at flows/Torvyn.toml:14:15, flow.main.queue_bytes

hint: "MB" is not a unit of size; the units are B, KiB, MiB, GiB; did you mean "64MiB"?

error[manifest.variable-undefined]: the environment variable `NOPE` is not set
  at flows/Torvyn.toml:17:13, flow.main.nodes.x.component

hint: set it: export NOPE=...

error[manifest.bad-value]: `ascync` is not a value of `run`
  at flows/Torvyn.toml:18:7, flow.main.nodes.x.run

hint: did you mean `async`?

error[manifest.bad-value]: `x:` is not a node or a node's port
  at flows/Torvyn.toml:21:8, flow.main.edges[0].from

hint: write `"node"` or `"node:port"`"""


def complaint(text: str, **environ: str) -> str:
    with pytest.raises(ManifestError) as caught:
        parse(text, "Torvyn.toml", environ=environ)
    return caught.value.render()


def test_all_problems_of_a_file_are_told_in_one_run() -> None:
    with pytest.raises(ManifestError) as caught:
        parse(WRONG, "flows/Torvyn.toml", environ={})

    assert caught.value.render() == EXPECTED
    assert caught.value.exit_code == 2


@pytest.mark.promise("tokens.mistakes")
def test_text_that_is_not_toml_is_shown_by_line_and_column() -> None:
    assert complaint('[torvyn]\nname = "x" "y"\n') == dedent("""\
        error[manifest.syntax]: invalid TOML: unexpected key or value
          at Torvyn.toml:2:12

        hint: expected newline, `#`""")


def test_columns_count_characters_and_not_bytes() -> None:
    assert "Torvyn.toml:2:12" in complaint('[torvyn]\nname = "é" "y"\n')


def test_windows_line_ends_do_not_shift_places() -> None:
    assert "Torvyn.toml:2:1, torvyn.nme" in complaint('[torvyn]\r\nnme = "x"\r\n')


def test_a_byte_order_mark_does_not_shift_places() -> None:
    assert "Torvyn.toml:1:2" in complaint("\ufeff[]\n")


def test_a_value_from_the_environment_is_never_shown() -> None:
    text = complaint('[torvyn]\nversion = "${SECRET}"\n', SECRET="hunter2")

    assert "hunter2" not in text
    assert "`[redacted]` is not a version" in text


def test_a_duplicate_key_is_a_syntax_error_at_the_second() -> None:
    assert complaint('[torvyn]\nname = "a"\nname = "b"\n') == dedent("""\
        error[manifest.syntax]: invalid TOML: duplicate key
          at Torvyn.toml:3:1

        hint: write every key and every table header only once""")
