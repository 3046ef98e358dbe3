"""Flows and the life of their process: Ctrl-C, exit with flows that run, stuck threads, forks."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

PRELUDE = "import os, signal, sys, threading, time, torvyn\n"


def start(code):
    code = PRELUDE + textwrap.dedent(code)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", code], **pipes)


def finish(process):
    out, err = process.communicate(timeout=40)
    return process.returncode, out, err


def interrupt_after_first_line(process):
    assert process.stdout.readline() == "running\n"
    process.send_signal(signal.SIGINT)


@pytest.mark.parametrize(
    "body",
    [
        "flow = torvyn.Flow(source, torvyn.sink(lambda e: None)); flow.run()",
        "flow = torvyn.Flow(source, torvyn.filter(lambda e: True)); list(flow)",
    ],
    ids=["run", "for"],
)
@pytest.mark.parametrize("items", ["waits", "never-waits"])
def test_ctrl_c_ends_a_running_flow(body, items):
    process = start(
        f"""
        class Source(torvyn.Source):
            told = False
            def pull(self):
                if not self.told:
                    self.told = True
                    print("running", flush=True)
                    return "a"
                return torvyn.PENDING if {items!r} == "waits" else "a"
            def teardown(self):
                print("torn down", flush=True)

        source = Source()
        try:
            {body}
        except KeyboardInterrupt:
            print(flow.state, flow.statistics.live)
        """
    )
    interrupt_after_first_line(process)

    code, out, err = finish(process)
    assert (code, out) == (0, "torn down\ncancelled 0\n"), err


def test_ctrl_c_reaches_a_flow_of_native_parts():
    process = start(
        """
        flow = torvyn.Flow().add("source", "scripted", config={"repeat": 10**12})
        flow.add("sink", "null").connect("source", "sink")

        def tell():
            while flow.statistics.turns == 0:
                time.sleep(0.001)
            print("running", flush=True)

        threading.Thread(target=tell).start()
        try:
            flow.run()
        except KeyboardInterrupt:
            print(flow.state, flow.statistics.live)
        """
    )
    interrupt_after_first_line(process)

    code, out, err = finish(process)
    assert (code, out) == (0, "cancelled 0\n"), err


def test_a_thread_that_will_not_end_is_abandoned_reported_and_does_not_block_exit():
    process = start(
        """
        entered = threading.Event()

        class Stuck(torvyn.Sink):
            run = "thread"
            def push(self, element):
                entered.set()
                threading.Event().wait()

        os.environ["TORVYN_RUNTIME__TEARDOWN_TIMEOUT"] = "50ms"
        flow = torvyn.Flow(["a"], Stuck()).start()
        entered.wait()
        flow.cancel()
        flow.wait()
        print(flow.state)
        """
    )

    code, out, err = finish(process)
    assert (code, out) == (0, "cancelled\n"), err
    assert "node `sink` did not end within 0.05 s and was abandoned" in err


@pytest.mark.parametrize("stage", ["inline", "thread", "async"])
def test_a_program_ends_although_its_flows_still_run(stage):
    process = start(
        f"""
        reached = threading.Event()

        class Endless(torvyn.Source):
            def pull(self):
                return "a"

        class Sink(torvyn.Sink):
            run = "thread" if {stage!r} == "thread" else None
            def push(self, element):
                reached.set()

        class AsyncSink(torvyn.Sink):
            async def push(self, element):
                reached.set()

        sink = AsyncSink() if {stage!r} == "async" else Sink()
        flow = torvyn.Flow(Endless(), sink).start()
        reached.wait()
        print("bye")
        """
    )

    code, out, err = finish(process)
    assert (code, out, err) == (0, "bye\n", "")


def test_a_program_ends_although_a_component_blocks_its_worker():
    process = start(
        """
        entered = threading.Event()

        class Stuck(torvyn.Sink):
            def push(self, element):
                entered.set()
                threading.Event().wait()

        flow = torvyn.Flow(["a"], Stuck()).start()
        entered.wait()
        print("bye")
        """
    )

    code, out, err = finish(process)
    assert (code, out) == (0, "bye\n"), err
    assert "did not end" in err


def test_a_forked_child_runs_flows_of_its_own():
    process = start(
        """
        def run():
            async def later(element):
                return True
            def print_none(element):
                return None
            flow = torvyn.Flow(["a", "b"], torvyn.filter(later), torvyn.sink(print_none)).start()
            assert flow.wait(20)
            return flow.statistics.emitted

        print(run(), flush=True)
        child = os.fork()
        if child == 0:
            print(run(), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        print(run(), flush=True)
        """
    )

    code, out, err = finish(process)
    assert (code, out) == (0, "2\n2\n2\n"), err


def test_importing_torvyn_starts_no_thread():
    process = start(
        """
        import torvyn._flow.flow, torvyn.testing
        print(len(os.listdir(f"/proc/{os.getpid()}/task")))
        """
    )

    assert finish(process)[1] == "1\n"
    assert os.path.isdir("/proc/self/task")


@pytest.mark.parametrize("where", ["worker", "daemon"])
def test_a_thread_that_is_still_busy_at_exit_does_not_crash_the_program(where):
    process = start(
        f"""
        class Stuck(torvyn.Filter):
            def evaluate(self, element):
                began.set()
                while True:
                    time.sleep(0.0005)

        began = threading.Event()
        flow = torvyn.Flow(["a"], Stuck(), torvyn.sink(lambda e: None))
        if {where == "worker"}:
            flow.start()
        else:
            threading.Thread(target=flow.run, daemon=True).start()
        began.wait(20)
        """
    )

    code, _, err = finish(process)
    assert code == 0, err
