"""`torvyn pack`: packs a project or a component as an OCI artifact in a local layout."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from torvyn._cli.command import command as make_command
from torvyn._cli.screen import Screen
from torvyn._cli.target import machine_cache_dir, manifest_option, manifest_path

if TYPE_CHECKING:
    from torvyn._artifact.lock import Lock
    from torvyn._artifact.oci import Digest
    from torvyn._artifact.pack import Packed, PackOptions
    from torvyn._manifest.records import Manifest

EXAMPLE = """\
torvyn pack
torvyn pack --output /media/stick/gateway --tag 1.2
torvyn pack --component content-filter --tag 0.3"""


@make_command("pack", example=EXAMPLE)
@manifest_option
@click.option(
    "--output",
    default="dist",
    show_default=True,
    metavar="FOLDER",
    help="The layout that the artifact is added to; created if it does not exist.",
)
@click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="TAG",
    help="The artifact's tag; by default the version of the project. Repeatable.",
)
@click.option("--component", metavar="NAME", help="Pack this component instead of the project.")
@click.option(
    "--include",
    multiple=True,
    metavar="PATTERN",
    help="Add files, such as 'models/**'; see also [pack] in the manifest. Repeatable.",
)
@click.option(
    "--with-wheels",
    is_flag=True,
    help="Add the wheels of requirements.txt, of the project and of each component that runs in "
    "the process, so that the gateway needs no index.",
)
@click.option(
    "--platform",
    "platforms",
    multiple=True,
    metavar="TARGET",
    help="The machines that the wheels are for: x86_64-linux or aarch64-linux; by default this "
    "one. Repeatable.",
)
@click.option(
    "--precompile",
    multiple=True,
    metavar="TARGET",
    help="Add compiled code of sandboxed components for x86_64-linux or aarch64-linux, so that "
    "their first start is fast. It is used only if a trusted key has signed the artifact. "
    "Repeatable.",
)
@click.option(
    "--revision", default="", metavar="TEXT", help="The revision of the sources, such as a commit."
)
@click.option("--locked", is_flag=True, help="Fail instead of changing torvyn.lock.")
@click.option(
    "--update-lock",
    is_flag=True,
    help="Accept new digests of files that were not built here.",
)
def command(screen: Screen, manifest: str, **options: Any) -> int:
    """Pack a project or a component as an artifact.

    Builds the components that run in a sandbox, checks the project, and writes an OCI artifact
    with everything that it needs: the manifest, the components, their WIT, the files that the
    configs of nodes name, torvyn.lock, an SBOM and its provenance. Two packs of the same files are
    identical. The artifact runs without a toolchain and without a network.
    """
    from dataclasses import replace

    from torvyn._artifact.pack import PackOptions, pack
    from torvyn._artifact.unpack import remember_local_pack

    path = manifest_path(manifest)
    record = _checked(screen, path)
    pack_options = replace(
        _pack_options(PackOptions, options),
        pull=lambda reference, lock: _pull(reference, path.parent, lock),
        on_compile=lambda file, target: screen.info(f"compiling {file} for {target} ..."),
    )
    made = pack(record, pack_options)
    if pack_options.targets:
        remember_local_pack(made.descriptor.digest, machine_cache_dir({}))
    _show(screen, made)
    return 0


def _pack_options(kind: type[PackOptions], options: dict[str, Any]) -> PackOptions:
    return kind(
        Path(options["output"]),
        options["tags"],
        options["component"],
        options["include"],
        options["revision"],
        is_locked=options["locked"],
        updates_lock=options["update_lock"],
        has_wheels=options["with_wheels"],
        platforms=options["platforms"],
        targets=options["precompile"],
    )


def _checked(screen: Screen, path: Path) -> Manifest:
    """The manifest, after its components were built and its flows were linked."""
    from torvyn._artifact.pack import PLACEHOLDERS, with_placeholders
    from torvyn._link.overrides import Overrides
    from torvyn._link.project_linker import ProjectLinker
    from torvyn._manifest.parse import read
    from torvyn._sandbox.build import build_or_reuse
    from torvyn._sandbox.project import guest_of, is_built

    record = read(path, environ=PLACEHOLDERS)
    for component in record.components:
        guest = guest_of(component, path.parent)
        if is_built(component, guest):
            build_or_reuse(guest, on_start=lambda guest: _announce(screen, guest.name))
    linker = ProjectLinker.open(path, Overrides(checks_locks=False), environ=with_placeholders())
    linker.check()
    linker.raise_problems()
    screen.warn(linker.problems.warnings())
    return record


def _pull(reference: str, folder: Path, lock: Lock | None) -> tuple[Digest, Path]:
    from torvyn._link.artifacts import pull_component

    pulled = pull_component(reference, folder, lock, machine_cache_dir({}))
    return pulled.digest, pulled.file


def _announce(screen: Screen, name: str) -> None:
    screen.info(f"building {name} ...")


def _show(screen: Screen, made: Packed) -> None:
    files = made.manifest.files()
    if screen.is_json:
        screen.document(
            {
                "layout": str(made.layout.folder),
                "digest": made.descriptor.digest,
                "tags": list(made.tags),
                "artifact_type": made.manifest.artifact_type,
                "files": {path: layer.size for path, layer in files.items()},
                "size_bytes": made.size_bytes,
                "lock_changed": made.lock_changed,
            }
        )
        return
    screen.data("\n".join(f"oci:{made.layout.folder}:{tag}" for tag in made.tags))
    size = f"{made.size_bytes / 1024:,.1f} KiB"
    screen.info("", f"{len(files)} files, {size}, {made.descriptor.digest}")
    if made.lock_changed:
        screen.info("torvyn.lock was updated; commit it")
