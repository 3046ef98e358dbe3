"""The catalogue of error codes: `room.kebab-words`, each documented here and raised by a test.

One section a room. The reference page is generated from this table; `tests/catalogue` raises every
code.
"""

from __future__ import annotations

from typing import Final

CATALOGUE: Final[dict[str, str]] = {
    # contract: a component breaks the promise of its role
    "contract.not-a-component": "A node was given something that is not a component.",
    "contract.wrong-result": "A component's method answered with what its role does not allow.",
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
    "manifest.bad-duration": "A value is not a duration such as `100us`, `5s` or `1.5h`.",
    "manifest.bad-name": "A name holds something else than letters, digits, `_` and `-`.",
    "manifest.bad-size": "A value is not a size such as `64KiB` or `1MiB`.",
    "manifest.bad-substitution": "A `${` in a string is not followed by a name and `}`.",
    "manifest.bad-value": "A value is of the right type, but not one that its key may have.",
    "manifest.duplicate-component": "Two `[[component]]` tables have one name.",
    "manifest.missing-key": "A table lacks a key that it must have.",
    "manifest.no-flow": "The file describes no flow.",
    "manifest.not-found": "The manifest's file is not there.",
    "manifest.not-utf8": "The manifest's text is not UTF-8.",
    "manifest.setting-unknown": "A `TORVYN_*` variable or a flag names no setting.",
    "manifest.syntax": "The text is not TOML.",
    "manifest.too-deep": "Tables or arrays of the text are nested too deeply.",
    "manifest.unknown-key": "A table has a key that does not exist.",
    "manifest.unreadable": "The manifest's file is there but cannot be read.",
    "manifest.unsupported": "A value is right, but this build does not run it.",
    "manifest.variable-undefined": "A string asks for an environment variable that is not set.",
    "manifest.wrong-type": "A value is of the wrong type, such as a string for a number.",
    # link: the graph it describes
    # reactor: flows that run
    # cli: the command line
}
