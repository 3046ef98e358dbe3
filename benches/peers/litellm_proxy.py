"""LiteLLM's proxy in front of an upstream, with one model and nothing else switched on.

It lives in a virtual environment of its own, because it pins dozens of packages:

    python -m venv ~/.cache/torvyn/litellm
    ~/.cache/torvyn/litellm/bin/pip install "litellm[proxy]"

`TORVYN_LITELLM` names another command.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from benches.load import KEY
from benches.work_serving import MODEL

HOW = 'not installed: pip install "litellm[proxy]" in a venv at ~/.cache/torvyn/litellm'
ENV = {
    "LITELLM_LOG": "ERROR",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_MODE": "PRODUCTION",
    "NO_DOCS": "True",
}


def program() -> Path | None:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    found = Path(os.environ.get("TORVYN_LITELLM") or cache / "torvyn" / "litellm" / "bin/litellm")
    return found if found.exists() else None


def version(litellm: Path) -> str:
    code = "from importlib.metadata import version; print(version('litellm'))"
    python = litellm.parent / "python"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return f"litellm {done.stdout.strip()}"


def command(litellm: Path, folder: Path, upstream: str) -> list[str]:
    config = folder / "litellm.yaml"
    config.write_text(
        f"model_list:\n  - model_name: {MODEL}\n    litellm_params:\n"
        f"      model: openai/{MODEL}\n      api_base: {upstream}\n      api_key: sk-bench\n"
        f"general_settings:\n  master_key: {KEY}\n"
        "litellm_settings:\n  telemetry: false\n",
        encoding="utf-8",
    )
    flags = ["--host", "127.0.0.1", "--port", "{port}", "--telemetry", "False"]
    return [str(litellm), "--config", str(config), *flags]
