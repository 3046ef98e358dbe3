"""An engine as the source of a flow: in programs, in manifests, under `torvyn run`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from observed_engines import SOON_S, Endless, wait_until

import torvyn
from torvyn._io.background_loop import BUFFER
from torvyn._manifest.parse import parse
from torvyn.engine import Request, Scripted
from torvyn.errors import FlowError, LinkError
from torvyn.protocol.frames import ToolCall

MANIFEST = """
[torvyn]
name = "x"
version = "0.1.0"
contract_version = "0.1.0"
[flow.main.nodes.model]
component = "engine:scripted"
config = {config}
[flow.main.nodes.out]
component = "console"
[[flow.main.edges]]
from = "model"
to = "out"
"""


def test_a_flow_gets_text_with_what_belongs_to_it():
    engine = Scripted([("reasoning", "Hm."), "One", " two."])
    flow = torvyn.Flow(engine.source("x", logprobs=True))

    elements = list(flow)

    assert [element.text for element in elements] == ["Hm.", "One", " two."]
    assert [element.attributes["kind"] for element in elements] == ["reasoning", "text", "text"]
    assert elements[1].attributes["logprobs"][0]["token"] == "One"
    assert elements[1].attributes["choice"] == 0


def test_a_flow_ends_with_finish_reason_usage_and_the_stop_that_matched():
    flow = torvyn.Flow(Scripted("One two three.").source("some words", stop="thr"))

    assert list(flow.text()) == ["One", " two", " "]
    assert (flow.end.finish_reason, flow.end.matched_stop) == ("stop", "thr")
    assert flow.end.usage["prompt_tokens"] == 2
    assert flow.end.usage["completion_tokens"] == 3


def test_a_call_of_a_tool_is_json():
    flow = torvyn.Flow(Scripted([ToolCall(0, "a", "look", "{}")]).source("x"))

    (element,) = flow

    assert element.content_type == "application/json"
    assert element.attributes["kind"] == "tool_call"


def test_async_for_over_a_flow_runs_the_engine_on_that_loop():
    loops = []

    async def sleep(_: float) -> None:
        loops.append(asyncio.get_running_loop())

    async def read():
        flow = torvyn.Flow(Scripted("a b", delay=1, sleep=sleep).source("x"))
        return [element.text async for element in flow], asyncio.get_running_loop()

    texts, loop = asyncio.run(read())
    assert texts == ["a", " b"]
    assert set(loops) == {loop}


def test_a_for_loop_over_a_flow_works_inside_a_running_event_loop():
    async def notebook():
        return list(torvyn.Flow(Scripted("a b").source("x")).text())

    assert asyncio.run(notebook()) == ["a", " b"]


def test_leaving_a_flow_stops_the_engine():
    engine = Endless()
    for _ in torvyn.Flow(engine.source("x")):
        break

    assert engine.left.wait(SOON_S)
    wait_until(lambda: not engine._runs)


def test_a_flow_that_does_not_take_slows_the_engine():
    engine = Endless(gap_s=0)
    elements = iter(torvyn.Flow(engine.source("x")))
    next(elements)
    wait_until(lambda: engine.made >= BUFFER)

    # The buffer, the flow's own queue, and the one in the engine's hand.
    assert engine.made <= BUFFER + 64 + 1 + 1
    elements.close()
    assert engine.left.wait(SOON_S)


def test_a_failure_of_the_engine_fails_the_flow():
    flow = torvyn.Flow(Scripted("a b c", fail_at=1).source("x"))

    with pytest.raises(FlowError, match="the script fails here"):
        list(flow)


def run(folder: Path, shell, config: str, options: str = "") -> str:
    (folder / "Torvyn.toml").write_text(MANIFEST.replace("{config}", config))
    return shell(f"torvyn run -q {options}", folder)


def test_a_manifest_names_an_engine_and_its_options(tmp_path, shell):
    config = '{ text = "One two three.", max_tokens = 2 }'

    assert run(tmp_path, shell, config) == "One\n two\n"


def test_the_prompt_comes_from_a_file(tmp_path, shell):
    (tmp_path / "prompt.txt").write_text("three words here\n")

    assert run(tmp_path, shell, '{ tokens = ["a"] }', "--input prompt.txt") == "a\n"
    assert "`no.txt` does not exist" in run(tmp_path, shell, '{ tokens = ["a"] }', "--input no.txt")


@pytest.mark.parametrize("config", ["{ txt = 1 }", "{ max_tokens = -1 }", '{ messages = "x" }'])
def test_a_wrong_option_is_found_when_the_flow_is_linked(config):
    from torvyn._link.project_linker import ProjectLinker

    with pytest.raises(LinkError) as caught:
        ProjectLinker(parse(MANIFEST.replace("{config}", config))).plan()
    assert caught.value.code == "contract.wrong-config"


def test_an_engine_that_is_not_there_is_suggested():
    from torvyn._link.project_linker import ProjectLinker

    text = MANIFEST.replace("engine:scripted", "engine:scriptd").replace("{config}", '""')
    with pytest.raises(LinkError, match="engine:scriptd") as caught:
        ProjectLinker(parse(text)).plan()
    assert "engine:scripted" in (caught.value.hint or "")


def test_a_live_source_runs_with_the_request_it_was_made_with():
    source = Scripted("a b c").source(Request.make("x", max_tokens=1))

    assert list(torvyn.Flow(source).text()) == ["a"]
