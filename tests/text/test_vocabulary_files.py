"""Invalid, damaged or hostile tokenizer files: each raises an error with code and location."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import tokenizer_files as made

from torvyn.errors import TorvynError
from torvyn.text import Vocabulary

GOOD = {"model": {"vocab": {"a": 0}}, "decoder": {"type": "ByteLevel"}}


def load_error(path: Path) -> TorvynError:
    with pytest.raises(TorvynError) as caught:
        Vocabulary.load(path)
    assert caught.value.location is not None
    assert caught.value.location.file == str(path)
    return caught.value


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": None}, "no `model.vocab`"),
        ({"model": {"vocab": {}}}, "it has no tokens"),
        ({"model": {"vocab": {"a": "b"}}}, "the id of 'a' is 'b'"),
        ({"model": {"vocab": {"a": True}}}, "the id of 'a' is True"),
        ({"model": {"vocab": {"a": -1}}}, "is negative"),
        ({"model": {"vocab": {"\ud800": 1}}}, "is not valid text"),
        ({"model": {"vocab": [["a", 0], 5]}}, "piece 1 has no text"),
        ({"model": {"vocab": {"a": 4_000_000_000}}}, "the id 4000000000 is not below"),
        ({"added_tokens": 5}, "is not a list"),
        ({"added_tokens": [{"id": 1}]}, "no id or no content"),
        ({"decoder": "ByteLevel"}, "`decoder` is not an object"),
        ({"decoder": {"type": "CTC"}}, "the decoder 'CTC' needs more than one token"),
        ({"decoder": {"type": "Replace", "pattern": {"Regex": "a"}, "content": ""}}, "regular"),
        ({"decoder": {"type": "Replace"}}, "'pattern' of the decoder Replace is missing"),
        ({"decoder": {"type": "Sequence", "decoders": [5]}}, "is not an object"),
    ],
)
def test_a_bad_tokenizer_json_says_what_is_wrong(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(GOOD | change))

    assert words in load_error(file).message


def test_steps_after_the_tokens_are_joined_are_refused(tmp_path: Path) -> None:
    steps = [{"type": "Fuse"}, {"type": "ByteFallback"}]
    decoder = {"type": "Sequence", "decoders": steps}
    file = made.tokenizer_json(tmp_path / "tokenizer.json", ["a"], decoder)

    assert load_error(file).code == "text.vocabulary-unsupported"


@pytest.mark.parametrize("data", [b"{", b"{}", b"[" * 100_000, b'{"a":' * 50_000, b"", b"\xff" * 9])
def test_what_is_no_tokenizer_is_invalid(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "some.file"
    file.write_bytes(data)

    assert load_error(file).code == "text.vocabulary-invalid"


def test_every_cut_of_a_gguf_file_is_refused(tmp_path: Path) -> None:
    whole = made.gguf(tmp_path / "whole.gguf", "gpt2", [("a", 1), ("b", 1)]).read_bytes()
    file = tmp_path / "cut.gguf"
    for end in range(len(whole)):
        file.write_bytes(whole[:end])
        assert load_error(file).code == "text.vocabulary-invalid"


def test_a_gguf_file_that_claims_too_much_is_refused(tmp_path: Path) -> None:
    file = made.gguf(tmp_path / "a.gguf", "gpt2", [("a", 1)])
    whole = file.read_bytes()
    at = whole.index(b"tokenizer.ggml.tokens") + len(b"tokenizer.ggml.tokens") + 8
    file.write_bytes(whole[:at] + b"\xff" * 8 + whole[at + 8 :])

    assert load_error(file).code == "text.vocabulary-too-large"


def test_other_tokenizers_of_gguf_are_named(tmp_path: Path) -> None:
    file = made.gguf(tmp_path / "a.gguf", "bert", [("a", 1)])

    assert "'bert'" in load_error(file).message


def test_a_model_that_puts_spaces_behind_words_is_unsupported(tmp_path: Path) -> None:
    file = made.sentencepiece(tmp_path / "a.model", [("a▁", 1)], suffix=True)

    assert "treat_whitespace_as_suffix" in load_error(file).message


def test_a_byte_that_is_none_is_invalid(tmp_path: Path) -> None:
    file = made.sentencepiece(tmp_path / "a.model", [("<0xZZ>", 6)])

    assert "has the type byte" in load_error(file).message


@pytest.mark.parametrize("line", [b"YQ==", b"YQ== x", b"?? 0", b"YQ== 99999999999"])
def test_a_bad_line_of_a_tiktoken_file_is_named(tmp_path: Path, line: bytes) -> None:
    file = tmp_path / "a.tiktoken"
    file.write_bytes(b"Yg== 1\n" + line + b"\n")

    assert "line 2" in load_error(file).message


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_is_unreadable(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text("{}")
    file.chmod(0)

    assert load_error(file).code == "text.vocabulary-unreadable"


def test_a_folder_without_a_tokenizer_is_missing(tmp_path: Path) -> None:
    assert load_error(tmp_path).code == "text.vocabulary-missing"
    assert load_error(tmp_path / "absent.json").exit_code == 3


def test_a_format_and_special_tokens_have_to_fit_the_file(tmp_path: Path) -> None:
    file = made.tokenizer_json(tmp_path / "tokenizer.json", ["a"], None)
    with pytest.raises(ValueError, match="special_tokens is only for tiktoken files"):
        Vocabulary.load(file, special_tokens={"<end>": 1})
    with pytest.raises(ValueError, match="format must be one of"):
        Vocabulary.load(file, format="onnx")  # type: ignore[arg-type]
    with pytest.raises(TorvynError, match="not a valid tokenizer"):
        Vocabulary.load(file, format="gguf")
