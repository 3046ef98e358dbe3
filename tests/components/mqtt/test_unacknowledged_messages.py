"""Which packet ids may be acknowledged, also after the connection or the session was lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torvyn.components.mqtt.packets import DUP, Message
from torvyn.components.mqtt.unacknowledged_messages import UnacknowledgedMessages


def message(packet_id, *, dup=False):
    return Message(b"t", packet_id, b"", 0x32 | (DUP if dup else 0), None)


@pytest.fixture
def unsettled():
    unsettled = UnacknowledgedMessages()
    assert len([*unsettled.add(map(message, (1, 2, 3)))]) == 3
    return unsettled


def test_acknowledgements_have_the_order_of_the_messages(unsettled):
    assert unsettled.settle(2) == [1, 2]
    assert unsettled.settle(1) == [3]


def test_what_is_sent_again_is_not_handed_on_again(unsettled):
    unsettled.disconnected()

    again = [*unsettled.add([message(1, dup=True), message(2, dup=True), message(4)])]

    assert [each.packet_id for each in again] == [4]
    assert unsettled.settle(2) == [1, 2]


def test_nothing_is_acknowledged_before_it_was_sent_again(unsettled):
    unsettled.disconnected()
    assert unsettled.settle(1) == []
    assert unsettled.take_settled() == []

    assert [*unsettled.add([message(1, dup=True)])] == []

    assert unsettled.take_settled() == [1]
    assert unsettled.take_settled() == []


def test_a_lost_session_voids_its_packet_ids(unsettled):
    unsettled.disconnected()
    unsettled.session_lost()
    assert len([*unsettled.add([message(1)])]) == 1

    assert unsettled.settle(4) == [1]


def test_a_packet_id_of_another_message_is_not_mixed_up(unsettled):
    unsettled.disconnected()
    new = [*unsettled.add([message(2)])]

    assert len(new) == 1
    assert unsettled.settle(3) == []
    assert unsettled.settle(1) == [2]


@given(st.lists(st.sampled_from(["message", "settle", "cut"]), max_size=60))
def test_a_broker_that_keeps_its_session_gets_each_acknowledgement_once(steps):
    """A model of the broker: what it has sent and not seen acknowledged."""
    unsettled, broker, delivered, next_id = UnacknowledgedMessages(), [], 0, 1
    for step in steps:
        acknowledged = []
        if step == "message":
            broker.append(next_id)
            delivered += len([*unsettled.add([message(next_id)])])
            next_id += 1
        elif step == "settle" and len(unsettled):
            acknowledged = unsettled.settle(1)
        elif step == "cut":
            unsettled.disconnected()
            assert [*unsettled.add([message(each, dup=True) for each in broker])] == []
            acknowledged = unsettled.take_settled()
        assert set(acknowledged) <= set(broker)
        broker = [each for each in broker if each not in acknowledged]
    assert delivered == next_id - 1
    assert len(broker) == len(unsettled)
