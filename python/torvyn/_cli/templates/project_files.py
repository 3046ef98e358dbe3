"""The files of a project: a template as a manifest, components, a test and a README."""

from __future__ import annotations

from typing import Final

from torvyn._cli.templates import c_components, rust_components
from torvyn._cli.templates.project_template import Template

LANGUAGES: Final = ("python", "c", "rust")


def files_of(template: Template, name: str, language: str | None = None) -> dict[str, str]:
    """The path and text of every file. With a language, the components run in the sandbox."""
    manifest = _manifest(template, name, language) + (_grants(template) if language else "")
    files = {"Torvyn.toml": manifest, "README.md": _readme(template, name, language)}
    for component, text in template.components.items():
        own = _component_files(component, text, language)
        files |= {f"components/{component}/{path}": text for path, text in own.items()}
    if language == "rust":
        files |= {"Cargo.toml": rust_components.WORKSPACE, **_contracts()}
    if language:
        files[".gitignore"] = "build/\ntarget/\n" if language == "rust" else "build/\n"
    files["tests/test_flow.py"] = _test(template)
    return files


def _component_files(name: str, text: str, language: str | None) -> dict[str, str]:
    if language == "c":
        return {"component.c": c_components.COMPONENTS[name]}
    return rust_components.crate_files(name) if language == "rust" else {"component.py": text}


def _contracts() -> dict[str, str]:
    """The WIT packages that the crates need: all worlds of the first version."""
    from torvyn._sandbox.project import wit_files

    first = ("worlds.wit", "deps/")
    return {f"wit/{path}": text for path, text in wit_files().items() if path.startswith(first)}


def _grants(template: Template) -> str:
    printing = [name for name in template.components if name in c_components.PRINTING]
    grant = 'capabilities = ["stdio:stdout"]'
    return "".join(f"\n[security.grants.{name}]\n{grant}\n" for name in printing)


def _manifest(template: Template, name: str, language: str | None) -> str:
    parts = [f'[torvyn]\nname = "{name}"\nversion = "0.1.0"\ncontract_version = "0.1.0"\n']
    isolation = 'isolation = "wasm"\n' if language == "python" else ""
    for component in template.components:
        keys = f'name = "{component}"\npath = "components/{component}"\n{isolation}'
        parts.append(f"[[component]]\n{keys}")
    parts.append(f'[flow.main]\ndescription = "A flow with {template.summary}"\n')
    parts += [f"[flow.main.nodes.{node}]\n{keys}\n" for node, keys in template.nodes.items()]
    parts += [_edge(template, edge) for edge in template.edges]
    return "\n".join(parts)


def _edge(template: Template, edge: tuple[str, str]) -> str:
    start, end = edge
    keys = template.edge_keys.get(edge, "")
    return f'[[flow.main.edges]]\nfrom = "{start}"\nto = "{end}"\n{keys}'


def _test(template: Template) -> str:
    return (
        '"""Runs the whole flow and checks its output and its counts."""\n\n'
        "from pathlib import Path\n\nimport pytest\nimport torvyn\n\n"
        "PROJECT = Path(__file__).parents[1]\n\n\n"
        "def test_the_flow_prints_the_expected_output(\n"
        "    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch\n"
        ") -> None:\n"
        "    monkeypatch.chdir(tmp_path)\n"
        '    statistics = torvyn.load(PROJECT).flow("main").run()\n\n'
        f"    assert capsys.readouterr().out == {_quote(template.output)}\n"
        f"    assert statistics.produced == {template.produced}\n"
        "    assert statistics.live == 0\n"
    )


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


_BUILD: Final = "    torvyn build     # compile the components; needs {compiler}\n"
_COMPILERS: Final = {
    "c": "`pip install ziglang`",
    "python": "`pip install componentize-py`",
    "rust": "Rust and `rustup target add wasm32-wasip1`",
}


def _readme(template: Template, name: str, language: str | None) -> str:
    nodes = "\n".join(f"- `{component}`" for component in template.components)
    contracts = "The contracts are in `wit/`.\n\n" if language == "rust" else ""
    return (
        f"# {name}\n\nA Torvyn project: a flow with {template.summary}.\n\n"
        f"{_BUILD.format(compiler=_COMPILERS[language]) if language else ''}"
        "    torvyn check     # check the manifest\n"
        "    torvyn run       # run the flow\n"
        "    python -m pytest # run the test\n\n"
        f"`Torvyn.toml` describes the flow. Its components are in `components/`:\n\n{nodes}\n\n"
        f"{contracts}`torvyn run -q` prints:\n\n{_indent(template.output)}"
        f"{template.readme and chr(10) + template.readme}"
    )


def _indent(text: str) -> str:
    return "".join(f"    {line}" for line in text.splitlines(keepends=True))
