"""The Python element and the native one: one suite for both."""

import pickle

import pytest

from torvyn._contract.element import Context, PureElement
from torvyn._native import Element as NativeElement
from torvyn.errors import InvalidInput

pytestmark = pytest.mark.parametrize("Element", [PureElement, NativeElement])


@pytest.mark.promise("tokens.content-type")
def test_text_is_text_and_bytes_are_octets(Element):
    assert Element("é").content_type == "text/plain; charset=utf-8"
    assert Element(b"\x00").content_type == "application/octet-stream"
    assert Element(b"{}", content_type="application/json").content_type == "application/json"


def test_the_payload_is_read_as_text_and_as_bytes(Element):
    assert Element("é").text == "é"
    assert bytes(Element("é").data) == b"\xc3\xa9"
    assert Element(b"\xc3\xa9").text == "é"
    assert len(Element("é")) == 2


def test_the_view_of_the_payload_is_read_only(Element):
    view = Element(b"abc").data

    assert isinstance(view, memoryview)
    assert view.readonly


def test_the_view_outlives_the_element(Element):
    assert bytes(Element(b"abc" * 100).data) == b"abc" * 100


def test_bad_utf8_is_invalid_input_unless_loss_is_allowed(Element):
    element = Element(b"a\xff")

    with pytest.raises(InvalidInput, match="not UTF-8"):
        _ = element.text
    assert element.text_lossy() == "a\ufffd"


def test_an_element_is_immutable(Element):
    element = Element("a", attributes={"kind": "text"})

    with pytest.raises(AttributeError, match="immutable"):
        element.sequence = 2
    with pytest.raises(AttributeError):
        element.invented = 2
    with pytest.raises(TypeError):
        element.attributes["kind"] = "other"


def test_attributes_are_those_that_were_given_and_no_others(Element):
    given = {"choice": 1}
    element = Element("a", attributes=given)
    given["choice"] = 2

    assert dict(element.attributes) == {"choice": 1}
    assert dict(Element("a").attributes) == {}


def test_elements_with_the_same_facts_are_equal(Element):
    one = Element("a", 1, 2, attributes={"k": 1})

    assert one == Element("a", 1, 2, attributes={"k": 1})
    assert hash(one) == hash(Element("a", 1, 2, attributes={"k": 1}))
    assert one != Element("b", 1, 2, attributes={"k": 1})
    assert one != Element("a", 2, 2, attributes={"k": 1})
    assert one != Element("a", 1, 2)
    assert one != "a"


def test_data_is_text_or_bytes_and_nothing_else(Element):
    with pytest.raises(TypeError, match="str or bytes, not int"):
        Element(5)


@pytest.mark.parametrize("data", ["é", b"\xff\x00", ""])
def test_an_element_survives_pickling(Element, data):
    context = Context("1", "main", "2", 3)
    element = Element(data, 7, 9, "x/y", {"choice": 1}, context)

    back = pickle.loads(pickle.dumps(element))

    assert back == element
    assert back.context == context
    assert type(back) is type(element)


def test_an_element_shows_its_payload_and_its_number(Element):
    assert repr(Element("a", 3)) == "Element('a', sequence=3)"


def test_a_content_type_is_any_name_of_at_most_256_bytes(Element):
    named = Element("x", content_type="application/vnd.example")
    assert named.content_type == "application/vnd.example"
    assert named == Element("x", content_type="application/vnd.example")
    assert named != Element("x", content_type="application/vnd.other")

    with pytest.raises(ValueError, match="a content type may have at most 256 bytes, not 257"):
        Element("x", content_type="x" * 257)
