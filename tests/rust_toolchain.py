"""A Rust compiler for guests, installed outside the repository: `make test-deps` installs it.

Where rustup has the target `wasm32-wasip1`, nothing is installed. Elsewhere the compiler, its
source and a C library for WASI are unpacked from Debian's packages, and the standard library is
compiled for the target once; zig's linker links.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TARGET = "wasm32-wasip1"
PACKAGES = (
    "rustc-web",
    "libstd-rust-web-dev",
    "libstd-rust-web-1.96",
    "rust-web-src",
    "libllvm22",
    "wasi-libc",
)
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "torvyn-tests"
INSTALLED = CACHE / "rust-1.96-guests"
BUILT = CACHE / "rust-guests"
"""Where cargo keeps what it compiled: the bindings' generator takes a minute, once."""
EXAMPLE = Path(__file__).parents[1] / "examples" / "token-streaming-rust"

_PYTHON = "RUST_GUESTS_PYTHON"
"""The variable that names an interpreter which has zig."""
_PROBE = """[package]
name = "probe"
version = "0.0.0"
edition = "2021"
[lib]
path = "lib.rs"
[profile.release]
panic = "abort"
"""


def variables() -> dict[str, str] | None:
    """The environment in which cargo compiles guests; None when it cannot."""
    if shutil.which("cargo") is None:
        return None
    if _has_target("rustc"):
        return {"CARGO_TARGET_DIR": str(BUILT)}
    if not (INSTALLED / "rustc").is_file():
        return None
    linker = f"CARGO_TARGET_{TARGET.upper().replace('-', '_')}_LINKER"
    return {
        "CARGO_TARGET_DIR": str(BUILT),
        "RUSTC": str(INSTALLED / "rustc"),
        _PYTHON: sys.executable,
        linker: str(INSTALLED / "wasm-ld"),
    }


def _has_target(rustc: str) -> bool:
    if shutil.which(rustc) is None:
        return False
    command = [rustc, "--print", "target-libdir", "--target", TARGET]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode == 0 and any(Path(done.stdout.strip()).glob("libstd-*.rlib"))


def install() -> None:
    """All or nothing: what is half installed is never found."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        made = Path(folder) / "made"
        made.mkdir()
        _unpack(Path(folder), made)
        # Scripts name the place where they will be.
        _write_scripts(made, INSTALLED)
        _compile_library(Path(folder), made)
        shutil.rmtree(made / "usr" / "src")
        made.rename(INSTALLED)


def _unpack(folder: Path, made: Path) -> None:
    if os.getuid() == 0:
        subprocess.run(["apt-get", "update", "-qq"], check=False)
    subprocess.run(["apt-get", "download", "-qq", *PACKAGES], cwd=folder, check=True)
    for package in folder.glob("*.deb"):
        subprocess.run(["dpkg", "-x", str(package), str(made)], check=True)


def _write_scripts(made: Path, home: Path) -> None:
    libraries = home / "usr" / "lib" / "x86_64-linux-gnu"
    _write(made / "rustc", f'LD_LIBRARY_PATH={libraries} exec {home}/usr/bin/rustc "$@"\n')
    # The interpreter is the caller's: this folder outlives the environment that made it.
    linker = f'[ "$1" = -flavor ] && shift 2\nexec "${_PYTHON}" -m ziglang wasm-ld "$@"\n'
    _write(made / "wasm-ld", linker)


def _write(file: Path, text: str) -> None:
    file.write_text(f"#!/bin/sh\n{text}")
    file.chmod(0o755)


def _compile_library(folder: Path, made: Path) -> None:
    """The standard library for the target, beside that of the machine."""
    probe = folder / "probe"
    probe.mkdir()
    (probe / "Cargo.toml").write_text(_PROBE)
    (probe / "lib.rs").touch()
    libraries = made / "usr" / "lib" / "x86_64-linux-gnu"
    own = {
        "RUSTC": str(made / "usr" / "bin" / "rustc"),
        "LD_LIBRARY_PATH": str(libraries),
        "RUSTC_BOOTSTRAP": "1",
        "CARGO_TARGET_DIR": str(folder / "target"),
    }
    command = ["cargo", "build", "--release", "--quiet", "--target", TARGET]
    subprocess.run(
        [*command, "-Zbuild-std=std,panic_abort"], cwd=probe, env={**os.environ, **own}, check=True
    )
    library = made / "usr" / "lib" / "rustlib" / TARGET / "lib"
    (library / "self-contained").mkdir(parents=True)
    for file in (folder / "target" / TARGET / "release" / "deps").glob("lib*.r*"):
        if file.suffix in (".rlib", ".rmeta") and not file.name.startswith("libprobe"):
            shutil.copy(file, library)
    for name in ("libc.a", "crt1-reactor.o", "crt1-command.o"):
        shutil.copy(made / "usr" / "lib" / "wasm32-wasi" / name, library / "self-contained")


def warm() -> None:
    """Compiles the generator of bindings, so that no test waits for it."""
    found = variables()
    if found is not None:
        command = ["cargo", "build", "--release", "--quiet", "--target", TARGET]
        subprocess.run(command, cwd=EXAMPLE, env={**os.environ, **found}, check=True)


def main() -> int:
    if variables() is None:
        missing = [tool for tool in ("cargo", "apt-get", "dpkg") if shutil.which(tool) is None]
        if missing or importlib.util.find_spec("ziglang") is None:
            print(f"no Rust for guests, for want of {missing or 'ziglang'}", file=sys.stderr)
            return 0
        try:
            install()
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"no Rust for guests: {error}; its tests will be skipped", file=sys.stderr)
            return 0
    if INSTALLED.is_dir():
        _write_scripts(INSTALLED, INSTALLED)
    warm()
    return 0


if __name__ == "__main__":
    sys.exit(main())
