"""The contract needs no native module: the same files run inside a WebAssembly guest."""

import subprocess
import sys

BLOCKED = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name == "torvyn._native":
            raise ImportError("blocked")

sys.meta_path.insert(0, Blocker())
"""


def run_blocked(code):
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED + code],
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_contract_imports_without_the_native_module():
    output = run_blocked(
        "from torvyn._contract.element import Element; print(Element('a').text, Element)"
    )

    assert output == "a <class 'torvyn._contract.element.Element'>"


def test_a_component_is_written_and_called_without_the_native_module():
    code = """
import torvyn

class Shout(torvyn.Processor):
    def process(self, element):
        return element.text.upper()

print(Shout().process(torvyn.Element("hey")))
"""
    assert run_blocked(code) == "HEY"


def test_importing_the_package_does_not_load_the_reactor():
    output = run_blocked("import torvyn, sys; print([m for m in sys.modules if 'reactor' in m])")

    assert output == "[]"
