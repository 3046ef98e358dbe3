"""What the guards (`blocklist`, `pattern`, `redact`) share: options, native form, audit.

The text machine is native, in flows and here alike. Each kind and choice of an element is a text
of its own; elements of one choice leave in the order in which they came. A match is told by rule
and place; its text is never kept, counted or logged.
"""

from __future__ import annotations

import functools
import json
import logging
from typing import TYPE_CHECKING, Any, ClassVar, Final

from torvyn.components.config import parse_config, wrong_config
from torvyn.components.spec import Option, Spec
from torvyn.contract import Element, Filter, Output, Verdict

if TYPE_CHECKING:
    from torvyn._native import GuardedTexts, TextGuard

    Part = tuple[str | None, Element, bool]

logger = logging.getLogger("torvyn.guard")

POLICY: Final = Option(
    "policy",
    "choice",
    "hold",
    "When text leaves: `hold` keeps back what could still become a match, so that none leaks; "
    "`optimistic` lets text pass at once and acts on what is left of a match; `shadow` only "
    "counts and audits.",
    choices=("hold", "optimistic", "shadow"),
)
GUARDED: Final = Option(
    "kinds",
    "words",
    ("text", "reasoning"),
    "The kinds of elements that are guarded, each as a text of its own; others pass. An element "
    "without a kind is `text`.",
)
OF_TOKENS: Final = ("token_ids", "token_id", "logprobs", "top_logprobs")
"""Attributes that tell the text of single tokens: they do not stay with other text."""


class Guard(Filter):
    """A filter over the joined text of a stream, thin over the native `GuardedTexts`."""

    spec: ClassVar[Spec]

    _texts: GuardedTexts | None = None
    _action: str
    _options: dict[str, Any] | None = None
    """As it was initialised with."""
    _rules: TextGuard | None = None

    matches = 0
    """How many matches there were."""
    exposed_chars = 0
    """Characters of matches that had left before they were known to be one."""

    def rules(self, options: dict[str, Any]) -> dict[str, Any]:
        """The rules for the native machine, and their replacements."""
        raise NotImplementedError

    def rule_name(self, rule: int) -> str:
        """What a rule is called in audit records: never what it matches."""
        raise NotImplementedError

    @classmethod
    def check_options(cls, options: dict[str, Any]) -> None:
        """Complains of rules that are refused, before a flow starts."""
        guard = cls.__new__(cls)
        guard._made(guard._parameters(options))

    def init(self, config: str) -> None:
        self.start(parse_config(self.spec, config))

    def start(self, options: dict[str, Any]) -> None:
        """A new stream under these options."""
        self._options = options
        self._guarded: tuple[str, ...] = options["kinds"]
        self._policy: str = options["policy"]
        self._action = options["action"]
        self._rules = self._made(self._parameters(options))
        self._texts = None
        self.matches = self.exposed_chars = 0

    def evaluate(self, element: Element) -> bool | Verdict:
        kind, choice = _text_of(element)
        # What is not guarded may be no text.
        text = element.text if kind in self._guarded else None
        texts = self._texts or self._guarded_texts()
        made = texts.put(element, kind, choice, text)
        if made is None:
            return True
        self._tell(texts)
        if texts.blocked:
            return self._block(made)
        if not any(own.attributes for own in (element, *(own for _, own, _ in made))):
            return Verdict.replace("".join(text for text, _, _ in made if text))
        return Verdict.replace(_outputs(made))

    def flush(self) -> Verdict | list[Output]:
        if self._texts is None:
            return []
        texts, self._texts = self._texts, None
        made = texts.finish()
        self._tell(texts)
        return self._block(made) if texts.blocked else _outputs(made)

    @property
    def held_bytes(self) -> int:
        """Bytes that wait here now."""
        return 0 if self._texts is None else self._texts.held_bytes

    def _guarded_texts(self) -> GuardedTexts:
        from torvyn._native import GuardedTexts

        assert self._rules is not None
        self._texts = GuardedTexts(self._rules, list(self._guarded))
        return self._texts

    def _block(self, made: list[Part]) -> Verdict:
        return Verdict.block(f"`{self.spec.name}` has found what it blocks", _outputs(made))

    def options_of(self, config: str) -> dict[str, Any]:
        """Those it was initialised with, which were read from the same config, or else read now."""
        return parse_config(self.spec, config) if self._options is None else self._options

    def native_form(self, options: dict[str, Any]) -> tuple[str, dict[str, object]]:
        """The native stage over the same rules."""
        self._policy, self._action = options["policy"], options["action"]
        return "guard", {
            "like": self._rules or self._made(self._parameters(options)),
            "name": self.spec.name,
            "guarded": list(options["kinds"]),
            "audit": self._audit,
        }

    def _parameters(self, options: dict[str, Any]) -> dict[str, Any]:
        chosen = {name: options[name] for name in ("action", "policy")}
        return {**chosen, **self.rules(options)}

    def _made(self, parameters: dict[str, Any]) -> TextGuard:
        try:
            return _made(json.dumps(parameters))
        except ValueError as error:
            raise self._refused(error) from error

    def _refused(self, error: ValueError) -> Exception:
        return wrong_config(self.spec, str(error))

    def _tell(self, texts: GuardedTexts) -> None:
        findings = texts.take_findings()
        if not findings:
            return
        exposed = sum(finding[3] for finding in findings)
        self.matches += len(findings)
        self.exposed_chars += exposed
        if self._node is not None:
            self._node.note_findings(len(findings), exposed)
        for finding in findings:
            self._audit(*finding)

    def _audit(self, rule: int, position: int, length: int, exposed: int) -> None:
        if not logger.isEnabledFor(logging.INFO):
            return
        facts = {
            "guard": self.spec.name,
            "rule": self.rule_name(rule),
            "position": position,
            "length": length,
            "exposed": exposed,
            "action": "none" if self._policy == "shadow" else self._action,
        }
        for_request = ""
        if self._context is not None and self._context.request_id is not None:
            facts["request_id"] = self._context.request_id
            for_request = f" {self._context.request_id}"
        logger.info(
            "`%s` matched rule %s at character %d (%d long, %d exposed)%s",
            *(facts[name] for name in ("guard", "rule", "position", "length", "exposed")),
            for_request,
            extra={"event": "guard.match", **facts},
        )


@functools.lru_cache(maxsize=32)
def _made(parameters: str) -> TextGuard:
    """Rules are made once and shared: a thousand words take milliseconds and megabytes, and a
    server starts a flow for each request."""
    # The native module is loaded when a flow starts, never when components are listed.
    from torvyn._native import TextGuard

    return TextGuard(json.loads(parameters))


def _text_of(element: Element) -> tuple[str, int]:
    """The kind and the choice: elements that agree in both are one text."""
    if not element.attributes:
        return "text", 0
    kind, choice = element.attributes.get("kind"), element.attributes.get("choice")
    return kind if isinstance(kind, str) else "text", choice if isinstance(choice, int) else 0


def _outputs(made: list[Part]) -> list[Output]:
    outputs = []
    for text, element, is_rest in made:
        if text is None:
            data = bytes(element.data)
            whole = Output(data, content_type=element.content_type, attributes=element.attributes)
            outputs.append(whole)
        else:
            kept = dict(element.attributes) if is_rest else _bare(element)
            outputs.append(Output(text, attributes=kept or None))
    return outputs


def _bare(element: Element) -> dict[str, Any]:
    """What an element says besides its tokens."""
    return {name: value for name, value in element.attributes.items() if name not in OF_TOKENS}
