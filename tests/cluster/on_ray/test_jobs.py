"""What crosses between the command and the groups: errors, files, statistics."""

from __future__ import annotations

import io
import os
import pickle
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

import torvyn
from torvyn._cluster.job import ErrorReport
from torvyn._cluster.merged_statistics import merge_statistics
from torvyn._cluster.placement import place
from torvyn._cluster.project_copy import copy_project, open_project
from torvyn._cluster.ray_cluster import parse_target
from torvyn._contract.enums import FlowState
from torvyn._link.overrides import Overrides
from torvyn._manifest.parse import parse, read
from torvyn.errors import ArtifactError, FlowError, LinkError, UsageError

PROJECT = """\
[torvyn]
name = "x"
version = "0.1.0"
contract_version = "0.1.0"

[[component]]
name = "part"
path = "part"

[flow.main.nodes.a]
component = "lines"
config = { path = "${NAME}.txt" }

[flow.main.nodes.b]
component = "part"

[[flow.main.edges]]
from = "a"
to = "b"
"""


def sent(error: BaseException) -> torvyn.TorvynError:
    report = pickle.loads(pickle.dumps(ErrorReport.of(error)))
    return report.error("replica 0 of group `a`")


def test_an_error_keeps_its_class_code_and_hint() -> None:
    error = sent(LinkError("link.cycle", "the edges form a cycle", hint="remove one"))

    assert type(error) is LinkError
    assert (error.code, error.hint, error.exit_code) == ("link.cycle", "remove one", 2)
    assert error.message == "the edges form a cycle (replica 0 of group `a`)"


def test_an_error_keeps_its_node_and_the_traceback_of_its_cause() -> None:
    try:
        try:
            raise ValueError("seven")
        except ValueError as cause:
            raise torvyn.InvalidInput("not a number") from cause
    except torvyn.InvalidInput as raised:
        raised.node = "clean"
        error = sent(raised)

    assert isinstance(error, FlowError)
    assert (error.code, error.node) == ("component.invalid-input", "clean")
    assert "ValueError: seven" in str(error.__cause__)


def test_an_error_of_a_library_is_one_of_the_component() -> None:
    assert sent(KeyError("x")).code == "component.internal"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NAME", "input")
    folder = tmp_path / "project"
    (folder / "part").mkdir(parents=True)
    (folder / "Torvyn.toml").write_text(PROJECT)
    (folder / "part" / "part.py").write_text("import torvyn\n")
    (folder / "input.txt").write_text("1\n")
    (folder / "unneeded.bin").write_text("")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return folder


