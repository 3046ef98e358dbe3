"""The names of keys on the broker."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from torvyn._durable.nats.names import token


@given(st.text())
def test_any_key_becomes_one_token_of_a_subject(key: str) -> None:
    made = token(key or "x")
    assert made
    assert not set(made) & set(". *>\t\r\n")
