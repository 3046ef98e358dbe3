"""Seeds of nkeys and JWTs, as `nsc` makes them, for a server that asks for them."""

from __future__ import annotations

import base64
import json
import secrets
import time
from typing import Any

from torvyn._native import nkey_sign

OPERATOR, ACCOUNT, USER = 14 << 3, 0, 20 << 3
_SEED = 18 << 3
_NO_LIMIT = -1


def new_seed(kind: int) -> str:
    raw = bytes((_SEED | kind >> 5, (kind & 31) << 3)) + secrets.token_bytes(32)
    return _base32(raw + _crc(raw).to_bytes(2, "little"))


def public_key(seed: str) -> str:
    signed = nkey_sign(seed, b"")
    assert signed is not None
    return signed[0]


def token(claims: dict[str, Any], seed: str) -> str:
    """A JWT that the owner of the seed has signed."""
    issued = {"iat": int(time.time()), "jti": secrets.token_hex(8), "iss": public_key(seed)}
    head = {"typ": "JWT", "alg": "ed25519-nkey"}
    body = ".".join(_base64(json.dumps(each).encode()) for each in (head, {**issued, **claims}))
    signed = nkey_sign(seed, body.encode())
    assert signed is not None
    return f"{body}.{_base64(signed[1])}"


class Operator:
    """An operator with an account that may use JetStream, and a user in it. The server needs an
    account of its own besides."""

    def __init__(self) -> None:
        self._seed, account, self.user = map(new_seed, (OPERATOR, ACCOUNT, USER))
        names = ("subs", "conn", "leaf", "imports", "exports", "data", "payload")
        stores = ("mem_storage", "disk_storage", "streams", "consumer")
        plain = {**dict.fromkeys(names, _NO_LIMIT), "wildcards": True}
        limits = {**plain, **dict.fromkeys(stores, _NO_LIMIT)}
        self._account = self._claims(account, "account", {"limits": limits}, self._seed)
        self._account_key = public_key(account)
        system = new_seed(ACCOUNT)
        self._system_key = public_key(system)
        self._system = self._claims(system, "account", {"limits": plain}, self._seed)
        unlimited = dict.fromkeys(("subs", "data", "payload"), _NO_LIMIT)
        self._user = self._claims(self.user, "user", unlimited, account)

    def _claims(self, seed: str, kind: str, fields: dict[str, Any], issuer: str) -> str:
        nats = {**fields, "type": kind, "version": 2}
        return token({"sub": public_key(seed), "name": kind, "nats": nats}, issuer)

    @property
    def config(self) -> str:
        own = self._claims(self._seed, "operator", {}, self._seed)
        preload = f"{{ {self._account_key}: {self._account}, {self._system_key}: {self._system} }}"
        return (
            f"operator: {own}\nsystem_account: {self._system_key}\nresolver: MEMORY\n"
            f"resolver_preload: {preload}\n"
        )

    @property
    def creds(self) -> str:
        line = "------END {}------"
        return (
            f"-----BEGIN NATS USER JWT-----\n{self._user}\n{line.format('NATS USER JWT')}\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{self.user}\n{line.format('USER NKEY SEED')}\n"
        )


def _base32(raw: bytes) -> str:
    return base64.b32encode(raw).decode().rstrip("=")


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _crc(data: bytes) -> int:
    """CRC-16/XMODEM."""
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc
