"""crabllm, a gateway in Rust, in front of an upstream, with one model and one key.

It is compiled once, outside the tree, which takes about five minutes on two cores:

    cargo install crabllm@0.0.25 --locked --root ~/.cache/torvyn-bench/peers/crabllm

`TORVYN_CRABLLM` names another program.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from benches.load import KEY
from benches.work_serving import MODEL

ENV = {"RUST_LOG": "error"}
FOLDER = Path.home() / ".cache" / "torvyn-bench" / "peers" / "crabllm"
HOW = "not installed: see benches/peers/crabllm_gateway.py for the command"


def program() -> Path | None:
    found = Path(os.environ.get("TORVYN_CRABLLM") or FOLDER / "bin" / "crabllm")
    return found if found.exists() else None


def version(crabllm: Path) -> str:
    """As `cargo install` has noted it: the program does not tell."""
    noted = crabllm.parent.parent / ".crates2.json"
    installed = json.loads(noted.read_text(encoding="utf-8"))["installs"] if noted.exists() else ()
    return next((" ".join(name.split()[:2]) for name in installed), "crabllm")


def command(crabllm: Path, folder: Path, upstream: str) -> list[str]:
    config = folder / "crabllm.toml"
    config.write_text(
        f'[providers.openai]\nkind = "openai"\napi_key = "sk-bench"\nbase_url = "{upstream}"\n'
        f'models = ["{MODEL}"]\n\n[[keys]]\nname = "bench"\nkey = "{KEY}"\nmodels = ["*"]\n',
        encoding="utf-8",
    )
    return [str(crabllm), "serve", "--config", str(config), "--bind", "127.0.0.1:{port}"]
