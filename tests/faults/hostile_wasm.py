"""Wasm that means harm: functions and nestings without end, and mutants of good components.

Bytes alone; nothing here compiles or runs anything.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

COMPONENT = b"\0asm\x0d\0\1\0"


def leb(number: int) -> bytes:
    """An unsigned number as wasm writes it."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def section(kind: int, body: bytes) -> bytes:
    return bytes([kind]) + leb(len(body)) + body


def giant_function(variables: int, loops: int, uses: int) -> bytes:
    """A component with one function: each variable is alive in each of the loops, one in another.

    What a compiler keeps of it grows with the product of the two.
    """
    body = bytearray(leb(1) + leb(variables) + b"\x7e" + b"\x03\x40" * loops)
    for use in range(uses):
        body += b"\x20" + leb(use % variables) + b"\x21" + leb((use + 1) % variables)
    body += b"\x41\x00\x0d\x00\x0b" * loops + b"\x0b"
    functions = section(10, b"\1" + leb(len(body)) + bytes(body))
    module = b"\0asm\1\0\0\0" + section(1, b"\1\x60\0\0") + section(3, b"\1\0") + functions
    return COMPONENT + section(1, module)


def nested_components(levels: int, *, with_memory: bool = False) -> bytes:
    """A component of which every level instantiates the one inside twice."""
    module = b"\0asm\1\0\0\0" + (section(5, b"\1\0\1") if with_memory else b"")
    component = COMPONENT + section(1, module) + section(2, b"\1\0\0\0")
    for _ in range(levels):
        component = COMPONENT + section(4, component) + section(5, b"\2" + b"\0\0\0" * 2)
    return component


def mutants(originals: list[bytes], count: int, seed: int) -> Iterator[bytes]:
    """Bit flips, cuts, splices and repetitions, the same for the same seed."""
    chance = random.Random(seed)
    for _ in range(count):
        original = chance.choice(originals)
        yield _MUTATIONS[chance.randrange(len(_MUTATIONS))](original, originals, chance)


def _flip(original: bytes, _: list[bytes], chance: random.Random) -> bytes:
    changed = bytearray(original)
    for _ in range(chance.choice((1, 1, 2, 8))):
        changed[chance.randrange(8, len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _cut(original: bytes, _: list[bytes], chance: random.Random) -> bytes:
    return original[: chance.randrange(len(original))]


def _splice(original: bytes, originals: list[bytes], chance: random.Random) -> bytes:
    other = chance.choice(originals)
    return original[: chance.randrange(8, len(original))] + other[chance.randrange(len(other)) :]


def _repeat(original: bytes, _: list[bytes], chance: random.Random) -> bytes:
    start = chance.randrange(8, len(original))
    end = min(len(original), start + chance.randrange(1, 64))
    return original[:end] + original[start:end] * chance.randrange(1, 50) + original[end:]


def _number(original: bytes, _: list[bytes], chance: random.Random) -> bytes:
    """A size or an index becomes a very large one."""
    at = chance.randrange(8, len(original))
    return original[:at] + b"\xff\xff\xff\xff\x0f" + original[at + 1 :]


_MUTATIONS = (_flip, _flip, _cut, _splice, _repeat, _number)
