"""`torvyn inspect`: describes a WebAssembly component or an artifact without running it."""

from __future__ import annotations

from typing import Any

import click

from torvyn._cli.artifact_options import fetch_arguments, fetch_artifact
from torvyn._cli.command import command as make_command
from torvyn._cli.screen import Screen
from torvyn._io.safe_text import escape_line

EXAMPLE = """\
torvyn inspect guard.wasm
torvyn inspect oci:./dist:1.2
torvyn inspect guard.wasm --format json"""


@make_command("inspect", example=EXAMPLE)
@click.argument("target", metavar="FILE|REFERENCE")
@fetch_arguments
def command(screen: Screen, target: str, **options: bool) -> int:
    """Describe a WebAssembly component or an artifact.

    For a component: its world, role and size, its imports and exports, and the capabilities that
    it needs. It is compiled and linked as for a flow, but not started. For an artifact: its digest,
    its annotations and its files, and the artifacts that refer to it, such as signatures.
    """
    from pathlib import Path

    is_artifact = target.startswith("oci:") or Path(target).is_dir()
    if is_artifact:
        facts = _artifact_facts(screen, target, options)
    else:
        facts = _component_facts(Path(target))
    if screen.is_json:
        screen.document(facts)
    else:
        lines = _artifact_lines(facts) if is_artifact else _lines(facts)
        screen.data("\n".join(map(escape_line, lines)))
    return 0


def _component_facts(path: Any) -> dict[str, Any]:
    from torvyn._sandbox.compiler import describe_component

    return describe_component(path)


def _artifact_facts(screen: Screen, reference: str, options: dict[str, bool]) -> dict[str, Any]:
    from torvyn._artifact.layout import describe_artifact
    from torvyn._artifact.trust import Rule, TrustPolicy

    # Nothing of it is run: you may look at what you do not trust.
    policy = TrustPolicy((Rule("", "allow"),))
    fetched = fetch_artifact(
        screen,
        reference,
        policy=policy,
        offline=options["offline"],
        insecure=options["insecure"],
    )
    return describe_artifact(fetched.layout, fetched.descriptor)


def _artifact_lines(facts: dict[str, Any]) -> list[str]:
    lines = [facts["digest"], f"{facts['artifact_type']}, {facts['size_bytes']} bytes"]
    prefix = "org.opencontainers.image."
    lines += [f"{key.removeprefix(prefix)}: {text}" for key, text in facts["annotations"].items()]
    width = max((len(str(file["size_bytes"])) for file in facts["files"]), default=0)
    lines += ["files:"]
    lines += [f"  {file['size_bytes']:>{width}}  {file['path']}" for file in facts["files"]]
    lines += ["referrers:"]
    lines += [f"  {each['digest']}  {each['artifact_type']}" for each in facts["referrers"]]
    return lines if facts["referrers"] else [*lines, "  none"]


def _lines(facts: dict[str, Any]) -> list[str]:
    lines = [
        f"{facts['file']}: {facts['role']}, world {facts['world']}, {facts['size_bytes']} bytes",
        f"{facts['functions']} functions in {facts['modules']} modules, "
        f"{facts['code_bytes']} bytes of code, {facts['data_bytes']} of data, "
        f"{facts['memory_bytes']} of memory at the start",
    ]
    for name in ("imports", "exports", "capabilities"):
        lines.append(f"{name}:")
        lines += [f"  {item}" for item in facts[name]] or ["  none"]
    return lines
