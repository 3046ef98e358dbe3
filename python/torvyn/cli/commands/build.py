"""`torvyn build`: the project's guests in C and Python become WebAssembly components."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from torvyn.cli.command_decorator import command as make_command
from torvyn.cli.screen import Screen
from torvyn.cli.target import manifest_option, manifest_path
from torvyn.errors import UsageError

if TYPE_CHECKING:
    from torvyn.manifest.records import ComponentRecord
    from torvyn.sandbox.build.build import BuildResult
    from torvyn.sandbox.build.project import GuestProject

_LARGE_BYTES = 1 << 20
"""Smaller ones are compiled before anybody could read that they are."""

EXAMPLE = """\
torvyn build
torvyn build content-filter --force
torvyn build components/content-filter"""


@make_command("build", example=EXAMPLE)
@click.argument("components", nargs=-1, metavar="[COMPONENT]...")
@manifest_option
@click.option("--force", is_flag=True, help="Build what is up to date as well.")
def command(screen: Screen, components: tuple[str, ...], manifest: str, force: bool) -> int:
    """Build components that run in a sandbox.

    A COMPONENT is the name of one in the manifest, or a folder; without any, all in the manifest
    that run in a sandbox are built. FOLDER/build/NAME.wasm is made, if it is not up to date, and
    compiled for this machine into the cache, so that the first run starts at once.

    C needs `pip install 'torvyn[c]'`, Python `pip install 'torvyn[python-guest]'`.
    """
    from torvyn.sandbox.build.build import build

    started = time.monotonic()
    cache_dir = _cache_dir(manifest_path(manifest))
    found = []
    for guest in _guests(components, manifest_path(manifest)):
        built = build(guest, force=force, on_start=lambda guest: _say(screen, guest))
        _compile(screen, built, cache_dir)
        found.append(built)
    if screen.is_json:
        screen.document({"components": [_fields(built) for built in found]})
        return 0
    if not found:
        screen.say("nothing to build: no component of the manifest runs in a sandbox")
        return 0
    for built in found:
        screen.data(f"{_shown(built.path)}  {built.world}  {_size(built.size_bytes)}")
    fresh = sum(built.was_built for built in found)
    took = f" in {time.monotonic() - started:.1f} s" if fresh else ""
    screen.say("", f"{fresh} built{took}, {len(found) - fresh} up to date")
    return 0


def _cache_dir(manifest: Path) -> Path | None:
    """Where a run of this project looks for compiled code; None is the usual place."""
    from torvyn.link.project_linker import library_of
    from torvyn.manifest import read, resolve

    if not manifest.is_file():
        return None
    record = read(manifest)
    return library_of(record, resolve(record)).cache_dir


def _compile(screen: Screen, built: BuildResult, cache_dir: Path | None) -> None:
    from torvyn.sandbox.compile_cache import compile_component

    name = built.guest.name
    if built.was_built and built.size_bytes > _LARGE_BYTES:
        screen.say(f"compiling {name} for this machine; it takes a while, once ...")
    compile_component(built.path, name, cache_dir)


def _guests(names: tuple[str, ...], manifest: Path) -> list[GuestProject]:
    """What is to be built. A folder needs no manifest."""
    from torvyn.sandbox.build.project import GuestProject, detect_language

    declared = _declared(manifest, needed=not names or not all(map(_is_folder, names)))
    if not names:
        return [guest for record, guest in declared.values() if _is_sandboxed(record, guest)]
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


def _declared(manifest: Path, needed: bool) -> dict[str, tuple[ComponentRecord, GuestProject]]:
    from torvyn.manifest import read
    from torvyn.sandbox.build.project import GuestProject, detect_language

    if not needed and not manifest.is_file():
        return {}
    found = {}
    for record in read(manifest).components:
        folder = manifest.parent / record.path
        language = record.language or detect_language(folder) or ""
        found[record.name] = (record, GuestProject(record.name, folder, language, record.entry))
    return found


def _is_sandboxed(record: ComponentRecord, guest: GuestProject) -> bool:
    """Python runs in-process unless it is told otherwise; a ready component needs no build."""
    if record.path.endswith(".wasm") or guest.language == "wasm":
        return False
    return record.isolation == "wasm" or guest.language != "python"


def _is_folder(name: str) -> bool:
    return Path(name).is_dir()


def _unknown(name: str, known: list[str], manifest: Path) -> UsageError:
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=1)
    listed = ", ".join(f"`{one}`" for one in known)
    hint = f"did you mean `{near[0]}`?" if near else f"its components are {listed or 'none'}"
    message = f"{_shown(manifest)} has no component `{name}`, and there is no such folder"
    return UsageError("cli.component-unknown", message, hint=hint)


def _say(screen: Screen, guest: GuestProject) -> None:
    screen.say(f"building {guest.name} ({guest.language}) ...")


def _fields(built: BuildResult) -> dict[str, Any]:
    return {
        "name": built.guest.name,
        "language": built.guest.language,
        "path": str(built.path),
        "world": built.world,
        "size_bytes": built.size_bytes,
        "built": built.was_built,
    }


def _shown(path: Path) -> str:
    from torvyn.sandbox.build.project import display_path

    return display_path(path)


def _size(size_bytes: int) -> str:
    if size_bytes < 1024 * 1024:
        return f"{size_bytes / 1024:.1f} KiB"
    return f"{size_bytes / 1024 / 1024:.1f} MiB"
