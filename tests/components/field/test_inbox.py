"""The inbox of sources: no item and no wake-up is lost between its threads."""

import sys
import threading

from waiting import PATIENCE_S

from torvyn.components.network.inbox import Inbox


def test_every_item_is_taken_although_the_taker_sleeps_whenever_there_is_none():
    woken, taken, count = threading.Event(), [], 50_000
    inbox = Inbox(64, woken.set)

    def put():
        for first in range(0, count, 2):
            inbox.wait_for_room()
            # A generator gives the other thread a chance in the midst of the call.
            inbox.put(int(str(number)) for number in (first, first + 1))

    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threading.Thread(target=put, daemon=True).start()
        while len(taken) < count:
            item = inbox.take()
            if item is not None:
                taken.append(item)
            else:
                assert woken.wait(PATIENCE_S), f"not woken after {len(taken)}"
                woken.clear()
    finally:
        sys.setswitchinterval(interval_s)
    assert taken == list(range(count))


def test_it_is_full_until_half_of_it_is_taken():
    inbox = Inbox(4, lambda: None)
    inbox.put("abcd")
    assert inbox.is_full
    assert inbox.take() == "a"
    assert inbox.is_full
    assert inbox.take() == "b"
    assert not inbox.is_full


def test_a_close_ends_a_wait_for_room_and_says_what_is_left():
    inbox = Inbox(1, lambda: None)
    inbox.put("ab")
    assert inbox.close() == 2
    assert inbox.wait_for_room(0)
