"""How long does it take from a change to the new version on a gateway, and what is interrupted?

python -m benches.update_paths [--rounds R] [--json]
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from benches.question import cannot_run, publish, say
from benches.report import Report, Table
from benches.update_project import (
    READINGS_PER_S,
    check_account,
    deliveries,
    longest_gap_s,
    wait,
    wait_for_version,
    write_project,
)

METHOD = f"""\
A gateway takes {READINGS_PER_S} readings per second and delivers them over a disk edge. In each
round one component gets other code; then the commands of the row run one after the other, and the
clock stops at the first reading that the new version delivers. The gap is the longest time without
a delivery in the round. Before a row counts, its readings are compared: none is missing, and the
versions deliver in their order. "torvyn" is pack, channel sign, a copy to the folder that is
published, and `torvyn deploy update` on the gateway, which fetches the channel, verifies it, checks
the project and exchanges the generation. "copy and restart" is what a script with scp and
`systemctl restart` does, without a network: a copy of the project, a rename, SIGTERM, and the same
command again; nothing is signed, checked or kept to go back to. The last column is a version whose
component fails when it starts: how long the gateway delivers nothing, within 10 s. Medians of
{{rounds}} rounds."""
BROKEN_S = 10.0


@dataclass
class Result:
    seconds: list[float] = field(default_factory=list)
    gaps_s: list[float] = field(default_factory=list)
    lost: int = 0
    repeated: int = 0
    silent_s: float = 0.0
    """After a version that fails."""


def torvyn(*words: object, cwd: Path) -> None:
    command = [sys.executable, "-m", "torvyn", *map(str, words), "-q"]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))}: {done.stderr}")


class Torvyn:
    """`torvyn deploy`, with a channel that is a folder."""

    commands = 4

    def __init__(self, folder: Path, exchange: str) -> None:
        self.folder, self.project, self.site = folder, folder / "project", folder / "site"
        self.exchange = exchange
        torvyn("sign", "--generate-key", "release", cwd=folder)
        self.site.mkdir()

    def update(self, version: str) -> None:
        torvyn("pack", "--tag", version, "--update-lock", cwd=self.project)
        artifact = f"gateway=oci:{self.project / 'dist'}:{version}"
        key = ("--key", self.folder / "release")
        sign = ("channel", "sign", "channel.json", "--artifact", artifact, *key)
        torvyn("deploy", *sign, cwd=self.folder)
        shutil.copytree(self.project / "dist", self.site, dirs_exist_ok=True)
        shutil.copy(self.folder / "channel.json", self.site)
        with suppress(RuntimeError):
            # A version that fails its check is refused here, and the old one goes on.
            torvyn("deploy", "update", "gateway", "--root", self.folder, cwd=self.folder)

    @contextmanager
    def running(self) -> Iterator[None]:
        self.site.mkdir(exist_ok=True)
        source, key = self.site / "channel.json", self.folder / "release.pub"
        follow = ("follow", "gateway", source, "--key", key, "--interval", "1h")
        torvyn("deploy", *follow, "--root", self.folder, cwd=self.folder)
        self.update("1.0.0")
        words = ["deploy", "run", "gateway", "--root", str(self.folder), "-q"]
        words += ["--health-period", "1s", "--exchange", self.exchange]
        process = subprocess.Popen([sys.executable, "-m", "torvyn", *words], cwd=self.folder)
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)

    def settle(self, number: int) -> None:
        """The generation is good, so that the next one has a fallback."""
        from torvyn._deploy.deployment import Deployment

        state = Deployment(self.folder / "gateway").state
        wait(lambda: True if number in state().good else None)


class CopyAndRestart:
    """A copy of the project, and a service that is restarted, also when it has failed."""

    commands = 2

    def __init__(self, folder: Path) -> None:
        self.folder, self.project = folder, folder / "project"
        self.target = folder / "target"
        self._process: subprocess.Popen[bytes] | None = None

    def update(self, version: str) -> None:
        new = self.folder / "target.new"
        shutil.copytree(self.project, new)
        shutil.rmtree(self.target, ignore_errors=True)
        new.rename(self.target)
        self._stop()
        self._start()

    @contextmanager
    def running(self) -> Iterator[None]:
        self.update("1.0.0")
        try:
            yield
        finally:
            self._stop()

    def settle(self, number: int) -> None:
        """It runs, or it does not."""

    def _start(self) -> None:
        state = f"runtime.state_dir={self.folder / 'state'}"
        words = [sys.executable, "-m", "torvyn", "run", "-q", "--set", state]
        with open(os.devnull, "wb") as nowhere:
            self._process = subprocess.Popen(words, cwd=self.target, stderr=nowhere)

    def _stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(30)


def measure(make: Callable[[Path], Torvyn | CopyAndRestart], rounds: int) -> Result:
    result = Result()
    with tempfile.TemporaryDirectory(prefix="tv") as name:
        folder = Path(name)
        os.environ["XDG_RUNTIME_DIR"] = str(folder)
        output = folder / "delivered.txt"
        write_project(folder / "project", "1.0.0", output)
        way = make(folder)
        with way.running():
            wait_for_version(output, "1.0.0")
            way.settle(1)
            for number in range(2, rounds + 2):
                _round(way, number, output, result)
            result.silent_s = _fail(way, output, folder / "project")
        result.lost, result.repeated = check_account(deliveries(output))
    return result


def _round(way: Torvyn | CopyAndRestart, number: int, output: Path, result: Result) -> None:
    version = f"{number}.0.0"
    write_project(way.project, version, output)
    began_s = time.monotonic()
    way.update(version)
    first = wait_for_version(output, version)
    way.settle(number)
    time.sleep(0.5)
    found = deliveries(output)
    numbers = [int(each.version.partition(".")[0]) for each in found]
    assert numbers == sorted(numbers), "an old version delivers after a new one"
    assert numbers[-1] == number
    result.seconds.append(first.at_s - began_s)
    result.gaps_s.append(longest_gap_s(found, began_s))


def _fail(way: Torvyn | CopyAndRestart, output: Path, project: Path) -> float:
    """How long nothing is delivered after a version that cannot start."""
    write_project(project, "99.0.0", output, init='raise RuntimeError("no uplink")')
    began_s = time.monotonic()
    way.update("99.0.0")
    time.sleep(max(0.0, began_s + BROKEN_S - time.monotonic()))
    ends_s = began_s + BROKEN_S
    found = [each for each in deliveries(output) if each.at_s <= ends_s]
    return max(longest_gap_s(found, began_s), ends_s - found[-1].at_s)


WAYS: dict[str, Callable[[Path], Torvyn | CopyAndRestart]] = {
    "torvyn, swap": lambda folder: Torvyn(folder, "auto"),
    "torvyn, new process": lambda folder: Torvyn(folder, "process"),
    "copy and restart": CopyAndRestart,
}
COLUMNS = (
    "way",
    "commands",
    "seconds to the new version",
    "longest gap, ms",
    "lost",
    "repeated",
    "silent after a bad version, s",
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.update_paths")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run():
        return 2
    method = METHOD.format(rounds=options.rounds).replace("\n", " ")
    question = "How long does it take from a change to the new version, and what is interrupted?"
    report = Report("update_paths", question, method)
    table = Table(COLUMNS)
    report.tables.append(table)
    for name, make in WAYS.items():
        say(name)
        result = measure(make, options.rounds)
        assert result.lost == 0, f"{name} has lost {result.lost} readings"
        table.rows.append([name, *_figures(make, result)])
        report.data[name] = vars(result)
    report.left_out = {
        "Spin": "the registries carry only an empty placeholder of its name",
        "wash (wasmCloud)": "it was not built, and it downloads its host and its NATS server",
        "scp over a network": "the copy is local, so every row leaves the network out",
    }
    publish(report, options.json)
    return 0


def _figures(make: object, result: Result) -> list[str]:
    commands = CopyAndRestart.commands if make is CopyAndRestart else Torvyn.commands
    seconds, gaps = result.seconds, result.gaps_s
    is_down = result.silent_s > BROKEN_S - 2
    return [
        str(commands),
        f"{statistics.median(seconds):.1f} ({min(seconds):.1f} to {max(seconds):.1f})",
        f"{statistics.median(gaps) * 1e3:.0f} (largest {max(gaps) * 1e3:.0f})",
        str(result.lost),
        str(result.repeated),
        f"{result.silent_s:.1f}" + (": until a person repairs it" if is_down else ""),
    ]


if __name__ == "__main__":
    sys.exit(main())
