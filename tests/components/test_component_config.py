"""Config: plain text, tables, and their errors."""

import json

import pytest

from torvyn.components.config import config_text, parse_config, wrong_config
from torvyn.components.spec import Option, Spec
from torvyn.errors import ContractError

WORDY = Spec(
    "wordy",
    "filter",
    "For these tests.",
    (
        Option("words", "words", (), "Some words."),
        Option("mode", "choice", "a", "A mode.", choices=("a", "b")),
        Option("size", "integer", 3, "A size.", minimum=1),
        Option("rate", "number", 1.0, "A rate."),
        Option("wait", "duration", 0.0, "A wait."),
        Option("room", "size", 10, "A room."),
        Option("loud", "boolean", False, "Loud."),
        Option("names", "text table", {}, "Names."),
        Option("values", "table", {}, "Values."),
    ),
    main="words",
)
STRICT = Spec(
    "strict", "sink", "For these tests.", (Option("path", "text", None, "A path.", required=True),)
)
BARE = Spec("bare", "sink", "For these tests.")


def complaint(spec, config):
    with pytest.raises(ContractError) as caught:
        parse_config(spec, config)
    assert caught.value.code == "contract.wrong-config"
    return caught.value


@pytest.mark.parametrize("config", ["", None, {}, "{}"])
def test_no_config_gives_the_defaults(config):
    values = parse_config(WORDY, config)
    assert values["words"] == ()
    assert values["mode"] == "a"


@pytest.mark.parametrize(
    "config",
    [" a, b c ,,", ["a", " b c "], '["a", "b c"]', {"words": "a,b c"}, '{"words": ["a", "b c"]}'],
)
def test_plain_text_a_list_and_a_table_say_the_same(config):
    assert parse_config(WORDY, config)["words"] == ("a", "b c")


def test_every_kind_is_typed():
    table = {"size": 5, "rate": 2, "wait": "10ms", "room": "1KiB", "loud": True}
    values = parse_config(WORDY, json.dumps(table))
    assert [values[name] for name in table] == [5, 2, 0.01, 1024, True]


def test_numbers_and_booleans_may_come_as_text_as_they_do_from_the_environment():
    values = parse_config(WORDY, {"size": "5", "rate": "2.5", "loud": "true"})
    assert [values["size"], values["rate"], values["loud"]] == [5, 2.5, True]


def test_plain_text_may_begin_with_a_brace():
    assert parse_config(WORDY, "{n}, x")["words"] == ("{n}", "x")


def test_an_unknown_option_is_named_with_the_nearest_one_and_the_kinds():
    error = complaint(WORDY, {"wrods": "a"})
    assert error.message == "`wordy` has no option `wrods`"
    assert "did you mean `words`?" in error.hint
    assert "`size` (integer)" in error.hint


def test_all_problems_are_reported_at_once():
    error = complaint(WORDY, {"size": "x", "mode": "c", "wait": "1 year", "colour": 1})
    assert len(error.diagnostics) == 4


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"size": 1.5}, "`size` is 1.5, not a whole number, 1 or more"),
        ({"size": 0}, "`size` is 0, which is too small"),
        ({"size": True}, "`size` is true, not a whole number, 1 or more"),
        ({"rate": float("inf")}, "`rate` is inf, not a number"),
        ({"mode": "c"}, '`mode` is "c", not "a" or "b"'),
        ({"words": [1]}, "`words` is a list, not a list of text"),
        ({"loud": "yes"}, '`loud` is "yes", not true or false'),
        ({"wait": "5 ages"}, '`wait`: "ages" is not a unit of duration'),
        ({"names": "x"}, '`names` is "x", not a table of text'),
        ({"names": {"a": {"b": "c"}}}, 'quote a dotted name: "a.x"'),
        ({"names": {"a": 1}}, "`names.a` is 1, not text"),
        ({"values": []}, "`values` is a list, not a table"),
    ],
)
def test_a_wrong_value_is_shown_with_what_is_expected(table, message):
    error = complaint(WORDY, table)
    assert message in error.message
    assert error.hint


def test_broken_json_is_not_taken_for_plain_text():
    assert "not valid JSON" in complaint(WORDY, '{"words": ').message


def test_a_missing_option_is_named():
    assert complaint(STRICT, "").message == "`strict`: the option `path` is missing"


def test_plain_text_where_a_table_is_needed_is_an_error():
    error = complaint(STRICT, "some/path")
    assert "its config must be a table" in error.message
    assert "`path` (text)" in error.hint


def test_a_component_without_options_takes_no_config():
    assert parse_config(BARE, "") == {}
    assert "takes no config" in complaint(BARE, "x").message
    assert complaint(BARE, {"x": 1}).hint == "it takes no options"


@pytest.mark.parametrize("config", ["a, b", {"words": ["a", "b"]}, ["a", "b"], None])
def test_the_text_of_a_config_parses_to_the_same_options(config):
    assert parse_config(WORDY, config_text(config)) == parse_config(WORDY, config)


def test_a_component_can_complain_about_options_that_do_not_fit_together():
    error = wrong_config(WORDY, "too much", "take less")
    assert error.render() == "error[contract.wrong-config]: `wordy`: too much\n\nhint: take less"
