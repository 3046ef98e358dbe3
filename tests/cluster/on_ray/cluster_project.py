"""A project in a folder, and its flow on a cluster."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torvyn._cluster.flow_run import ClusterRun, ClusterRunEnd
from torvyn._cluster.session import ClusterRequest, open_run
from torvyn._link.overrides import Overrides
from torvyn._link.project_linker import ProjectLinker

HEAD = '[torvyn]\nname = "x"\nversion = "0.1.0"\ncontract_version = "0.1.0"\n'


class ClusterProject:
    """`write` makes a chain; `>>` in front of a node makes the edge to it a `nats` edge."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def component(self, name: str, code: str) -> None:
        path = self.folder / name
        path.mkdir()
        (path / "component.py").write_text("import torvyn\n\n" + textwrap.dedent(code))

    def write(self, **nodes: str) -> None:
        text, previous = HEAD, ""
        for name in sorted(path.name for path in self.folder.iterdir() if path.is_dir()):
            text += f'[[component]]\nname = "{name}"\npath = "{name}"\n'
        for name, options in nodes.items():
            carrier = 'carrier = "nats"\n' if options.startswith(">>") else ""
            text += f"[flow.main.nodes.{name}]\n{options.removeprefix('>>')}\n"
            if previous:
                text += f'[[flow.main.edges]]\nfrom = "{previous}"\nto = "{name}"\n{carrier}'
            previous = name
        (self.folder / "Torvyn.toml").write_text(text)

    def request(self, on: str, **options: Any) -> ClusterRequest:
        settings = {"cluster.nats": options.pop("nats")} if "nats" in options else {}
        overrides = Overrides(settings=settings, deadline_s=options.pop("deadline_s", None))
        linker = ProjectLinker.open(self.folder / "Torvyn.toml", overrides)
        return ClusterRequest(linker.plan(), linker.manifest, overrides, on, **options)

    @contextmanager
    def open(self, on: str, **options: Any) -> Iterator[ClusterRun]:
        with open_run(self.request(on, **options)) as run:
            yield run

    def run(self, on: str, **options: Any) -> ClusterRunEnd:
        with self.open(on, **options) as run:
            return run.run()
