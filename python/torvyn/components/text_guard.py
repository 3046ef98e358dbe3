"""What the guards (`blocklist`, `pattern`, `redact`) share: options, native form, audit.

Matching is native. Each kind and choice of elements is a text of its own; elements of one choice
leave in the order in which they arrived. The audit records the rule and the position of a match,
never its text.
"""

from __future__ import annotations

import difflib
import functools
import json
import logging
from typing import TYPE_CHECKING, Any, ClassVar, Final

from torvyn._contract.element import Element, Output
from torvyn._contract.enums import GuardAction, GuardPolicy
from torvyn._contract.roles import Filter
from torvyn._contract.signals import Verdict
from torvyn.components.config import parse_config, wrong_config
from torvyn.components.spec import Option, Spec

if TYPE_CHECKING:
    from torvyn._native import GuardedTexts, TextGuard

    GuardedPiece = tuple[str | None, Element, bool]
    """The text (None: unchanged), the element it comes from, whether it is that element's end."""

logger = logging.getLogger("torvyn.guard")

POLICY_OPTION: Final = Option(
    "policy",
    "choice",
    GuardPolicy.HOLD,
    "When text leaves: `hold` buffers text that could become a match, so no match leaks; "
    "`optimistic` passes text at once and acts on the rest of a match; `shadow` only counts and "
    "audits.",
    choices=tuple(GuardPolicy),
)
KINDS_OPTION: Final = Option(
    "kinds",
    "words",
    ("text", "reasoning"),
    "The kinds of elements to guard; texts of different kinds are never joined, and other kinds "
    "pass. An element without a kind is `text`.",
)
_ANSWER_KINDS: Final = ("text", "reasoning", "tool_call")
"""The kinds of an engine's answer. Flows may have kinds of their own."""
_SIMILARITY: Final = 0.8
"""From here on, a kind is one of these with a slip, and the guard would pass everything."""
TOKEN_ATTRIBUTES: Final = ("token_ids", "token_id", "logprobs", "top_logprobs")
"""Attributes that describe the text of single tokens; a changed text loses them."""


