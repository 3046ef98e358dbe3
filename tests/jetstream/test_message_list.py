"""Listing messages by their ids, and deleting some of them."""

from __future__ import annotations

from typing import Any

from torvyn._io.jetstream import PAGE_MESSAGES, ListedMessage, MessageList
from torvyn._io.nats import Message


async def publish(client: Any, count: int) -> None:
    await client.stream()
    ids = ({"Nats-Msg-Id": f"m{number}"} for number in range(count))
    await client.publisher.publish([Message("s.a", b"body", headers) for headers in ids])


async def pages(client: Any) -> list[list[ListedMessage]]:
    listed, found = MessageList(client.broker, "S"), []
    while page := await listed.next_page():
        found.append(page)
    return found


def test_all_messages_are_listed_in_pages(connected: Any) -> None:
    async def work(client: Any) -> list[list[ListedMessage]]:
        await publish(client, PAGE_MESSAGES + 5)
        return await pages(client)

    found = connected(work)

    assert [len(page) for page in found] == [PAGE_MESSAGES, 5]
    expected = [ListedMessage(number + 1, f"m{number}") for number in range(PAGE_MESSAGES + 5)]
    assert [message for page in found for message in page] == expected


def test_an_empty_stream_has_no_page(connected: Any) -> None:
    async def work(client: Any) -> list[list[ListedMessage]]:
        await client.stream()
        return await pages(client)

    assert connected(work) == []


def test_messages_are_deleted_and_those_that_are_gone_do_not_matter(connected: Any) -> None:
    async def work(client: Any) -> list[list[ListedMessage]]:
        await publish(client, 4)
        listed = MessageList(client.broker, "S")
        await listed.delete([2, 4])
        await listed.delete([1, 2, 99])
        return await pages(client)

    assert connected(work) == [[ListedMessage(3, "m2")]]
