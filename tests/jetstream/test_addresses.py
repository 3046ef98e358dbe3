"""What the address of a broker says."""

from __future__ import annotations

import pytest

from torvyn._io.broker_login import Secrets
from torvyn._io.nats import BrokerAddresses
from torvyn.errors import FlowError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nats://a:4222", BrokerAddresses(("nats://a:4222",))),
        ("a:4222, tls://b", BrokerAddresses(("nats://a:4222", "tls://b"))),
        ("nats://t0ken@a", BrokerAddresses(("nats://a",), Secrets(token="t0ken"))),
        (
            "nats://a,nats://me:p%40ss%3A@b:1",
            BrokerAddresses(("nats://a", "nats://b:1"), Secrets("me", "p@ss:")),
        ),
        ("nats://me:@a", BrokerAddresses(("nats://a",), Secrets("me", ""))),
        ("nats://me:x@[::1]:4222", BrokerAddresses(("nats://[::1]:4222",), Secrets("me", "x"))),
    ],
)
def test_credentials_are_taken_out_and_decoded(text: str, expected: BrokerAddresses) -> None:
    assert BrokerAddresses.parse(text) == expected


def test_an_address_that_cannot_be_read_is_refused_without_its_password() -> None:
    with pytest.raises(FlowError) as caught:
        BrokerAddresses.parse("nats://me:secret@[::1")
    assert caught.value.code == "broker.away"
    assert "secret" not in str(caught.value)
