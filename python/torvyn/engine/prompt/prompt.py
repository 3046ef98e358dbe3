"""A prompt as elements: its texts enter a flow, and the output of the flow replaces them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from torvyn._contract.element import Element, Output
from torvyn.engine.prompt.prompt_texts import texts_of, with_texts
from torvyn.engine.request import Request
from torvyn.errors import InvalidInput


class Prompt:
    """The texts of one request. `choice` numbers them, so that a guard reads each on its own."""

    def __init__(self, request: Request, roles: Collection[str] | None = None) -> None:
        """`roles`: only texts of these roles go through the flow; None means all."""
        self._request = request
        self._texts = texts_of(request)
        self._parts: dict[int, list[str]] = {
            place: []
            for place, text in enumerate(self._texts)
            if roles is None or text.role in roles
        }

    def outputs(self) -> list[Output]:
        """Each text as an element, with the role of its message."""
        outputs = []
        for place in self._parts:
            text = self._texts[place]
            attributes: dict[str, Any] = {"kind": "text", "choice": place, "role": text.role}
            if text.message is not None:
                attributes["message"] = text.message
            outputs.append(Output(text.text, attributes=attributes))
        return outputs

    def add(self, element: Element) -> None:
        """Adds an element that left the flow: a text or a part of one."""
        place = element.attributes.get("choice")
        if place is None and len(self._parts) == 1:
            place = next(iter(self._parts))
        if place not in self._parts:
            raise InvalidInput(
                "an element does not say which text of the request it belongs to",
                hint="keep the attribute `choice`: `Output(text, attributes=element.attributes)`",
                code="engine.prompt-text-unknown",
            )
        self._parts[place].append(element.text)

    def request(self) -> Request | None:
        """The request with the texts that left the flow; None if no text of a message is left."""
        texts = [
            "".join(self._parts[place]) if place in self._parts else text.text
            for place, text in enumerate(self._texts)
        ]
        places = [place for place, text in enumerate(self._texts) if text.message is not None]
        if places and not any(texts[place] for place in places):
            return None
        return with_texts(self._request, texts)
