"""`csv`: rows as JSON objects and back, with an exact position in the file."""

import json
import random

import pytest

import torvyn
from torvyn import Element, InvalidInput
from torvyn.components import CsvSink, CsvSource
from torvyn.errors import ContractError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "table.csv"


def rows(source):
    return [json.loads(output.data) for output in iter(source.pull, None)]


def read(start, path, text, **config):
    path.write_text(text)
    return start(CsvSource, {"path": str(path), **config})


def write(start, config, *objects):
    sink = start(CsvSink, config)
    sink.push_batch([Element(json.dumps(record)) for record in objects])
    sink.teardown()


def test_the_header_names_the_fields_and_numbers_are_numbers(start, path):
    source = read(start, path, "id,celsius,zip,note\n1,-2.50,007,\n2,1e3,+1,NaN\n")
    assert rows(source) == [
        {"id": 1, "celsius": -2.5, "zip": "007", "note": None},
        {"id": 2, "celsius": 1000.0, "zip": "+1", "note": "NaN"},
    ]


def test_numbers_can_stay_text_and_columns_can_be_given(start, path):
    source = read(start, path, "1;2\n", numbers=False, columns=["a", "b"], delimiter=";")
    assert rows(source) == [{"a": "1", "b": "2"}]


def test_a_cell_may_hold_line_ends_quotes_and_delimiters(start, path):
    source = read(start, path, 'a,b\r\n"x\n""y"", z",2\r\n\r\n3,4\r\n')
    assert rows(source) == [{"a": 'x\n"y", z', "b": 2}, {"a": 3, "b": 4}]


def test_a_byte_order_mark_is_not_part_of_the_first_column(start, path):
    assert rows(read(start, path, "\ufeffa\n1\n")) == [{"a": 1}]


def test_a_row_with_too_few_cells_is_rejected_and_the_next_one_follows(start, path):
    source = read(start, path, "a,b\n1\n2,3\n")
    with pytest.raises(InvalidInput, match=r"line 2 of .* has 1 cells, and there are 2 columns"):
        source.pull()
    assert rows(source) == [{"a": 2, "b": 3}]


def test_bytes_of_another_encoding_are_rejected_and_the_next_row_follows(start, path):
    path.write_bytes(b"a\n\xff\nb\n")
    source = start(CsvSource, str(path))
    with pytest.raises(InvalidInput, match=r"line 2 of .* is not valid utf-8"):
        source.pull()
    assert rows(source) == [{"a": "b"}]


@pytest.mark.parametrize("config", [{"delimiter": ""}, {"delimiter": '"'}, {"columns": "a,a"}])
def test_a_wrong_config_is_rejected(start, path, config):
    with pytest.raises(ContractError):
        read(start, path, "a\n", **config)


def test_a_column_named_twice_is_rejected(start, path):
    with pytest.raises(ContractError, match="'a' twice"):
        read(start, path, "a,b,a\n1,2,3\n").pull()


@pytest.mark.parametrize("seed", range(20))
def test_after_a_restart_anywhere_every_row_is_read_once(start, path, seed):
    cells = ["1", '"two\nlines"', "ä", '"q""q"']
    chance = random.Random(seed)
    body = "".join(f"{n},{chance.choice(cells)}\n" for n in range(50))
    source, seen = read(start, path, f"n,text\n{body}"), []
    for _ in range(5):
        seen += [json.loads(source.pull().data)["n"] for _ in range(chance.randrange(8))]
        state = json.loads(json.dumps(source.snapshot()))
        source = start(CsvSource, str(path))
        source.restore(state)
    assert seen + [row["n"] for row in rows(source)] == list(range(50))


def test_a_position_in_another_file_is_rejected(start, path):
    source = read(start, path, "a\n1\n2\n")
    source.pull()
    state = source.snapshot()
    with pytest.raises(InvalidInput, match="is not the file that the saved position belongs to"):
        read(start, path, "b\n1\n2\n").restore(state)


def test_the_header_is_written_once_and_rows_are_appended(start, path):
    write(start, str(path), {"a": 1, "b": 'x,"y"\n'})
    write(start, str(path), {"b": True, "a": None}, {"a": [1], "b": {"c": 2.5}})
    assert path.read_text() == 'a,b\n1,"x,""y""\n"\n,true\n[1],"{""c"":2.5}"\n'


def test_what_the_sink_wrote_the_source_reads(start, path):
    records = [{"a": "ä\n", "b": None, "c": 1.5}, {"a": "", "b": 2, "c": -1}]
    write(start, {"path": str(path), "fsync": True}, *records)
    assert rows(start(CsvSource, str(path))) == [records[0], {**records[1], "a": None}]


def test_columns_may_name_nested_fields(start, path):
    config = {"path": str(path), "columns": ["device.id", "mean"], "extra": "ignore"}
    write(start, config, {"device": {"id": 7}, "mean": 2, "count": 9})
    assert path.read_text() == "device.id,mean\n7,2\n"


def test_an_object_with_a_field_without_a_column_is_refused_and_the_others_are_written(start, path):
    sink = start(CsvSink, {"path": str(path), "columns": ["a"]})
    answer = sink.push_batch([Element('{"a": 1}'), Element('{"a": 1, "b": 2}')])
    sink.teardown()
    assert answer[0] is None
    assert "'b' is not a column" in str(answer[1])
    assert path.read_text() == "a\n1\n"


def test_a_file_with_other_columns_is_not_mixed_up(start, path):
    path.write_text("x,y\n")
    with pytest.raises(ContractError, match=r"the columns of .* are x, y, not a"):
        start(CsvSink, {"path": str(path), "columns": ["a"]})
    write(start, {"path": str(path), "columns": ["a"], "mode": "truncate"}, {"a": 1})
    assert path.read_text() == "a\n1\n"


def test_a_torn_row_does_not_run_into_the_next_one(start, path):
    path.write_text("a,b\n1,")
    write(start, str(path), {"a": 2, "b": 3})
    assert path.read_text() == "a,b\n1,\n2,3\n"


def test_a_flow_copies_a_table(tmp_path, path):
    path.write_text("n\n1\n2\n")
    copy = tmp_path / "copy.csv"
    torvyn.Flow(CsvSource({"path": str(path)}), CsvSink({"path": str(copy)})).run()
    assert copy.read_text() == path.read_text()
