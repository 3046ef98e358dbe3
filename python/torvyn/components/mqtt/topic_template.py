"""A topic with the fields of an element: `sensors/{id}`."""

from __future__ import annotations

from collections.abc import Callable

from torvyn._contract.element import Element
from torvyn.components.mqtt.options import check_topic
from torvyn.components.spec import Spec
from torvyn.components.template import text_template


def topic_template(spec: Spec, template: str) -> Callable[[Element], bytes]:
    """The topic of each element; raises `ContractError` for a template that is none."""
    text_of = text_template(
        spec,
        "topic",
        template,
        forbidden="+#\0",
        check=lambda topic: check_topic(spec, "topic", topic),
    )
    if "{" not in template:
        fixed = template.encode()
        return lambda element: fixed
    return lambda element: text_of(element).encode()
