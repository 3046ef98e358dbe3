"""The four documented `lib.rs` files, which are in `documented/` as they stand, build and run."""

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import rust_toolchain
from toolchains import needs_rust
from torvyn._cli.app import group

EXAMPLES = Path(__file__).parents[2] / "examples"
SOURCES = Path(__file__).parent / "documented"
DIGESTS = {
    "content-filter": "b41fea5aef47da66a8d24fb5bb33873a6730f0108e05e714551c6462f791b865",
    "output-sink": "77513e9297ca2d3a66493114ef409fc849f1ab1365addfec72837f66ce22a479",
    "sentence-aggregator": "6e3279d20cce7ea2b87a0497d2cc8245fa8833fb91fc92b4e3b1ea5a90fcb262",
    "token-source": "b9f412646b6cdfcdae5d15df28b135beb94ed7184c4c6e698140faa7f8105bcd",
}
NOT_SHOWN = """\
[torvyn] Running flow 'main'


[torvyn] Flow 'main' completed.
[torvyn] 20 tokens produced | 1 filtered | 3 sentences emitted
[torvyn] Not shown: `content-filter` printed 1 line, `output-sink` printed 4 lines. To show what \
they print, add to Torvyn.toml:
"""
GRANTS = """
[security.grants.content-filter]
capabilities = ["stdio:stdout"]

[security.grants.output-sink]
capabilities = ["stdio:stdout"]
"""
SHOWN = """\
[torvyn] Running flow 'main'

[output-sink] sentence 0: The quick brown fox jumped over the lazy dog.
[output-sink] sentence 1: The was filtered.
[output-sink] sentence 2: Torvyn handles streaming tokens.
[output-sink] Stream complete.
[content-filter] Filtered 1 token(s) during this flow.

[torvyn] Flow 'main' completed.
[torvyn] 20 tokens produced | 1 filtered | 3 sentences emitted
"""


def test_the_sources_do_not_change() -> None:
    for name, digest in DIGESTS.items():
        text = (SOURCES / "components" / name / "src" / "lib.rs").read_bytes()
        assert hashlib.sha256(text).hexdigest() == digest, name


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The documented files, the WIT packages, and crates that declare nothing else."""
    for name, value in (rust_toolchain.variables() or {}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = shutil.copytree(SOURCES, tmp_path / "project")
    shutil.copy(EXAMPLES / "token-streaming" / "Torvyn.toml", folder)
    for name in ("Cargo.toml", "Cargo.lock"):
        shutil.copy(rust_toolchain.EXAMPLE / name, folder)
    for name in DIGESTS:
        crate = (rust_toolchain.EXAMPLE / "components" / name / "Cargo.toml").read_text()
        crate = re.sub(r"\[package\.metadata.*", "", crate, flags=re.DOTALL)
        # Its own name, because the folder where cargo builds is shared with the example.
        crate = crate.replace(f'"{name}"', f'"documented-{name}"')
        (folder / "components" / name / "Cargo.toml").write_text(crate)
    monkeypatch.chdir(folder)
    assert torvyn("schema", "--wit", "wit").startswith("wit/worlds.wit\n")
    return folder


def torvyn(*arguments: str) -> str:
    """Both streams of a command that succeeds, merged."""
    done = CliRunner().invoke(group, arguments, standalone_mode=False)
    assert done.return_value == 0, done.output
    return done.output


@pytest.mark.promise("tokens.rust-sources", "tokens.teardown-message")
@needs_rust
@pytest.mark.full
@pytest.mark.timeout(600)
def test_they_build_and_what_they_print_is_shown_with_the_grants_that_the_run_names(
    project: Path,
) -> None:
    torvyn("build")

    assert torvyn("run", "flow.main") == NOT_SHOWN + GRANTS
    with (project / "Torvyn.toml").open("a") as manifest:
        manifest.write(GRANTS)
    assert torvyn("run", "flow.main") == SHOWN
