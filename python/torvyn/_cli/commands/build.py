"""`torvyn build`: compiles a project's guests in C and Python to WebAssembly components."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from torvyn._cli.command import command as make_command
from torvyn._cli.screen import Screen
from torvyn._cli.target import manifest_option, manifest_path
from torvyn.errors import UsageError

if TYPE_CHECKING:
    from torvyn._manifest.records import ComponentRecord
    from torvyn._sandbox.build import BuildResult
    from torvyn._sandbox.project import GuestProject

_LARGE_BYTES = 1 << 20
"""Smaller components compile too fast for a message."""

EXAMPLE = """\
torvyn build
torvyn build content-filter --force
torvyn build components/content-filter"""


@make_command("build", example=EXAMPLE)
@click.argument("components", nargs=-1, metavar="[COMPONENT]...")
@manifest_option
@click.option("--force", is_flag=True, help="Also build components that are up to date.")
def command(screen: Screen, components: tuple[str, ...], manifest: str, force: bool) -> int:
    """Build the components that run in a sandbox.

    COMPONENT is the name of a component in the manifest, or a folder. By default all sandboxed
    components of the manifest are built. The result is FOLDER/build/NAME.wasm; it is also compiled
    for this machine into a cache, so that the first run starts fast.

    Components in C need `pip install ziglang`, components in Python need `pip install
    componentize-py`.
    """
    from torvyn._io import native_parts
    from torvyn._sandbox.build import build

    native_parts.require("sandbox")
    started = time.monotonic()
    cache_dir = _cache_dir(manifest_path(manifest))
    results = []
    for guest in _guests(components, manifest_path(manifest)):
        result = build(guest, force=force, on_start=lambda guest: _announce(screen, guest))
        _compile(screen, result, cache_dir)
        results.append(result)
    if screen.is_json:
        screen.document({"components": [_fields(result) for result in results]})
        return 0
    if not results:
        screen.info("nothing to build: no component of the manifest runs in a sandbox")
        return 0
    for result in results:
        screen.data(f"{_display(result.path)}  {result.world}  {_size(result.size_bytes)}")
    fresh = sum(result.was_built for result in results)
    took = f" in {time.monotonic() - started:.1f} s" if fresh else ""
    screen.info("", f"{fresh} built{took}, {len(results) - fresh} up to date")
    return 0


def _cache_dir(manifest: Path) -> Path | None:
    """Where a run of this project looks for compiled code; None is the default folder."""
    from torvyn._link.project_linker import library_of
    from torvyn._manifest.parse import read
    from torvyn._manifest.settings import resolve

    if not manifest.is_file():
        return None
    record = read(manifest)
    return library_of(record, resolve(record)).cache_dir


def _compile(screen: Screen, result: BuildResult, cache_dir: Path | None) -> None:
    from torvyn._sandbox.compiler import compile_component

    name = result.guest.name
    if result.was_built and result.size_bytes > _LARGE_BYTES:
        screen.info(f"compiling {name} for this machine; this takes a while the first time ...")
    compile_component(result.path, name, cache_dir)


def _guests(names: tuple[str, ...], manifest: Path) -> list[GuestProject]:
    """The guests to build. A folder needs no manifest."""
    from torvyn._sandbox.project import GuestProject, detect_language, is_built

    declared = _manifest_guests(manifest, needed=not names or not all(map(_is_folder, names)))
    if not names:
        return [guest for record, guest in declared.values() if is_built(record, guest)]
    guests = []
    for name in names:
        if name in declared:
            guests.append(declared[name][1])
        elif _is_folder(name):
            folder = Path(name)
            guests.append(
                GuestProject(folder.resolve().name, folder, detect_language(folder) or "")
            )
        else:
            raise _unknown(name, list(declared), manifest)
    return guests


def _manifest_guests(
    manifest: Path, needed: bool
) -> dict[str, tuple[ComponentRecord, GuestProject]]:
    from torvyn._manifest.parse import read
    from torvyn._sandbox.project import guest_of

    if not needed and not manifest.is_file():
        return {}
    records = read(manifest).components
    return {record.name: (record, guest_of(record, manifest.parent)) for record in records}


def _is_folder(name: str) -> bool:
    return Path(name).is_dir()


def _unknown(name: str, known: list[str], manifest: Path) -> UsageError:
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=1)
    names = ", ".join(f"`{one}`" for one in known)
    hint = f"did you mean `{near[0]}`?" if near else f"its components are: {names or 'none'}"
    message = f"`{name}` is neither a component of {_display(manifest)} nor a folder"
    return UsageError("cli.component-unknown", message, hint=hint)


def _announce(screen: Screen, guest: GuestProject) -> None:
    screen.info(f"building {guest.name} ({guest.language}) ...")


def _fields(result: BuildResult) -> dict[str, Any]:
    return {
        "name": result.guest.name,
        "language": result.guest.language,
        "path": str(result.path),
        "world": result.world,
        "size_bytes": result.size_bytes,
        "built": result.was_built,
    }


def _display(path: Path) -> str:
    from torvyn._sandbox.project import display_path

    return display_path(path)


def _size(size_bytes: int) -> str:
    if size_bytes < 1024 * 1024:
        return f"{size_bytes / 1024:.1f} KiB"
    return f"{size_bytes / 1024 / 1024:.1f} MiB"
