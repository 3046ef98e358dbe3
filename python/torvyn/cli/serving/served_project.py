"""The project whose flows `torvyn serve` serves: a manifest, an artifact, or only engines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from torvyn.cli.target import machine_cache_dir, manifest_path

if TYPE_CHECKING:
    from torvyn._link.plan import Plan
    from torvyn._link.project_linker import ProjectLinker
    from torvyn.cli.screen import Screen

DEFAULT = "Torvyn.toml"


@dataclass(frozen=True)
class ServedProject:
    manifest: str | None
    engines: tuple[str, ...]
    flags: dict[str, str]
    artifact: str | None = None
    is_trusted: bool = False
    """Whether the precompiled code of an unpacked artifact is used."""

    @property
    def folder(self) -> Path:
        """Of the project, if it needs not be fetched."""
        return Path(self.artifact or manifest_path(self.manifest or DEFAULT).parent)

    def moved(self, folder: Path, is_trusted: bool) -> ServedProject:
        """The same project in another folder."""
        if self.artifact is None:
            return replace(self, manifest=str(folder))
        return replace(self, artifact=str(folder), is_trusted=is_trusted)

    def linker(self, screen: Screen | None = None) -> ProjectLinker:
        """The linker of the manifest; of an empty one when no manifest is used."""
        from torvyn._link.overrides import Overrides
        from torvyn._link.project_linker import ProjectLinker
        from torvyn._manifest.records import Manifest

        overrides = Overrides(settings=self.flags)
        if self.artifact is not None:
            from torvyn.cli.artifacts.access import prepare_artifact
            from torvyn.cli.screen import Screen as NewScreen

            project = prepare_artifact(
                screen or NewScreen(quiet=True),
                self.artifact,
                machine_cache_dir({}),
                offline=False,
                insecure=False,
                trusted=self.is_trusted,
            )
            overrides = replace(overrides, packed_files=project.files)
            return ProjectLinker.open(project.manifest, overrides)
        if self.manifest is not None or (not self.engines and Path(DEFAULT).exists()):
            return ProjectLinker.open(manifest_path(self.manifest or DEFAULT), overrides)
        return ProjectLinker(Manifest(), overrides)

    def plans(self, linker: ProjectLinker | None = None) -> dict[str, Plan]:
        """The plans to serve, from the files as they are now; none when engines are served."""
        from torvyn.transport.services import served_plans

        linker = linker or self.linker()
        if self.engines or not linker.manifest.flows:
            linker.raise_problems()
            return {}
        return served_plans(linker)

    def written_folder(self, linker: ProjectLinker) -> Path:
        """The folder that the paths of keys, certificates and logs are relative to."""
        return Path.cwd() if self.artifact is not None else Path(linker.manifest.file).parent
