"""The addresses and limits of a server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from torvyn.transport.sessions.shared.address import is_address
from torvyn.transport.workers.share import WHOLE, Share

if TYPE_CHECKING:
    from torvyn._manifest.settings import Settings

KiB: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The keys of `[serve]`, and limits that have no key."""

    host: str = "127.0.0.1"
    port: int = 8080
    grpc_port: int | None = None
    """0: any free port; None: no port for gRPC alone."""
    hosts: tuple[str, ...] = ()
    """Host names that it serves in addition to local ones; `*`: any."""
    cors: tuple[str, ...] = ()
    """Origins whose pages may use it from a browser; `*`: any."""
    heartbeat_s: float = 15.0
    first_byte_wait_s: float = 12.0
    """How long an answer that has nothing yet may still become an error with a status. Balancers
    give up on a response without a head after 15 s at the earliest; an engine says after 10 s that
    its upstream accepts no connection."""
    write_timeout_s: float = 30.0
    shutdown_grace_s: float = 10.0
    max_body_bytes: int = KiB * KiB
    max_streams: int = 1024
    session_store: str | None = None
    """The file that stores sessions, or the address of a broker that keeps them for several
    servers; None: memory only."""
    stream_replicas: int = 1
    """How many servers of the broker store each frame; `[cluster] stream_replicas`."""
    session_ttl_s: float = 300.0
    session_bytes: int = KiB * KiB
    session_memory_bytes: int = 32 * KiB * KiB
    """What all sessions together keep."""
    session_prompt_bytes: int = KiB * KiB
    """The largest prompt that is stored."""
    session_room_bytes: int = KiB * KiB * KiB
    """What a broker stores of the frames of all sessions."""
    session_share: float = 0.5
    """The part of all this that one tenant may take."""
    max_sessions: int = 1024
    admission_wait_s: float = 2.0
    """How long a request waits for admission before it is rejected."""
    body_timeout_s: float = 30.0
    head_timeout_s: float = 10.0
    """How long the head of a request may take, and a TLS handshake."""
    keep_alive_s: float = 75.0
    """How long a connection may stay open between two requests. Load balancers keep theirs for up
    to 60 s, and must be the ones that close."""
    max_connections: int | None = None
    """None: twice `max_streams`, at least 1,024."""
    max_connections_per_address: int | None = None
    """Of callers that have not sent a valid key; None: half of all."""
    reserved_connections: int | None = None
    """For callers with a key, if keys are required; None: a quarter of all."""
    cut_character: str = "drop"
    """Of requests whose flow does not say."""
    chunk_tokens: int = 16
    chunk_bytes: int = 4 * KiB
    """Tokens that are ready together are sent together, up to these limits; the first at once."""
    keys: str = ""
    """The key file; empty: no API keys."""
    tls_cert: str = ""
    tls_key: str = ""
    audit: str = "none"
    audit_file: str = ""
    share: Share = WHOLE
    """Which of several workers this is."""
    secrets: frozenset[str] = frozenset()
    """Texts that are removed from error messages."""

    @property
    def request_fallback(self) -> dict[str, str]:
        """Options of requests whose flow does not set them."""
        return {"cut_character": self.cut_character}

    @property
    def shares_sessions(self) -> bool:
        """Whether other servers can continue its sessions."""
        return is_address(self.session_store)

    @classmethod
    def of(cls, settings: Settings, folder: str | Path = ".", **more: Any) -> Self:
        """From the settings of a manifest in that folder."""
        return cls(
            host=settings["serve.host"],
            port=settings["serve.port"],
            grpc_port=settings["serve.grpc_port"],
            hosts=tuple(settings["serve.hosts"]),
            cors=tuple(settings["serve.cors"]),
            heartbeat_s=settings["serve.heartbeat"],
            first_byte_wait_s=settings["serve.first_byte_wait"],
            write_timeout_s=settings["serve.write_timeout"],
            shutdown_grace_s=settings["serve.shutdown_grace"],
            keep_alive_s=settings["serve.keep_alive"],
            max_connections=settings["serve.max_connections"],
            max_connections_per_address=settings["serve.max_connections_per_address"],
            reserved_connections=settings["serve.reserved_connections"],
            max_body_bytes=settings["serve.max_body"],
            max_streams=settings["serve.max_streams"],
            cut_character=settings["serve.cut_character"],
            session_store=_store_of(settings, folder),
            stream_replicas=settings["cluster.stream_replicas"],
            session_ttl_s=settings["serve.session_ttl"],
            session_bytes=settings["serve.session_bytes"],
            session_memory_bytes=settings["serve.session_memory"],
            session_prompt_bytes=settings["serve.session_prompt"],
            session_room_bytes=settings["serve.session_room"],
            session_share=settings["serve.session_share"],
            max_sessions=settings["serve.max_sessions"],
            keys=path_of(settings, "serve.keys", folder),
            tls_cert=path_of(settings, "serve.tls_cert", folder),
            tls_key=path_of(settings, "serve.tls_key", folder),
            audit=settings["serve.audit"],
            audit_file=path_of(settings, "serve.audit_file", folder),
            **more,
        )


def _store_of(settings: Settings, folder: str | Path) -> str | None:
    store: str = settings["serve.session_store"]
    return store if is_address(store) else path_of(settings, "serve.session_store", folder) or None


def path_of(settings: Settings, name: str, folder: str | Path) -> str:
    """The absolute path in a setting, empty if the setting is: a path in a file is relative to that
    file's folder, one from a flag or the environment to the working directory."""
    setting = settings.values[name]
    if not setting.value:
        return ""
    if setting.origin in ("flag", "environment"):
        folder = "."
    elif setting.origin == "user" and setting.location is not None and setting.location.file:
        folder = Path(setting.location.file).parent
    return str(Path(folder, setting.value).absolute())
