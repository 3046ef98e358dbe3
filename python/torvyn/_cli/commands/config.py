"""`torvyn config`: shows the settings and where each value comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torvyn._cli.command import command as make_command
from torvyn._cli.screen import Screen
from torvyn._cli.target import manifest_option, manifest_path, set_option, setting_pairs

if TYPE_CHECKING:
    from torvyn._manifest.settings import Setting

EXAMPLE = """\
torvyn config
TORVYN_RUNTIME__WORKER_THREADS=4 torvyn config --format json"""


@make_command("config", example=EXAMPLE)
@manifest_option
@set_option
def command(screen: Screen, manifest: str, settings: tuple[str, ...]) -> int:
    """Show the settings and where each value comes from.

    Flags override TORVYN_* variables, which override Torvyn.toml, which overrides your user config,
    which overrides the defaults. Values from `${NAME}` variables are hidden.
    """
    from torvyn._manifest.parse import read
    from torvyn._manifest.settings import resolve

    path = manifest_path(manifest)
    # Settings exist without a project as well, but a file that the user names must exist.
    record = read(path) if path.exists() or manifest != "Torvyn.toml" else None
    values = resolve(record, flags=setting_pairs(settings))
    screen.secrets = values.secrets
    if screen.is_json:
        screen.document({"settings": [_fields(screen, setting) for setting in values]})
        return 0
    from torvyn._cli.statistics import table

    rows = [(setting.name, screen.redact(setting.text), _origin(setting)) for setting in values]
    screen.data(table(("setting", "value", "from"), rows))
    return 0


def _origin(setting: Setting) -> str:
    place = setting.location
    if place is None:
        return setting.origin
    return str(place) if place.file == setting.origin else f"{setting.origin}, {place}"


def _fields(screen: Screen, setting: Setting) -> dict[str, Any]:
    place, text = setting.location, screen.redact(setting.text)
    return {
        "name": setting.name,
        "value": setting.value if text == setting.text else text,
        "text": text,
        "origin": setting.origin,
        "location": None if place is None else str(place),
    }
