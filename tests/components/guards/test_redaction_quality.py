"""`redact` finds marked data and leaves ordinary numbers alone."""

import pytest
from benches.labelled_lines import Span, judge, load
from benches.ordinary_numbers import AMBIGUOUS, GENERATORS, texts
from benches.redaction import redact

import torvyn
from torvyn.components.builtin.filter_redact import DATA_KINDS, Redact

SETS = ("held_out", "tuning")


@pytest.mark.parametrize("name", SETS)
def test_precision_and_recall_hold_on_the_labelled_lines(name):
    score = judge(load(name), redact(), DATA_KINDS)
    assert score.precision >= 0.99, score.wrong
    assert score.recall >= 0.97, score.missed


def test_the_labelled_set_has_many_lines_of_every_kind():
    lines = [line for name in SETS for line in load(name)]
    marked = [line for line in lines if line.spans]
    assert len(marked) >= 200
    assert len(lines) - len(marked) >= 400
    assert {span.kind for line in marked for span in line.spans} == set(DATA_KINDS)


@pytest.mark.parametrize("name", GENERATORS)
def test_ordinary_numbers_stay(name):
    recognise = redact()
    hits = [text for text in texts(GENERATORS[name], 2000) if recognise(text)]
    assert len(hits) <= 2, hits


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_few_numbers_in_the_form_of_a_card_are_taken_for_one(name):
    recognise = redact()
    hits = [text for text in texts(AMBIGUOUS[name], 2000) if recognise(text)]
    assert 0 < len(hits) < 80


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("name", SETS)
def test_every_labelled_line_is_redacted_alike_however_it_is_cut(name, size):
    guard = Redact()
    guard.init("")
    rules = guard._rules
    for line in load(name):
        whole, cut = rules.fork(), rules.fork()
        text = whole.put(line.text) + whole.finish()
        pieces = [line.text[at : at + size] for at in range(0, len(line.text), size)]
        assert "".join(map(cut.put, pieces)) + cut.finish() == text
        assert cut.take_findings() == whole.take_findings()


@pytest.mark.parametrize("name", SETS)
def test_the_native_stage_and_the_python_form_agree(name):
    text = "\n".join(line.text for line in load(name))
    tokens = [text[at : at + 5] for at in range(0, len(text), 5)]
    own = type("Own", (Redact,), {})
    native = "".join(torvyn.Flow(tokens, Redact()).text())
    assert native == "".join(torvyn.Flow(tokens, own()).text())
    assert native != text


def test_only_the_credentials_of_a_url_are_replaced():
    guard = Redact()
    guard.init("")
    text = guard._rules.fork().put("see https://jo:hunter2@example.com/x now ")
    assert text == "see https://[url-password]@example.com/x now "


def test_a_kind_that_is_not_named_stays():
    recognise = redact(["ip"])
    assert recognise("jo@example.com from 203.0.113.9") == [Span("ip", 20, 31)]


def test_a_pem_block_without_an_end_is_taken_out_in_little_room():
    guard = Redact()
    guard.init("pem")
    stream = guard._rules.fork()
    out = stream.put("key: -----BEGIN PRIVATE KEY-----\n")
    for _ in range(2000):
        out += stream.put("RkFLRUZBS0VGQUtFRkFLRUZBS0VGQUtF\n")
        assert stream.held_bytes <= 700
    out += stream.put("and that was it, said the model.") + stream.finish()
    assert out == "key: [pem]\nand that was it, said the model."
