"""The special tokens of Mistral's tekken.json, by version."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
import tokenizer_files as made
from real_tokenizers import mistral

from torvyn.errors import TextError
from torvyn.text import TextStreamer, Vocabulary

COUNT = 24


def specials(path: Path, **file: Any) -> list[bytes | None]:
    vocabulary = Vocabulary.load(made.tekken(path / "tekken.json", [b"a"], specials=COUNT, **file))
    assert all(vocabulary.is_special(id) for id in range(COUNT))
    return [vocabulary[id] for id in range(COUNT)]


@pytest.mark.parametrize("version", [None, "v3", "v7"])
def test_a_file_that_names_none_has_the_names_of_its_time(
    tmp_path: Path, version: str | None
) -> None:
    found = specials(tmp_path, version=version)

    assert found[:4] == [b"<unk>", b"<s>", b"</s>", b"[INST]"]
    assert (found[11], found[19], found[20]) == (b"<pad>", b"[TOOL_CONTENT]", b"<SPECIAL_20>")


def test_a_later_file_that_names_none_has_numbers(tmp_path: Path) -> None:
    assert specials(tmp_path, version="v11")[:2] == [b"<SPECIAL_0>", b"<SPECIAL_1>"]


def test_the_names_of_a_file_hold_by_their_rank(tmp_path: Path) -> None:
    names = [
        {"rank": 1, "token_str": "<s>", "is_control": True},
        {"rank": 0, "token_str": "<unk>", "is_control": True},
        {"rank": 3, "token_str": "[THINK]", "is_control": False},
    ]

    found = specials(tmp_path, version="v13", names=names)

    assert found[:5] == [b"<unk>", b"<s>", b"<SPECIAL_2>", b"[THINK]", b"<SPECIAL_4>"]


@pytest.mark.parametrize(
    "names",
    [
        [{"rank": 1}],
        [{"rank": 1, "token_str": None}],
        [{"rank": COUNT, "token_str": "x"}],
        [{"rank": 1, "token_str": "\ud800"}],
        ["<s>"],
        {"<s>": 1},
    ],
    ids=["no name", "null", "beyond", "half", "text", "table"],
)
def test_names_that_are_none_are_refused(tmp_path: Path, names: Any) -> None:
    with pytest.raises(TextError) as caught:
        specials(tmp_path, version="v11", names=names)
    assert caught.value.code == "text.vocabulary-invalid"


def names_of_the_library() -> list[str]:
    """Those that `mistral_common` gives such files, read from its source: importing it needs more
    packages than its files do."""
    folder = mistral("tekken_240911.json").parents[1] / "tokens" / "tokenizers"
    base, tekken = (ast.parse((folder / name).read_text()) for name in ("base.py", "tekken.py"))
    names = {
        target.id: node.value.value
        for node in ast.walk(base)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    (table,) = [
        node.value
        for node in ast.walk(tekken)
        if isinstance(node, ast.Assign) and "DEPRECATED_SPECIAL_TOKENS" in ast.dump(node.targets[0])
    ]
    entries = {ast.literal_eval(rank): names[name.attr] for rank, name in map(_entry, table.elts)}
    return [entries[rank] for rank in range(len(entries))]


def _entry(call: Any) -> tuple[Any, Any]:
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    return given["rank"], given["token_str"]


@pytest.mark.parametrize("name", ["tekken_240718.json", "tekken_240911.json"])
def test_names_are_those_of_mistrals_own_tokenizer(name: str) -> None:
    shown = TextStreamer(Vocabulary.load(mistral(name)), skip_special=False)
    known = names_of_the_library()

    assert len(known) == 20
    assert [shown.put(id) for id in range(20)] == known
    assert shown.put(999) == "<SPECIAL_999>"
