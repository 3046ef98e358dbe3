"""The input of a flow that runs from the shell: options, a file, or standard input."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torvyn.components.config import wrong_config
from torvyn.components.spec import Spec
from torvyn.errors import MissingError


def read_input(spec: Spec, options: Mapping[str, Any]) -> str | Sequence[Mapping[str, Any]]:
    """The messages or the prompt of the options; without them, the prompt of the file."""
    if options["messages"] is not None:
        messages: Sequence[Mapping[str, Any]] = options["messages"]
        return messages
    if options["path"] is None and options["prompt"] is not None:
        return str(options["prompt"])
    return read_prompt(spec, options["path"])


def read_prompt(spec: Spec, path: str | None) -> str:
    """The text of the file or of standard input, without a final line break."""
    if path is None:
        text = sys.stdin.read() if sys.stdin is not None else ""
    else:
        try:
            text = Path(path).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise MissingError(
                "components.file-missing", f"`{spec.name}`: `{path}` does not exist"
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise wrong_config(spec, f"the prompt in `{path}` cannot be read: {error}") from error
    return text.removesuffix("\n")
