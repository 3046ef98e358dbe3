"""The prompt of a flow that is run from the shell: a file, or standard input."""

from __future__ import annotations

import sys
from pathlib import Path

from torvyn.components.config import wrong_config
from torvyn.components.spec import Spec
from torvyn.errors import MissingError


def read_prompt(spec: Spec, path: str | None) -> str:
    """The text of the file, or of standard input; a last line end is no part of it."""
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
