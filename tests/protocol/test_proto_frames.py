"""decode(encode(x)) == x for messages of gRPC; what protoc made is made of today's file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import sample
from test_frame_laws import CALLS, COUNTS, TEXTS, answers, texts_of

from torvyn.errors import InvalidInput
from torvyn.protocol import (
    FINISH_REASONS,
    DeltaFrame,
    Encoder,
    EndFrame,
    ErrorFrame,
    Finish,
    Frame,
    HeartbeatFrame,
    MetaFrame,
    StartFrame,
    Usage,
)
from torvyn.protocol.proto_decoder import frame_from_message
from torvyn.protocol.proto_encoder import ProtoEncoder, message_from_json, messages
from torvyn.v1 import inference_pb2 as pb

PACKAGE = Path(__file__).parents[2] / "python"
PROTO = "torvyn/v1/inference.proto"
IDENTITY: Any = {"id": "a", "flow": "b", "created": 1, "epoch": "e"}
FLOATS = st.floats(allow_nan=False, allow_infinity=False)


def carried(frames: list[Frame]) -> list[Frame | None]:
    """The frames after a journey."""
    start = frames[0]
    assert isinstance(start, StartFrame)
    encoder = ProtoEncoder(
        id=start.id, flow=start.flow, created=start.created, epoch="e", choices=2
    )
    sent = messages([encoder.encode(frame) for frame in frames])
    return [frame_from_message(pb.Frame.FromString(data)) for data in sent]


@settings(deadline=None)
@given(answers())
def test_what_is_encoded_is_decoded(frames: list[Frame]) -> None:
    assert carried(frames) == frames


@st.composite
def logprobs(draw: st.DrawFn, depth: int = 0) -> dict[str, Any]:
    data = draw(st.none() | st.binary().map(list))
    entry: dict[str, Any] = {"token": draw(TEXTS), "logprob": draw(FLOATS), "bytes": data}
    if draw(st.booleans()):
        entry["id"] = draw(st.integers(0, 2**40))
    return entry if depth else entry | {"top_logprobs": draw(st.lists(logprobs(1), max_size=2))}


SCALARS = st.none() | st.booleans() | st.integers() | FLOATS | TEXTS


@settings(deadline=None, max_examples=sample(10, full=40))
@given(
    odds=st.lists(logprobs(), min_size=1, max_size=3).map(tuple),
    call=CALLS,
    data=st.dictionaries(TEXTS, SCALARS | st.lists(SCALARS, max_size=3)),
    words=TEXTS,
    timing=st.dictionaries(TEXTS, FLOATS, min_size=1),
    counts=st.tuples(COUNTS, COUNTS, COUNTS, COUNTS),
)
def test_every_member_of_every_frame_is_carried(
    odds: Any, call: Any, data: Any, words: str, timing: Any, counts: Any
) -> None:
    finish = tuple(Finish(at % 2, reason, words, words) for at, reason in enumerate(FINISH_REASONS))
    frames: list[Frame] = [
        StartFrame(words, words, 7),
        DeltaFrame(1, 1, "reasoning", words, logprobs=odds),
        DeltaFrame(2, 0, "tool_call", call=call, logprobs=odds),
        DeltaFrame(3, 0, "text", ""),
        MetaFrame(4, data),
        ErrorFrame(5, words, words, True),
        HeartbeatFrame(),
        EndFrame(6, finish, Usage(*counts), timing),
    ]
    assert carried(frames) == frames


@settings(deadline=None)
@given(answers())
def test_frames_that_were_kept_as_json_become_the_same_messages(frames: list[Frame]) -> None:
    start = frames[0]
    assert isinstance(start, StartFrame)
    kept = Encoder.of(start, "torvyn", "json", choices=2)

    sent = [message_from_json(kept.encode(frame), "e") for frame in frames]
    assert [frame_from_message(pb.Frame.FromString(data)) for data in sent] == frames
    assert pb.Frame.FromString(sent[0]).start.epoch == "e"


@settings(deadline=None)
@given(st.text(st.characters(), min_size=1))
def test_halves_of_pairs_may_be_cut_anywhere(text: str) -> None:
    units = text.encode("utf-16-le", "surrogatepass")
    pairs = (units[at : at + 2] for at in range(0, len(units), 2))
    parts = [pair.decode("utf-16-le", "surrogatepass") for pair in pairs]
    encoder = ProtoEncoder(**IDENTITY)

    sent = [encoder.text(part) for part in parts]
    sent.append(encoder.encode(EndFrame(encoder.seq + 1, (Finish(0, "stop"),))))
    frames = [pb.Frame.FromString(data) for data in messages(sent)]
    found: list[Any] = [frame_from_message(frame) for frame in frames]
    assert texts_of(found) == units.decode("utf-16-le", "replace")
    assert [frame.seq for frame in frames] == list(range(1, len(frames) + 1))
    assert frames[-1].WhichOneof("frame") == "end"


def test_half_a_surrogate_pair_is_replaced_wherever_it_stands() -> None:
    half = "a\ud83d"
    encoder = ProtoEncoder(id=half, flow=half, created=1, epoch="e")

    sent = [
        encoder.start(),
        encoder.error(half, half),
        encoder.encode(EndFrame(4, (Finish(0, "stop", half, half),))),
    ]
    assert [data.count("a\ufffd".encode()) for data in sent] == [2, 2, 2]


def test_a_frame_of_a_later_version_is_passed_over() -> None:
    assert frame_from_message(pb.Frame.FromString(b"\xfa\x07\x00")) is None


def test_a_meta_that_is_no_object_is_refused() -> None:
    with pytest.raises(InvalidInput) as caught:
        frame_from_message(pb.Frame(meta=pb.Meta(data_json="7")))
    assert caught.value.code == "protocol.bad-frame"


def test_the_made_files_are_those_of_the_proto(tmp_path: Path) -> None:
    out = tmp_path / "set"
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I", str(PACKAGE), f"-o{out}", PROTO]
    subprocess.run(command, check=True, timeout=60)
    (made,) = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file
    assert plain(made) == plain(described(pb.DESCRIPTOR)), "run `make proto`"


def described(file: Any) -> Any:
    described = descriptor_pb2.FileDescriptorProto()
    file.CopyToProto(described)
    return described


def plain(file: Any) -> Any:
    """Without what one protoc writes down and another does not: names that follow from others."""
    nested = [inner for message in file.message_type for inner in message.nested_type]
    for message in (*file.message_type, *nested):
        for field in message.field:
            field.ClearField("json_name")
    return file


def test_the_stubs_name_every_message() -> None:
    stubs = (PACKAGE / "torvyn/v1/inference_pb2.pyi").read_text()
    for name, message in pb.DESCRIPTOR.message_types_by_name.items():
        assert f"class {name}(" in stubs
        for field in message.fields:
            assert f"{field.name.upper()}_FIELD_NUMBER" in stubs, "run `make proto`"


def test_numbers_of_fields_have_not_moved() -> None:
    """Programs that were built against an older file rely on them: add, never change."""
    known = json.loads((Path(__file__).parent / "streams" / "proto_numbers.json").read_text())
    now = {
        f"{message.name}.{field.name}": field.number
        for message in pb.DESCRIPTOR.message_types_by_name.values()
        for field in message.fields
    }
    assert {name: now.get(name) for name in known} == known