def test_the_machine_of_the_command_uses_the_project_where_it_is(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = copy_project(read("Torvyn.toml"), Overrides(), has_archive=True)
    monkeypatch.chdir("/")

    assert open_project(copy, Overrides()) == (project / "Torvyn.toml", Overrides())
    assert Path.cwd() == project


def test_another_machine_gets_the_files_and_the_variables(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = copy_project(read("Torvyn.toml"), Overrides(), has_archive=True)
    elsewhere = pickle.loads(pickle.dumps(replace(copy, host="other")))
    monkeypatch.delenv("NAME")

    manifest, overrides = open_project(elsewhere, Overrides())

    assert os.environ["NAME"] == "input"
    assert manifest != project / "Torvyn.toml"
    assert {path.name for path in manifest.parent.iterdir()} == {"Torvyn.toml", "part", "input.txt"}
    assert overrides.packed_files == {"Torvyn.toml", "part/part.py", "input.txt"}
    assert open_project(elsewhere, Overrides())[0] == manifest, "replicas share the copy"


def test_links_and_modes_of_files_travel_as_plain_files(project: Path) -> None:
    (project / "input.txt").rename(project / "data.bin")
    (project / "input.txt").symlink_to("data.bin")
    (project / "part" / "part.py").chmod(0o755)
    copy = copy_project(read("Torvyn.toml"), Overrides(), has_archive=True)

    manifest, _ = open_project(replace(copy, host="other"), Overrides())

    assert not (manifest.parent / "input.txt").is_symlink()
    assert (manifest.parent / "input.txt").read_text() == "1\n"
    names = ("part/part.py", "input.txt")
    modes = [(manifest.parent / name).stat().st_mode & 0o777 for name in names]
    assert modes == [0o755, 0o644]


def archive_of(*members: tarfile.TarInfo) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(bytes(member.size)))
    return data.getvalue()


def member(name: str, type: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = type, target
    made.size = 3 if type == tarfile.REGTYPE else 0
    return made


@pytest.mark.parametrize(
    "bad",
    [
        (member("../outside"),),
        (member("/tmp/outside"),),
        (member("a/../../outside"),),
        (member("a"), member("a")),
        (member("a"), member("a/b")),
        (member("a", tarfile.SYMTYPE, ".."), member("a/outside")),
        (member("a", tarfile.SYMTYPE, "/etc/passwd"),),
        (member("a", tarfile.LNKTYPE, "/etc/passwd"),),
        (member("a", tarfile.CHRTYPE),),
        (member("a", tarfile.BLKTYPE),),
        (member("a", tarfile.FIFOTYPE),),
        (member("a", tarfile.DIRTYPE),),
    ],
    ids=lambda bad: f"{bad[-1].name}-{bad[-1].type.decode()}",
)
def test_a_copy_that_leads_elsewhere_is_refused(
    bad: tuple[tarfile.TarInfo, ...], project: Path
) -> None:
    copy = copy_project(read("Torvyn.toml"), Overrides(), has_archive=True)
    copy = replace(copy, host="other", archive=archive_of(member("good"), *bad))

    with pytest.raises(ArtifactError):
        open_project(copy, Overrides())

    # Nothing of it is left, inside of its folder or outside.
    (parent,) = project.parent.glob("torvyn-projects-*")
    assert list(parent.iterdir()) == []
    assert not list(project.parent.rglob("outside"))


def test_a_large_project_is_not_sent(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torvyn._cluster.project_copy.LARGEST_BYTES", 1)

    with pytest.raises(LinkError) as caught:
        copy_project(parse(PROJECT), Overrides(), has_archive=True)

    assert caught.value.code == "cluster.project-too-large"


def test_statistics_of_replicas_are_added() -> None:
    flow = torvyn.Flow().add("a", torvyn.source(["1", "2"])).add("b", torvyn.sink(lambda e: None))
    flow.connect("a", "b")
    one = flow.run()
    two = merge_statistics(place(flow.plan), [("a", one), ("a", one)], FlowState.COMPLETED, 3.0)

    assert (two.produced, two.emitted, two.elapsed_s) == (4, 4, 3.0)
    assert (two.edges[0].entered, two.edges[0].taken, two.edges[0].unread) == (4, 4, 0)
    assert two.nodes["a"].peak_bytes == one.nodes["a"].peak_bytes


def test_an_end_that_lost_its_counts_is_completed_by_the_other() -> None:
    flow = torvyn.Flow().add("a", torvyn.source(["1", "2"])).add("b", torvyn.sink(lambda e: None))
    flow.connect("a", "b", carrier="nats")
    placement = place(flow.plan)
    flow = torvyn.Flow().add("a", torvyn.source(["1", "2"])).add("b", torvyn.sink(lambda e: None))
    whole = flow.connect("a", "b").run()
    late = replace(whole, edges=(replace(whole.edges[0], entered=1, taken=1),))
    for parts in ([("a", whole), ("b", late)], [("a", late), ("b", whole)]):
        merged = merge_statistics(placement, parts, FlowState.COMPLETED, 3.0).edges[0]
        assert (merged.entered, merged.taken, merged.dropped, merged.unread) == (2, 2, 0, 0)

    parts = [("a", whole), ("b", late)]
    merged = merge_statistics(placement, parts, FlowState.FAILED, 3.0).edges[0]
    assert (merged.entered, merged.taken, merged.dropped, merged.unread) == (2, 1, 0, 1)


@pytest.mark.parametrize("on", ["kubernetes", "ray:", "host", "ray://host", ":80"])
def test_what_is_no_cluster_is_refused(on: str) -> None:
    with pytest.raises(UsageError):
        parse_target(on)


@pytest.mark.parametrize("on", ["ray://head:10001", "10.0.0.2:6379"])
def test_a_cluster_has_an_address(on: str) -> None:
    assert parse_target(on).address == on
