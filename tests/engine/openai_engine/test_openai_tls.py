"""Upstreams with TLS: certificates are verified as Python's `ssl` module would."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys

import missing
import pytest
import trustme

from fake_upstream import HELLO, running, says

ASKS = """
import logging, sys, torvyn

logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(message)s")
try:
    url, client = sys.argv[1:]
    with torvyn.engine.open("openai", base_url=url, model="m", retries=0, client=client) as engine:
        print(engine.complete("x").text)
except torvyn.TorvynError as error:
    print(error.code)
"""


def asked(url, client, trusted):
    """What a program prints and logs that trusts the authorities in that file."""
    environment = {**os.environ, "SSL_CERT_FILE": str(trusted), "SSL_CERT_DIR": ""}
    command = [sys.executable, "-c", ASKS, url, client]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True, env=environment
    )
    return done.stdout.strip(), done.stderr


@pytest.fixture
def authority(tmp_path):
    made = trustme.CA()
    made.cert_pem.write_to_path(tmp_path / "ca.pem")
    return made


def context_of(authority, *names):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


def test_a_certificate_of_a_trusted_authority_is_accepted(authority, client, tmp_path):
    tls = context_of(authority, "127.0.0.1")
    with running(says(*HELLO), tls=tls) as upstream:
        text, log = asked(upstream.url, client, tmp_path / "ca.pem")

    assert (text, "aiohttp" in log) == ("Hello", False)


def test_a_certificate_of_nobody_who_is_trusted_is_refused(authority, client, tmp_path):
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    with running(says(*HELLO), tls=context_of(authority, "127.0.0.1")) as upstream:
        text, _ = asked(upstream.url, client, tmp_path / "other.pem")

    assert (text, upstream.exchanges) == ("engine.upstream-down", [])


def test_a_certificate_for_another_host_is_refused(authority, client, tmp_path):
    with running(says(*HELLO), tls=context_of(authority, "example.org")) as upstream:
        text, _ = asked(upstream.url, client, tmp_path / "ca.pem")

    assert (text, upstream.exchanges) == ("engine.upstream-down", [])


@missing.needs_program("openssl")
def test_what_only_openssl_accepts_is_left_to_aiohttp(client, tmp_path):
    # An authority that signs for itself as a server.
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    options = "-x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=x"
    name = ["-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", *options.split(), *name, "-keyout", key, "-out", cert]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with running(says(*HELLO), tls=context) as upstream:
        text, log = asked(upstream.url, client, cert)

    assert (text, "trying aiohttp" in log) == ("Hello", client == "native")
