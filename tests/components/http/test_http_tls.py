"""HTTPS between the sink and the source, with certificates made for the test."""

import threading

import pytest
import trustme

import torvyn
from torvyn.components import HttpSink, HttpSource


@pytest.fixture
def files(tmp_path):
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    return {name: str(tmp_path / f"{name}.pem") for name in ("ca", "cert", "key")}


@pytest.fixture
def receiving(files):
    texts, arrived = [], threading.Event()

    @torvyn.sink
    def keep(element):
        texts.append(element.text)
        arrived.set()

    tls = {"cert_file": files["cert"], "key_file": files["key"]}
    source = HttpSource({"listen": "127.0.0.1:0", "token": "secret", **tls})
    flow = torvyn.Flow(source, keep).start()
    yield f"https://localhost:{source.port}/", texts
    flow.cancel()
    flow.wait(20)


def test_a_flow_sends_to_another_over_tls(files, receiving):
    url, texts = receiving
    headers = {"authorization": "Bearer secret"}

    torvyn.Flow(
        ["1", "2"], HttpSink({"url": url, "ca_file": files["ca"], "headers": headers})
    ).run()

    assert texts == ["1", "2"]


def test_a_certificate_that_is_not_trusted_is_reported(receiving):
    url, texts = receiving
    flow = torvyn.Flow(["1"], HttpSink({"url": url, "on_disconnect": "fail"}))

    with pytest.raises(torvyn.Unavailable, match="not trusted"):
        flow.run()
    assert texts == []
