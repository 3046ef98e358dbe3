"""Texts that are hard to stream, and ways to split a list."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise

TEXTS = {
    "plain": "Hello, world!  Two  spaces, don't do not 's \u2581 and \x00\x7f.\n\tTabs\r\n end ",
    "emoji": "👩‍👩‍👧‍👦👍🏽❤️‍🔥🏴󠁧󠁢󠁥󠁮󠁧󠁿 #️⃣ 🇩🇪🇫🇷🇯🇵 🜁\U0010ffff",
    "cjk": "漢字かな交じり文。한국어 텍스트 繁體中文，「引用」𠮷野家",
    "thai": "ภาษาไทยไม่มีช่องว่าง น้ำ กำ",
    "marks": "e\u0301 a\u0308\u0323 Z\u0351\u036b\u0343 क्षि ज़ த்ரி \u1100\u1161\u11a8",
    "right-to-left": "العربية مَرْحَبًا עִבְרִית \u202eabc\u202c ١٢٣",
    "code": "def f(x):\n    return {x: [1, 2]}  # ½ ≠ 𝒳\n\n\n#include <stdio.h>\n",
}


def cuts(items: Sequence[int], seed: int) -> Iterator[list[Sequence[int]]]:
    """One by one, in two at every place, and at random."""
    yield [items[at : at + 1] for at in range(len(items))]
    for at in range(len(items) + 1):
        yield [items[:at], items[at:]]
    choose = random.Random(seed)
    for _ in range(5):
        places = sorted(choose.choices(range(len(items) + 1), k=4))
        ends = [0, *places, len(items)]
        yield [items[a:b] for a, b in pairwise(ends)]
