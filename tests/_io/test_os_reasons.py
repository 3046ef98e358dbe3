"""Why a call failed, in the words of the operating system, whichever library raised the error."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from pathlib import Path

import pytest

from torvyn.errors import os_reason


def failure_of(call: object, *arguments: object) -> Exception:
    with pytest.raises((OSError, TimeoutError)) as caught:
        call(*arguments)
    return caught.value


def unused_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    assert os_reason(failure_of(open, tmp_path / "none")) == "no such file or directory"


def test_asyncio_names_the_call_and_its_number_the_reason() -> None:
    error = failure_of(asyncio.run, asyncio.open_connection("127.0.0.1", unused_port()))

    assert "Connect call failed" in str(error)
    assert os_reason(error) == "connection refused"


def test_aiohttp_keeps_the_error_of_the_system_in_its_own() -> None:
    aiohttp = pytest.importorskip("aiohttp")

    async def get() -> None:
        async with aiohttp.ClientSession() as session:
            await session.get(f"http://127.0.0.1:{unused_port()}/")

    assert os_reason(failure_of(asyncio.run, get())) == "connection refused"


def test_a_name_that_is_not_known_has_a_text_of_its_own() -> None:
    error = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    same_number_as_of_the_system = socket.gaierror(errno.ENOEXEC, "nodename nor servname provided")

    assert os_reason(error) == "name or service not known"
    assert os_reason(same_number_as_of_the_system) == "nodename nor servname provided"


def test_an_error_of_tls_has_a_number_that_is_not_the_systems() -> None:
    untrusted = ssl.SSLCertVerificationError(1, "certificate verify failed")
    untrusted.verify_message = "self-signed certificate"

    assert os_reason(untrusted) == "certificate verify failed: self-signed certificate"
    assert os_reason(ssl.SSLError(1, "wrong version")) == "TLS: wrong version"


def test_an_error_without_text() -> None:
    assert os_reason(TimeoutError()) == "it did not answer in time"
    assert os_reason(ValueError()) == "valueerror"
    assert os_reason(OSError("Connection lost")) == "connection lost"
