"""Configs: a component says whether it takes text or a table, and gets no other kind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional, TypedDict

import pytest

import torvyn
from torvyn._contract.config import config_kind_of, init_argument
from torvyn._contract.enums import ConfigKind
from torvyn._link.project_linker import ProjectLinker
from torvyn._sandbox.project import GuestProject
from torvyn._sandbox.python_guest import read_class
from torvyn.errors import ContractError, LinkError
from torvyn.testing import VARIANTS, as_variant

EXAMPLE = Path(__file__).parents[2] / "examples" / "token-streaming" / "Torvyn.toml"


class Words(TypedDict, total=False):
    words: list[str]


class Table(TypedDict):
    words: list[str]


KINDS = {
    "str": ConfigKind.TEXT,
    "Optional[str]": ConfigKind.TEXT,
    "dict[str, Any]": ConfigKind.TABLE,
    "dict[str, list[str]]": ConfigKind.TABLE,
    "Mapping[str, str]": ConfigKind.TABLE,
    "dict": ConfigKind.TABLE,
    "Words": ConfigKind.TABLE,
    "str | dict[str, Any]": ConfigKind.EITHER,
    "str | Words | None": ConfigKind.EITHER,
    "Any": ConfigKind.EITHER,
    "": ConfigKind.EITHER,
}
"""The type of the parameter of `init` -> what the component takes."""

TAKEN: dict[ConfigKind, tuple[type[Any], ...]] = {
    ConfigKind.TEXT: (str,),
    ConfigKind.TABLE: (dict,),
    ConfigKind.EITHER: (str, dict),
    ConfigKind.NONE: (),
}
CONFIGS: tuple[Any, ...] = ("fox", {"words": ["fox"]}, ["fox"], 5, True)


def component_class(annotation: str, is_evaluated: bool = False) -> type[torvyn.Filter]:
    """A filter whose `init` has a parameter of this type, as text or as an object."""
    names = {"Any": Any, "Mapping": Mapping, "Optional": Optional, "Words": Words, "Table": Table}
    value: Any = eval(annotation, names) if is_evaluated and annotation else annotation

    class Part(torvyn.Filter):
        def init(self, config: Any) -> None:
            self.given = config

        def evaluate(self, element: torvyn.Element) -> bool:
            return True

    Part.init.__annotations__ = {"config": value} if annotation else {}
    return Part


def run(part: torvyn.Filter, config: Any, variant: str = "python") -> None:
    flow = torvyn.Flow().add("source", torvyn.source(["a"]))
    flow.add("part", as_variant(part, variant), config=config).connect("source", "part")
    list(flow)


@pytest.mark.parametrize("is_evaluated", [False, True])
@pytest.mark.parametrize("annotation", KINDS)
def test_the_type_of_the_parameter_says_what_a_component_takes(
    annotation: str, is_evaluated: bool
) -> None:
    assert config_kind_of(component_class(annotation, is_evaluated)) == KINDS[annotation]


def test_a_type_that_cannot_be_evaluated_is_either() -> None:
    assert config_kind_of(component_class("OnlyForTypeCheckers")) == ConfigKind.EITHER


@pytest.mark.parametrize("annotation", KINDS)
def test_a_guest_takes_what_its_class_takes_in_the_process(annotation: str, tmp_path: Path) -> None:
    """The build reads the source and runs nothing of it."""
    typed = f": {annotation}" if annotation else ""
    (tmp_path / "component.py").write_text(
        "import torvyn\nfrom typing import Any, Mapping, Optional, TypedDict\n\n"
        "class Words(TypedDict):\n    words: list[str]\n\n"
        f"class Part(torvyn.Filter):\n    def init(self, config{typed}):\n        pass\n\n"
        "    def evaluate(self, element):\n        return True\n"
    )

    found = read_class(GuestProject("part", tmp_path, "python", None))
    assert found.config_kind == KINDS[annotation]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("annotation", KINDS)
def test_a_component_receives_text_as_text_and_a_table_as_a_dict(
    annotation: str, variant: str
) -> None:
    for config in CONFIGS:
        if type(config) in TAKEN[KINDS[annotation]]:
            part: Any = component_class(annotation)()
            run(part, config, variant)
            assert part.given == config


@pytest.mark.parametrize("config", CONFIGS, ids=str)
@pytest.mark.parametrize("annotation", KINDS)
def test_a_config_of_another_kind_is_an_error_that_says_what_fits(
    annotation: str, config: Any
) -> None:
    kind = KINDS[annotation]
    if type(config) in TAKEN[kind]:
        return

    with pytest.raises(LinkError) as caught:
        run(component_class(annotation)(), config)

    (found,) = caught.value.diagnostics
    takes = {ConfigKind.TEXT: "text", ConfigKind.TABLE: "a table"}.get(kind, "text or a table")
    assert found.code == "contract.wrong-config"
    assert f"`Part` takes {takes} as its config, not " in found.message
    assert found.hint is not None
    assert ('config = "..."' in found.hint) is (str in TAKEN[kind])
    assert ("config = { " in found.hint) is (dict in TAKEN[kind])


def test_a_component_without_init_takes_no_config() -> None:
    class Plain(torvyn.Filter):
        def evaluate(self, element: torvyn.Element) -> bool:
            return True

    with pytest.raises(LinkError, match="`Plain` takes no config"):
        run(Plain(), "fox")
    run(Plain(), "")


def test_a_class_may_declare_it_and_then_gets_a_table_as_text() -> None:
    part: Any = component_class("str")
    part.config_kind = "table"
    made = part()

    run(made, {"words": ["fox"]})
    assert made.given == '{"words": ["fox"]}'
    with pytest.raises(LinkError, match="takes a table as its config, not text"):
        run(part(), "fox")


def test_the_ports_of_a_router_are_read_by_torvyn_itself() -> None:
    class Ways(torvyn.Router):
        def route(self, element: torvyn.Element) -> list[str]:
            return ["a"]

    flow = torvyn.Flow().add("source", torvyn.source(["x"]))
    flow.add("ways", Ways(), config={"ports": ["a"]}).connect("source", "ways")
    assert flow.add("sink", "null").connect("ways:a", "sink").run().emitted == 1


def test_a_kind_that_does_not_exist_is_an_error() -> None:
    part: Any = component_class("str")
    part.config_kind = "tabel"

    with pytest.raises(LinkError, match="`config_kind` of `Part` is `tabel`"):
        run(part(), "fox")


def test_a_command_line_may_give_a_table_as_json() -> None:
    part: Any = component_class("dict[str, Any]")()
    run(part, '{"words": ["fox"]}')
    assert part.given == {"words": ["fox"]}

    # What takes text only would find no word in it.
    with pytest.raises(LinkError, match="takes text as its config, and this text is a JSON obj"):
        run(component_class("str")(), '{"words": ["fox"]}')


def test_a_component_that_reads_json_itself_gets_its_text() -> None:
    part: Any = component_class("str")
    with pytest.raises(LinkError) as caught:
        run(part(), '{"words": ["fox"]}')
    assert 'set `config_kind = "either"` on its class' in caught.value.render()

    part.config_kind = "either"
    reader = part()
    run(reader, '{"words": ["fox"]}')

    assert reader.given == '{"words": ["fox"]}'


def test_no_config_is_an_empty_one() -> None:
    for annotation, empty in {"str": "", "dict[str, Any]": {}, "": ""}.items():
        part: Any = component_class(annotation)()
        run(part, None)
        assert part.given == empty


def test_keys_that_a_typed_table_does_not_have_or_lacks_are_errors() -> None:
    with pytest.raises(LinkError) as caught:
        run(component_class("Table")(), {"wrods": ["fox"]})

    unknown, missing = caught.value.diagnostics
    assert (unknown.message, unknown.hint) == (
        "`Part` has no option `wrods`",
        "did you mean `words`?",
    )
    assert missing.message == "`Part` needs the option `words`"


def test_a_direct_call_with_text_for_a_table_fails() -> None:
    with pytest.raises(ContractError, match="takes a table as its config, not text"):
        init_argument(component_class("dict[str, Any]")(), "fox")


@pytest.mark.parametrize(
    ("config", "takes"),
    [('["fox"]', "not a list"), ("5", "not `5`"), ("true", "not `true`")],
)
def test_the_error_has_the_line_of_the_config(config: str, takes: str, tmp_path: Path) -> None:
    manifest = tmp_path / "Torvyn.toml"
    text = EXAMPLE.read_text().replace('config = "blocked_word"', f"config = {config}")
    manifest.write_text(text.replace('"components/', f'"{EXAMPLE.parent}/components/'))

    (found,) = ProjectLinker.open(manifest, environ={}).check()

    assert found.location is not None
    assert text.splitlines()[found.location.line - 1] == f"config = {config}"  # type: ignore[operator]
    assert found.message == f"`ContentFilter` takes text or a table as its config, {takes}"
    assert found.hint == 'write text, `config = "..."`, or a table, `config = { words = ... }`'
