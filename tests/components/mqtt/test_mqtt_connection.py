"""Connecting to a broker: away at boot, wrong credentials, TLS, ports that do not speak MQTT."""

import contextlib
import logging
import socket
import struct
import subprocess
import threading

import pytest
from mosquitto import Mosquitto, free_port, needs_mosquitto, running_broker

from failing_once import UNEXPECTED, fail_once
from torvyn.components.mqtt.link import Link
from torvyn.errors import Unavailable

pytestmark = needs_mosquitto


@pytest.fixture
def changed(monkeypatch):
    """Waits until a connection has the state."""
    from torvyn._io.connection import Connection

    moved = threading.Condition()
    for name in ("connected", "lost", "rejected"):
        method = getattr(Connection, name)

        def tell(self, *arguments, method=method):
            method(self, *arguments)
            with moved:
                moved.notify_all()

        monkeypatch.setattr(Connection, name, tell)

    def wait(connection, state):
        with moved:
            assert moved.wait_for(lambda: connection.status.state == state, 20)
        return connection.status

    return wait


def test_boots_with_no_network_12_the_source_starts_and_connects_later(tmp_path, driven, changed):
    broker = Mosquitto(tmp_path)
    source = driven(broker.url)
    status = changed(source.source.connection, "waiting")
    assert (status.reason, status.connects) == ("connection refused", 0)

    broker.start()

    assert changed(source.source.connection, "connected").connects == 1
    broker.stop()


def test_an_unknown_host_is_reported_and_retried(driven, changed):
    source = driven("mqtt://broker.invalid:1883")

    reason = changed(source.source.connection, "waiting").reason

    assert "known" in reason or "resolution" in reason


def test_rejected_credentials_are_reported_and_retried(tmp_path, driven, changed, caplog):
    with running_broker(tmp_path, "allow_anonymous false") as broker:
        source = driven(broker.url, user="me", password="hunter2-secret")

        status = changed(source.source.connection, "rejected")

        assert status.reason == "the broker refused the connection: Not authorized"
        assert "check `user`, `password` and `client_id`" in status.hint
        assert "hunter2" not in caplog.text


def test_on_disconnect_fail_ends_the_flow_with_the_reason(driven, changed):
    source = driven(f"mqtt://127.0.0.1:{free_port()}", on_disconnect="fail")
    changed(source.source.connection, "waiting")

    with pytest.raises(Unavailable, match="connection refused"):
        source.take(1)


def test_user_and_password_are_accepted(tmp_path, driven, changed):
    passwords = tmp_path / "passwords"
    subprocess.run(["mosquitto_passwd", "-b", "-c", passwords, "me", "right"], check=True)
    with running_broker(tmp_path, "allow_anonymous false", f"password_file {passwords}") as broker:
        source = driven(broker.url, user="me", password="right")

        assert changed(source.source.connection, "connected").failures == 0


def test_a_port_that_never_answers_is_given_up(driven, changed):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"mqtt://127.0.0.1:{silent.getsockname()[1]}"
        source = driven(url, connect_timeout=0.2)

        assert changed(source.source.connection, "waiting").reason.startswith("the broker did not")


def test_a_port_that_speaks_no_mqtt_is_reported(driven, changed):
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer_with_html, args=(server,), daemon=True).start()
        source = driven(f"mqtt://127.0.0.1:{server.getsockname()[1]}")

        assert changed(source.source.connection, "waiting").failures >= 1


def answer_with_html(server):
    connection, _ = server.accept()
    with connection:
        connection.sendall(b"<html>\xff\xff\xff\xff\xff no MQTT here</html>")


@pytest.fixture
def hinted():
    """Set when the log has said that a name may be used twice."""
    seen, handler = threading.Event(), logging.Handler()
    handler.emit = lambda record: "same `client_id`" in record.getMessage() and seen.set()
    logging.getLogger("torvyn.connection").addHandler(handler)
    yield seen
    logging.getLogger("torvyn.connection").removeHandler(handler)


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_two_clients_with_one_name_get_a_hint(broker, driven, hinted, version):
    driven(broker.url, version=version)
    assert not hinted.is_set()
    driven(broker.url, version=version)

    assert hinted.wait(30)


@pytest.fixture
def authority(tmp_path):
    import trustme

    made = trustme.CA()
    made.cert_pem.write_to_path(tmp_path / "ca.pem")
    certificate = made.issue_cert("localhost")
    certificate.private_key_pem.write_to_path(tmp_path / "server.key")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "server.pem")
    return ("allow_anonymous true", *(f"{key} {tmp_path / name}" for key, name in FILES.items()))


FILES = {"cafile": "ca.pem", "certfile": "server.pem", "keyfile": "server.key"}


def test_messages_arrive_over_tls(tmp_path, authority, driven):
    with running_broker(tmp_path, *authority) as broker:
        url = f"mqtts://localhost:{broker.port}"
        source = driven(url, ca_file=str(tmp_path / "ca.pem"))
        broker.wait_for_log("Sending SUBACK to test")
        tls = ["--cafile", str(tmp_path / "ca.pem"), "-h", "localhost", "-p", str(broker.port)]
        lines = "".join(f"{n}\n" for n in range(500))
        command = ["mosquitto_pub", *tls, "-t", "t", "-q", "1", "-l"]
        subprocess.run(command, input=lines, text=True, check=True)

        assert source.texts(500) == [str(n) for n in range(500)]


def test_a_certificate_that_is_not_trusted_is_reported(tmp_path, authority, driven, changed):
    with running_broker(tmp_path, *authority) as broker:
        source = driven(f"mqtts://localhost:{broker.port}")

        assert "not trusted" in changed(source.source.connection, "waiting").reason


def test_a_port_that_resets_every_connection_is_reported_and_tried_again(driven, changed):
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=reset_all, args=(server,), daemon=True).start()
        source = driven(f"mqtt://127.0.0.1:{server.getsockname()[1]}")

        while changed(source.source.connection, "waiting").failures < 3:
            pass
        server.shutdown(socket.SHUT_RDWR)


def reset_all(server):
    with contextlib.suppress(OSError):
        while True:
            connection, _ = server.accept()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()


def test_a_connection_that_breaks_while_connect_is_written_is_tried_again(
    broker, driven, changed, monkeypatch
):
    from torvyn.components.mqtt.client import FedClient

    connect, attempts = FedClient.open, []

    def break_first(client):
        connect(client)
        attempts.append(client)
        if len(attempts) == 1:
            # As paho does it.
            client._sock_close()

    monkeypatch.setattr(FedClient, "open", break_first)
    source = driven(broker.url)

    status = changed(source.source.connection, "connected")

    assert status.reason == "the broker closed the connection at once"


@pytest.mark.parametrize("error", UNEXPECTED)
def test_an_unexpected_error_is_a_lost_connection(broker, peer, driven, monkeypatch, error):
    fail_once(monkeypatch, Link, "_interest", error)
    source = driven(broker.url)
    broker.wait_for_log("Sending SUBACK to test")

    peer.publish("t/1", "one")

    assert source.texts(1) == ["one"]
    assert "an unexpected error" in source.source.connection.status.reason