class Guard(Filter):
    """A filter over the joined text of a stream; wraps the native `GuardedTexts`."""

    spec: ClassVar[Spec]

    _texts: GuardedTexts | None = None
    _action: str = ""
    _policy: str = GuardPolicy.HOLD
    _options: dict[str, Any] | None = None
    """The options of `init`."""
    _rules: TextGuard | None = None

    matches = 0
    """The number of matches."""
    exposed_chars = 0
    """Characters of matches that left before the match was recognised."""

    def rules(self, options: dict[str, Any]) -> dict[str, Any]:
        """The rules and replacements for the native guard."""
        raise NotImplementedError

    def rule_name(self, rule: int) -> str:
        """The name of a rule in audit records; never the text it matches."""
        raise NotImplementedError

    @classmethod
    def check_options(cls, options: dict[str, Any]) -> None:
        """Raises for invalid rules, before a flow starts."""
        guard = cls.__new__(cls)
        guard._compile(guard._parameters(options))

    @classmethod
    def _parse(cls, config: Any) -> dict[str, Any]:
        """The options, which nobody may change."""
        return (
            cls._parse_text(config) if isinstance(config, str) else parse_config(cls.spec, config)
        )

    @classmethod
    @functools.lru_cache(maxsize=32)
    def _parse_text(cls, config: str) -> dict[str, Any]:
        """Parsed once and shared: a server starts a flow per request."""
        return parse_config(cls.spec, config)

    def init(self, config: str) -> None:
        self.start(self._parse(config))

    def start(self, options: dict[str, Any]) -> None:
        """Starts a new stream with these options."""
        self._options = options
        self._kinds: tuple[str, ...] = options["kinds"]
        self._policy = options["policy"]
        self._action = options["action"]
        self._rules = self._compile(self._parameters(options))
        self._texts = None
        self.matches = self.exposed_chars = 0

    def evaluate(self, element: Element) -> bool | Verdict:
        texts = self._texts or self._open_texts()
        kind, choice = texts.address(element)
        # An unguarded element may not be text.
        text = element.text if kind in self._kinds else None
        pieces = texts.put(element, kind, choice, text)
        if pieces is None:
            return True
        self._report(texts)
        if texts.blocked:
            return self._block(pieces)
        if not any(origin.attributes for origin in (element, *(origin for _, origin, _ in pieces))):
            return Verdict.replace("".join(text for text, _, _ in pieces if text))
        return Verdict.replace(_outputs(pieces))

    def flush(self) -> Verdict | list[Output]:
        if self._texts is None:
            return []
        texts, self._texts = self._texts, None
        pieces = texts.finish()
        self._report(texts)
        return self._block(pieces) if texts.blocked else _outputs(pieces)

    @property
    def removes_matches(self) -> bool:
        """Whether matches leave the stream without a replacement; false before `init`."""
        return self._action == GuardAction.DROP and self._policy != GuardPolicy.SHADOW

    @property
    def held_bytes(self) -> int:
        """Bytes that the guard buffers now."""
        return 0 if self._texts is None else self._texts.held_bytes

    def _open_texts(self) -> GuardedTexts:
        assert self._rules is not None
        self._texts = self._rules.elements(list(self._kinds))
        return self._texts

    def _block(self, pieces: list[GuardedPiece]) -> Verdict:
        return Verdict.block(f"`{self.spec.name}` found a match", _outputs(pieces))

    def parsed_options(self, config: str) -> dict[str, Any]:
        """The options of `init`, which parsed the same config, or the config parsed now."""
        return self._parse(config) if self._options is None else self._options

    def native_guard(self, options: dict[str, Any]) -> tuple[str, dict[str, object]]:
        """The native stage with the same rules."""
        self._policy, self._action = options["policy"], options["action"]
        return "guard", {
            "like": self._rules or self._compile(self._parameters(options)),
            "name": self.spec.name,
            "guarded": list(options["kinds"]),
            "audit": self._audit,
        }

    def _parameters(self, options: dict[str, Any]) -> dict[str, Any]:
        if not options["kinds"]:
            raise wrong_config(self.spec, "`kinds` is empty", "omit it to guard text and reasoning")
        for kind in options["kinds"]:
            near = difflib.get_close_matches(kind.lower(), _ANSWER_KINDS, n=1, cutoff=_SIMILARITY)
            if near and kind not in _ANSWER_KINDS:
                message = f"`kinds` has `{kind}`, which is the kind of no element"
                raise wrong_config(self.spec, message, f"did you mean `{near[0]}`?")
        return {"action": options["action"], "policy": options["policy"], **self.rules(options)}

    def _compile(self, parameters: dict[str, Any]) -> TextGuard:
        try:
            return _compile_rules(json.dumps(parameters))
        except ValueError as error:
            raise self._rules_error(error) from error

    def _rules_error(self, error: ValueError) -> Exception:
        return wrong_config(self.spec, str(error))

    def _report(self, texts: GuardedTexts) -> None:
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
        fields = {
            "guard": self.spec.name,
            "rule": self.rule_name(rule),
            "position": position,
            "length": length,
            "exposed": exposed,
            "action": "none" if self._policy == GuardPolicy.SHADOW else self._action,
        }
        for_request = ""
        if self._context is not None and self._context.request_id is not None:
            fields["request_id"] = self._context.request_id
            for_request = f" {self._context.request_id}"
        logger.info(
            "`%s` matched rule %s at character %d (%d long, %d exposed)%s",
            *(fields[name] for name in ("guard", "rule", "position", "length", "exposed")),
            for_request,
            extra={"event": "guard.match", **fields},
        )


@functools.lru_cache(maxsize=32)
def _compile_rules(parameters: str) -> TextGuard:
    """Compiled once and shared: a thousand words take milliseconds and megabytes, and a server
    starts a flow per request."""
    # Load the native module when a flow starts, not when components are listed.
    from torvyn._native import TextGuard

    return TextGuard(json.loads(parameters))


def _outputs(pieces: list[GuardedPiece]) -> list[Output]:
    outputs = []
    for text, element, is_rest in pieces:
        if text is None:
            data = bytes(element.data)
            whole = Output(data, content_type=element.content_type, attributes=element.attributes)
            outputs.append(whole)
        else:
            attributes = dict(element.attributes) if is_rest else _without_tokens(element)
            outputs.append(Output(text, attributes=attributes or None))
    return outputs


def _without_tokens(element: Element) -> dict[str, Any]:
    """The attributes that do not describe single tokens."""
    return {
        name: value for name, value in element.attributes.items() if name not in TOKEN_ATTRIBUTES
    }
