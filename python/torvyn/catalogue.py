"""The catalogue of error codes: `room.kebab-words`, each documented here and raised by a test.

One section a room. The reference page is generated from this table; `tests/test_catalogue.py` raises every code.
"""

from __future__ import annotations

from typing import Final

CATALOGUE: Final[dict[str, str]] = {
    # contract: a component breaks the promise of its role
    "contract.not-a-component": "A node was given something that is not a component.",
    "contract.wrong-result": "A component's method answered with something its role does not allow.",
    "contract.wrong-config": "A component's config has an unknown, missing or unfitting option.",
    # component: raised by components, by who is at fault
    "component.invalid-input": "The element is bad. Never retried.",
    "component.unavailable": "Something the component needs is away. A retry may help.",
    "component.internal": "The component is wrong; every other exception becomes this.",
    "component.deadline-exceeded": "A call or the flow took longer than it may.",
    "component.fatal": "The component cannot go on. Stops the flow under every policy.",
    # components: the built-in parts
    "components.file-missing": "A file to read, or the folder of a file to write, is not there.",
    "components.file-unreadable": "A file to be read is there, but it cannot be opened.",
    "components.file-unwritable": "A file cannot be opened for writing.",
    # manifest: the text of Torvyn.toml
    # link: the graph it describes
    # reactor: flows that run
    # cli: the command line
}
