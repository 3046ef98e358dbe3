"""Signs what the server asks to be signed, with the seed of an nkey."""

from __future__ import annotations

import re
from typing import Final

from torvyn._io.broker_login import unusable
from torvyn._native import nkey_sign

_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z ]+)-----\s*(\S+)\s*-+END [A-Z ]+-+")


def sign(seed: str, nonce: str) -> tuple[str, bytes]:
    """The public key, and its signature. Raises `broker.credentials` for what is no seed."""
    signed = nkey_sign(seed, nonce.encode())
    if signed is None:
        raise unusable(
            "the nkey in `[cluster]` is not the seed of a user: such seeds begin with `SU`"
        )
    return signed


def read_creds(text: str) -> tuple[str, str]:
    """The JWT and the seed of a `.creds` file. Raises `broker.credentials`."""
    blocks = dict(_BLOCK.findall(text))
    try:
        return blocks["NATS USER JWT"], blocks["USER NKEY SEED"]
    except KeyError as error:
        raise unusable(f"`credentials_file` of `[cluster]` has no block {error}") from None
