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
    "manifest.bad-substitution": "A `${` in a string is no variable, or its value is no text.",
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
    "link.bad-override": "A `--config node.key=value` does not fit the node's config.",
    "link.bad-policy": "An `on_error` is not a policy, or its parts do not fit together.",
    "link.bad-ports": "A router has no ports, or ports that are not names.",
    "link.bad-run": "A node cannot run the way it is told to.",
    "link.bad-value": "A flow made in a program has a value that its key may not have.",
    "link.component-construct": "A component's `__init__` needs arguments or failed.",
    "link.component-import": "The file of a component cannot be imported.",
    "link.component-many-classes": "A component's file has several classes with a role.",
    "link.component-missing": "The folder or file of a declared component is not there.",
    "link.component-no-class": "A component's file has no class with a role.",
    "link.component-unknown": "A node names a component that does not exist.",
    "link.component-unsupported": "A node names a component that this build does not run.",
    "link.cycle": "The edges run in a circle.",
    "link.dead-end": "What a node sends reaches no sink.",
    "link.edge-repeated": "Two edges join the same port to the same node.",
    "link.entry-unknown": "The class that `entry` names is not a component.",
    "link.flow-ambiguous": "No flow was named, and the file has none or several.",
    "link.flow-unknown": "A flow was named that is not in the file.",
    "link.input-port-unknown": "An edge leads to an input port that does not exist.",
    "link.interface-mismatch": "A node's `interface` is not that of its component.",
    "link.interface-unknown": "A node's `interface` does not exist.",
    "link.method-missing": "A component lacks the method of its role.",
    "link.no-sink": "The flow has no sink.",
    "link.no-source": "The flow has no source.",
    "link.node-unknown": "An edge, a policy or an option names a node that does not exist.",
    "link.open-ends": "A flow fed or iterated by a program has more than one open end.",
    "link.port-unknown": "An edge starts at an output port that does not exist.",
    "link.sink-has-output": "An edge starts at a sink.",
    "link.source-has-input": "An edge leads to a source.",
    "link.too-many-edges": "A port has more than 16 edges.",
    "link.unreachable": "A node cannot be reached from a source.",
    # reactor: flows that run
    # cli: the command line
    "cli.bad-usage": "The command line is not one that the command takes.",
    "cli.bad-value": "An option or argument has a value that it may not have.",
    "cli.baseline-unreadable": "The file that `bench --compare` names cannot be read.",
    "cli.baseline-unusable": "The file that `bench --compare` names is no result of this flow.",
    "cli.bug": "Something failed inside torvyn that should not have.",
    "cli.file-exists": "`init` would have to overwrite a file, and does not.",
    "cli.file-unwritable": "A file that a command makes cannot be written.",
    "cli.missing-argument": "An option or argument that the command needs is not there.",
    "cli.no-such-end": "`--input` or `--output` was given to a flow it does not fit.",
    "cli.nothing-measured": "The flow that `bench` runs produced nothing.",
    "cli.output-failed": "Standard output cannot be written, for instance because a disk is full.",
    "cli.regressed": "`bench --compare` found the flow slower than the threshold allows.",
    "cli.unknown-command": "There is no command of that name.",
    "cli.unknown-option": "The command has no option of that name.",
}
