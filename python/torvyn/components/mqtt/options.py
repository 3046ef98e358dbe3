"""What the MQTT source and sink both take as options: the broker, TLS, who we are, the will."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Any, Final

from torvyn.components.config import wrong_config
from torvyn.components.retry import ON_DISCONNECT
from torvyn.components.server_url import UrlRules, parse_server_url
from torvyn.components.spec import Option, Spec
from torvyn.components.tls import TLS_OPTIONS, check_tls_options, client_tls

PORTS: Final = {"mqtt": 1883, "mqtts": 8883}
VERSIONS: Final = ("5", "3.1.1")

_URL: Final = UrlRules(
    schemes=PORTS,
    server="a broker",
    hint="write `mqtt://host:1883`, or `mqtts://host:8883` for TLS",
    secrets="set `user` and `password` as options",
)

SHARED_OPTIONS: Final = (
    Option(
        "url",
        "text",
        None,
        "The broker: `mqtt://host:1883`, or `mqtts://host:8883` with TLS.",
        required=True,
    ),
    Option("version", "choice", "5", "The version of MQTT.", choices=VERSIONS),
    Option("user", "text", "", "The user name."),
    Option(
        "password",
        "text",
        "",
        "The password. Write `${NAME}`, so that it stays out of the manifest.",
    ),
    *TLS_OPTIONS,
    Option(
        "keepalive",
        "duration",
        30.0,
        "How long nothing may be heard from the other side.",
        minimum=1.0,
    ),
    Option(
        "connect_timeout",
        "duration",
        10.0,
        "How long one try to connect may take.",
        minimum=0.001,
    ),
    ON_DISCONNECT,
    Option(
        "will",
        "table",
        {},
        "What the broker publishes if we vanish: `topic`, `payload`, `qos`, `retain`.",
    ),
)


@dataclass(frozen=True, slots=True)
class Will:
    topic: str
    payload: str
    qos: int
    retain: bool


@dataclass(frozen=True, slots=True, repr=False)
class Broker:
    """How to connect. No `repr`, because it has the password."""

    host: str
    port: int
    is_v5: bool
    client_id: str
    user: str
    password: str
    tls: ssl.SSLContext | None
    keepalive_s: int
    connect_timeout_s: float
    will: Will | None
    fails_when_lost: bool
    clean_start: bool
    session_expiry_s: int = 0
    receive_maximum: int = 65535

    @property
    def address(self) -> str:
        return f"{'mqtts' if self.tls else 'mqtt'}://{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class BrokerLimits:
    """What the broker allows us to send; the defaults are those of MQTT."""

    receive_maximum: int = 65535
    max_packet_bytes: int = 268_435_455


def make_broker(spec: Spec, options: dict[str, Any], **session: Any) -> Broker:
    """The broker of the options; raises `ContractError` if they do not fit together."""
    scheme, host, port = parse_url(spec, options["url"])
    if options["password"] and not options["user"]:
        raise wrong_config(spec, "`password` without `user`", "set both, or neither")
    return Broker(
        host=host,
        port=port,
        is_v5=options["version"] == "5",
        user=options["user"],
        password=options["password"],
        tls=client_tls(spec, options) if scheme == "mqtts" else None,
        keepalive_s=round(options["keepalive"]),
        connect_timeout_s=options["connect_timeout"],
        will=parse_will(spec, options["will"]),
        fails_when_lost=options["on_disconnect"] == "fail",
        **session,
    )


def check_shared(spec: Spec, options: dict[str, Any]) -> None:
    """Raises what can be found without opening files."""
    scheme, _, _ = parse_url(spec, options["url"])
    check_tls_options(spec, options, scheme, "mqtts")
    parse_will(spec, options["will"])


def parse_url(spec: Spec, url: str) -> tuple[str, str, int]:
    """Scheme, host and port."""
    parts = parse_server_url(spec, url, _URL)
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise wrong_config(spec, f"`url` has more than a host and a port: {url!r}", _URL.hint)
    return parts.scheme, parts.hostname or "", parts.port or PORTS[parts.scheme]


def parse_will(spec: Spec, table: dict[str, Any]) -> Will | None:
    if not table:
        return None
    unknown = sorted(set(table) - {"topic", "payload", "qos", "retain"})
    if unknown:
        hint = "it has `topic`, `payload`, `qos` and `retain`"
        raise wrong_config(spec, f"`will` has no option `{unknown[0]}`", hint)
    topic, payload = table.get("topic"), table.get("payload", "")
    if not isinstance(topic, str) or not isinstance(payload, str):
        raise wrong_config(spec, "`will.topic` and `will.payload` must be text")
    check_topic(spec, "will.topic", topic)
    qos, retain = table.get("qos", 0), table.get("retain", False)
    if qos not in (0, 1, 2) or not isinstance(retain, bool):
        raise wrong_config(spec, "`will.qos` must be 0, 1 or 2, and `will.retain` true or false")
    return Will(topic, payload, qos, retain)


def check_topic(spec: Spec, name: str, topic: str) -> None:
    """Raises if nothing can be published to the topic."""
    if not topic or any(sign in topic for sign in "+#\0") or len(topic.encode()) > 65535:
        hint = "`+` and `#` are for subscriptions only"
        raise wrong_config(spec, f"`{name}` is {topic!r}, which is not the name of a topic", hint)
