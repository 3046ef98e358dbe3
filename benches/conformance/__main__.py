"""Does the server keep to the protocols?

    python -m benches.conformance [--only SUITE...] [--seconds S] [--seed N] [--json]

Writes `results/conformance.json` and its page. Each case passes or is listed with its reason.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Final

from benches.conformance import autobahn, h2spec
from benches.conformance.suite import SuiteMissing, SuiteResult
from benches.question import cannot_run, publish, say
from benches.report import Report, Table
from benches.server_process import OTHER_CORE, ServerProcess, module, running

METHOD: Final = """\
h2spec 2.2.1 with its strict cases, once over plain TCP and once over TLS, against the server that
the other benchmarks measure. Autobahn 25.10.1 without the cases of compression, which is not
offered, against a server that sends every message back over the same wire. Mutants are valid
requests of which bits, bytes or pieces were changed, repeated, cut or exchanged; after every
hundred of them a good request must be answered, and the server may log no failure and keep no
memory."""
COLUMNS: Final = ("suite", "cases", "passed", "failed", "other")


def _server(*arguments: str, log: IO[bytes] | None = None) -> AbstractContextManager[ServerProcess]:
    command = module("benches.peers.torvyn_serve", "--port", "{port}", "--tokens", "20", *arguments)
    return running(command, OTHER_CORE, log=log)


def http2() -> SuiteResult:
    with _server() as server:
        return h2spec.run(server.port, "HTTP/2, plain", is_tls=False)


def http2_tls() -> SuiteResult:
    with tempfile.TemporaryDirectory() as folder, _server("--tls", *_certificate(folder)) as server:
        return h2spec.run(server.port, "HTTP/2, TLS", is_tls=True)


def websocket() -> SuiteResult:
    command = module("benches.peers.websocket_echo", "--port", "{port}")
    with running(command, OTHER_CORE) as server:
        return autobahn.run(server.port, "WebSocket")


def mutants(seconds: float, seed: int) -> SuiteResult:
    try:
        from benches.conformance import fuzz
    except ModuleNotFoundError as error:
        raise SuiteMissing(f"needs the package `{error.name}`") from None
    with tempfile.NamedTemporaryFile() as log, _server(log=log.file) as server:
        return fuzz.run(server, Path(log.name), seconds, seed)


SUITES: Final = ("http2", "http2-tls", "websocket", "mutants")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.conformance")
    parser.add_argument("--only", nargs="*", choices=SUITES, default=list(SUITES))
    parser.add_argument("--seconds", type=float, default=600.0, help="of mutants")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run():
        return 2
    report = Report("conformance", "Does the server keep to the protocols?", METHOD)
    runs: dict[str, Callable[[], SuiteResult]] = {
        "http2": http2,
        "http2-tls": http2_tls,
        "websocket": websocket,
        "mutants": lambda: mutants(options.seconds, options.seed),
    }
    results = list(_results({name: runs[name] for name in options.only}, report))
    _fill(report, results)
    publish(report, options.json)
    return 1 if any(case.is_failed for result in results for case in result.cases) else 0


def _results(
    runs: Mapping[str, Callable[[], SuiteResult]], report: Report
) -> Iterator[SuiteResult]:
    for name, run in runs.items():
        say(name)
        try:
            yield run()
        except SuiteMissing as missing:
            report.left_out[name] = str(missing)


def _fill(report: Report, results: Sequence[SuiteResult]) -> None:
    table = Table(COLUMNS)
    reasons = Table(("case", "outcome", "reason"), title="Cases that did not simply pass")
    for result in results:
        total, passed, failed = len(result.cases), result.count("passed"), result.count("failed")
        figures = (total, passed, failed, total - passed - failed)
        table.rows.append((result.name, *map(str, figures)))
        reasons.rows += [
            (f"{result.name}: {case.name}", case.outcome, case.reason.replace("|", "/"))
            for case in result.exceptions
        ]
    report.tables = [table, reasons] if reasons.rows else [table]
    report.data = {
        "suites": [
            {
                "name": result.name,
                "cases": [[case.name, case.outcome, case.reason] for case in result.cases],
            }
            for result in results
        ]
    }


def _certificate(folder: str) -> tuple[str, str]:
    try:
        import trustme
    except ModuleNotFoundError:
        raise SuiteMissing("needs the package `trustme`") from None
    made = trustme.CA().issue_cert("localhost", "127.0.0.1")
    chain, key = Path(folder, "chain.pem"), Path(folder, "key.pem")
    chain.write_bytes(b"".join(part.bytes() for part in made.cert_chain_pems))
    key.write_bytes(made.private_key_pem.bytes())
    key.chmod(0o600)
    return str(chain), str(key)


if __name__ == "__main__":
    sys.exit(main())
