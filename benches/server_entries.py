"""Servers that do the same work, timed by turns: the rounds, and the table of their figures."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benches.harness import quartiles
from benches.load import Loaded
from benches.question import say
from benches.report import Report, Table
from benches.server_process import SERVER_CORE, running

TextOf = Callable[[int], str]
"""The text that the server at a port sends."""
Load = Callable[[int], Loaded]
"""Puts one round of load on the server at a port."""


@dataclass(slots=True)
class Entry:
    """A server, what it must send, and the figures of its rounds."""

    name: str
    command: list[str]
    text: str
    us: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    load_share: list[float] = field(default_factory=list)

    def add(self, loaded: Loaded, cpu_s: float, chunks: int) -> None:
        self.us.append(cpu_s / chunks * 1e6)
        self.rates.append(chunks / loaded.wall_s)
        self.load_share.append(loaded.cpu_s / loaded.wall_s)

    def rate_ratio(self, peer: Entry) -> float:
        """How many times as fast it is, within a round."""
        return statistics.median(a / b for a, b in zip(self.rates, peer.rates, strict=True))


def measure(
    entries: Sequence[Entry], rounds: int, text_of: TextOf, load: Load, chunks: int | None = None
) -> None:
    """Checks every text, then runs the rounds; `chunks` replaces the number that was counted."""
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(running(entry.command, SERVER_CORE)) for entry in entries]
        for entry, server in zip(entries, servers, strict=True):
            say(f"checking {entry.name}")
            if text_of(server.port) != entry.text:
                raise AssertionError(f"{entry.name} sent a different text")
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            for entry, server in zip(entries, servers, strict=True):
                before_s = server.cpu_s()
                loaded = load(server.port)
                entry.add(loaded, server.cpu_s() - before_s, chunks or loaded.chunks)


def tell(
    report: Report,
    title: str,
    entries: Sequence[Entry],
    columns: Sequence[str],
    judge: Callable[[Entry], Sequence[str]],
) -> None:
    """A table of the figures; `judge` fills the `columns` between the rate and the load's CPU."""
    names = ("server", "us of CPU", "quartiles", "per second", *columns, "load's CPU")
    table = Table(names, title=title)
    for entry in entries:
        low, middle, high = quartiles(entry.us)
        rate, share = statistics.median(entry.rates), statistics.median(entry.load_share)
        figures = (f"{middle:.2f}", f"{low:.2f} - {high:.2f}", f"{rate:,.0f}")
        table.rows.append((entry.name, *figures, *judge(entry), f"{share:.0%}"))
    report.tables.append(table)
    report.data[title] = {
        entry.name: {"us": entry.us, "a_second": entry.rates, "load_share": entry.load_share}
        for entry in entries
    }
