"""Registries with TLS: their certificates are verified, as those of other servers are."""

from __future__ import annotations

import datetime
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import trustme
from registry_servers import RegistryServer, require, running

EXAMPLE = Path(__file__).parents[3] / "examples" / "token-streaming"
NAME = "plant/gateway:1.0"
Start = Callable[..., RegistryServer]
Torvyn = Callable[..., tuple[int, str, str]]


@pytest.fixture
def authority(tmp_path: Path) -> Any:
    made = trustme.CA()
    made.cert_pem.write_to_path(tmp_path / "ca.pem")
    return made


@pytest.fixture(params=["docker-registry", "olareg"])
def start(request: pytest.FixtureRequest, authority: Any, tmp_path: Path) -> Iterator[Start]:
    """Starts the registry with a certificate of the authority."""
    require(request.param)
    file = tmp_path / "server.pem"
    with ExitStack() as stack:

        def start(*names: str, **options: Any) -> RegistryServer:
            issued = authority.issue_cert(*(names or ("127.0.0.1",)), **options)
            issued.private_key_and_cert_chain_pem.write_to_path(file)
            return stack.enter_context(running(request.param, tmp_path, certificate=file))

        yield start


@pytest.fixture
def torvyn(tmp_path: Path) -> Torvyn:
    """Runs a command in a project; a process reads the trusted authorities only once."""
    shutil.copytree(EXAMPLE, tmp_path / "project")

    def call(*arguments: str, trusted: str = "ca.pem") -> tuple[int, str, str]:
        environment = {**os.environ, "SSL_CERT_FILE": str(tmp_path / trusted), "SSL_CERT_DIR": ""}
        done = subprocess.run(
            [sys.executable, "-m", "torvyn", *arguments],
            cwd=tmp_path / "project",
            env=environment | {"XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    assert call("pack", "--tag", "1.0")[0] == 0
    return call


def test_a_project_travels_through_a_registry_with_a_trusted_certificate(
    start: Start, torvyn: Torvyn
) -> None:
    address = f"oci://{start().host}/{NAME}"

    code, _, err = torvyn("publish", "oci:dist:1.0", address)
    assert code == 0, err
    code, out, err = torvyn("run", address)

    assert code == 0, err
    assert out == torvyn("run")[1]


LONG_AGO = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("names", "options", "trusted", "reason"),
    [
        ((), {}, "nothing.pem", "unable to get local issuer certificate"),
        (("registry.example.com",), {}, "ca.pem", "certificate is not valid for '127.0.0.1'"),
        ((), {"not_after": LONG_AGO}, "ca.pem", "certificate has expired"),
    ],
    ids=["unknown authority", "another name", "expired"],
)
def test_a_certificate_that_is_not_trusted_is_refused(
    start: Start, torvyn: Torvyn, names: tuple[str], options: Any, trusted: str, reason: str
) -> None:
    host = start(*names, **options).host

    code, out, err = torvyn("pull", f"oci://{host}/{NAME}", trusted=trusted)

    assert (code, out) == (2, "")
    assert f"error[artifact.registry-untrusted]: the certificate of {host} is not trusted: " in err
    assert reason in err
    assert "SSL_CERT_FILE" in err
    assert len(err.splitlines()) < 6


def test_nothing_is_sent_to_a_registry_that_is_not_trusted(start: Start, torvyn: Torvyn) -> None:
    """Not even over plain HTTP, which registries of this machine may speak."""
    server = start()

    code, _, _ = torvyn("publish", "oci:dist:1.0", f"oci://{server.host}/{NAME}", trusted="no.pem")

    assert code == 2
    code, _, err = torvyn("pull", f"oci://{server.host}/{NAME}")
    assert (code, "error[artifact.not-found]" in err) == (3, True)
