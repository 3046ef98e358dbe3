"""TLS: both versions of HTTP, the same answers, and errors for files that do not match."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import sys
from pathlib import Path

import httpx
import missing
import pytest
from certificates import Files
from live_server import served
from websocket_client import START, speaking, text_of

from torvyn.engine import Scripted
from torvyn.errors import TorvynError
from torvyn.serve import ServerSettings
from torvyn.transport.listener import tls


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("tls"))


@pytest.mark.parametrize("is_new", [False, True], ids=["HTTP/1.1", "HTTP/2"])
def test_streams_are_served_over_tls(files: Files, is_new: bool) -> None:
    context = ssl.create_default_context(cafile=files.trusted)
    with (
        served(Scripted("one two three"), **files.settings) as server,
        httpx.Client(verify=context, http2=is_new) as client,
    ):
        answer = client.post(f"{server.url}/v1/streams", json={"prompt": "Hi"})

    assert server.url.startswith("https://127.0.0.1:")
    assert answer.http_version == ("HTTP/2" if is_new else "HTTP/1.1")
    assert answer.text.count('"delta"') >= 1
    assert '"end"' in answer.text


def test_a_websocket_is_served_over_tls(files: Files) -> None:
    context = ssl.create_default_context(cafile=files.trusted)
    with (
        served(Scripted("one two three"), **files.settings) as server,
        speaking(server.url, ssl=context) as client,
    ):
        client.say(START)
        assert text_of(client.hear_until("end")) == "one two three"


@missing.needs_program("curl")
def test_curl_agrees_on_http_2_and_on_a_version_of_tls(files: Files) -> None:
    with served(Scripted("one two"), **files.settings) as server:
        shown = "%{http_version} %{ssl_verify_result}"
        command = ["curl", "-sS", "--cacert", files.trusted, "-o", "-", "-w", f"\n{shown}"]
        body = '{"prompt": "Hi"}'
        command += [f"{server.url}/v1/streams", "-d", body]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "2 0"
    assert '"end"' in ran.stdout


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_both_versions_of_tls_are_supported(files: Files, version: str) -> None:
    context = ssl.create_default_context(cafile=files.trusted)
    context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    with served(Scripted("a"), **files.settings) as server:
        answer = httpx.get(f"{server.url}/healthz", verify=context)

    assert answer.status_code == 200


def test_a_client_without_tls_gets_nothing(files: Files) -> None:
    with served(Scripted("a"), **files.settings) as server, server.connect() as sock:
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")

        assert b"ok" not in sock.recv(4096)


def _unusable(**paths: str) -> str:
    with pytest.raises(TorvynError) as caught:
        tls.certificate(ServerSettings(**paths))
    assert caught.value.code == "transport.tls-unusable"
    return caught.value.message


def test_one_file_without_the_other_is_an_error(files: Files) -> None:
    assert "`tls_cert` is set but `tls_key` is not" in _unusable(tls_cert=files.cert)
    assert "`tls_key` is set but `tls_cert` is not" in _unusable(tls_key=files.key)


def test_a_missing_file_is_named(files: Files, tmp_path: Path) -> None:
    gone = str(tmp_path / "gone.pem")

    assert "certificate" in _unusable(tls_cert=gone, tls_key=files.key)
    assert f"private key `{gone}`" in _unusable(tls_cert=files.cert, tls_key=gone)


def test_files_that_do_not_match_have_different_errors(files: Files, tmp_path: Path) -> None:
    other, wrong = Files(tmp_path), tmp_path / "wrong.pem"
    wrong.write_text("no PEM")

    assert "does not belong to" in _unusable(tls_cert=files.cert, tls_key=other.key)
    assert "in PEM" in _unusable(tls_cert=str(wrong), tls_key=files.key)
    assert "in PEM" in _unusable(tls_cert=files.key, tls_key=files.cert)


def test_an_encrypted_private_key_is_an_error_and_not_a_prompt(
    files: Files, tmp_path: Path
) -> None:
    from cryptography.hazmat.primitives import serialization as form

    key = form.load_pem_private_key(Path(files.key).read_bytes(), None)
    locked = form.BestAvailableEncryption(b"word")
    data = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, locked)
    (tmp_path / "key.pem").write_bytes(data)

    assert "encrypted" in _unusable(tls_cert=files.cert, tls_key=str(tmp_path / "key.pem"))


def test_a_private_key_that_every_user_can_read_causes_a_warning(
    files: Files, tmp_path: Path
) -> None:
    key = tmp_path / "key.pem"
    shutil.copy(files.key, key)
    key.chmod(0o644)

    assert "chmod 600" in tls.warnings(ServerSettings(tls_cert=files.cert, tls_key=str(key)))[0]
    assert not tls.warnings(ServerSettings(**files.settings))


def test_the_command_reports_problems_before_it_serves(files: Files, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torvyn", "serve", "--engine", "scripted"]
    command += ["--tls-cert", files.cert]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)

    assert ran.returncode == 2
    assert "error[transport.tls-unusable]" in ran.stderr
