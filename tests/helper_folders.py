"""Where the helper modules of tests lie: `conftest.py` puts these folders on `sys.path`.

pytest itself puts none there (`--import-mode=importlib`), so that it does not depend on which tests
run whether a helper is found. A helper is imported by its own name, which no other module may have:
`test_imports.py` checks that.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parent


def modules() -> list[Path]:
    """The files that others import: all but `conftest.py`."""
    return sorted(file for file in TESTS.rglob("*.py") if file.name not in _ENTRIES)


def folders() -> list[str]:
    return sorted({str(file.parent) for file in modules()})


_ENTRIES: Final = {"conftest.py", "__main__.py"}
