"""`redact`: replaces personal data and secrets in the joined text with labels.

It recognises them by their form and, where they have them, by their check digits. It buffers a
word only as long as the word can become a match.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from torvyn._contract.element import Element
from torvyn._contract.enums import GuardAction, GuardRules
from torvyn._contract.signals import Verdict
from torvyn.components.config import wrong_config
from torvyn.components.spec import Option, Spec
from torvyn.components.text_guard import KINDS_OPTION, POLICY_OPTION, Guard

DATA_KINDS: Final = (
    "email",
    "card",
    "phone",
    "iban",
    "api-key",
    "jwt",
    "ip",
    "ssn",
    "pem",
    "url-password",
)

SPEC = Spec(
    name="redact",
    role="filter",
    summary="Replaces e-mail addresses, card and phone numbers, keys and more with labels.",
    options=(
        Option(
            "data",
            "words",
            DATA_KINDS,
            "What to redact: `email`, `card` (issuer, length and check digit), `phone`, `iban` "
            "(country, length and check digits), `api-key` (by known prefixes), `jwt`, `ip` "
            "(IP addresses), `ssn` (United States), `pem` (PEM blocks), `url-password` "
            "(user and password in a URL).",
        ),
        Option(
            "action",
            "choice",
            "replace",
            "What happens to a match; `block` ends the stream with `content_filter`.",
            choices=tuple(GuardAction),
        ),
        Option(
            "replacement",
            "text",
            "[{}]",
            "The text that replaces a match; `{}` is the kind of data, such as `email`.",
        ),
        POLICY_OPTION,
        KINDS_OPTION,
    ),
    main="data",
    example="""\
[flow.main.nodes.privacy]
component = "redact"
config = { data = ["email", "card", "iban"] }
""",
)


class Redact(Guard):
    spec: ClassVar[Spec] = SPEC

    def rules(self, options: dict[str, Any]) -> dict[str, Any]:
        if not options["data"]:
            raise wrong_config(SPEC, "`data` is empty", "omit it to redact all kinds of data")
        for kind in options["data"]:
            if kind not in DATA_KINDS:
                known = ", ".join(f"`{known}`" for known in DATA_KINDS)
                raise wrong_config(SPEC, f"`data` cannot be `{kind}`", f"it takes {known}")
        return {
            "rules": GuardRules.REDACT,
            "kinds": list(dict.fromkeys(options["data"])),
            "replacements": [options["replacement"].replace("{}", kind) for kind in DATA_KINDS],
        }

    def rule_name(self, rule: int) -> str:
        return DATA_KINDS[rule]

    def evaluate(self, element: Element) -> bool | Verdict:
        return super().evaluate(element)

    def native_stage(self, config: str) -> tuple[str, dict[str, object]] | None:
        options = self.parsed_options(config)
        return self.native_guard(options) if type(self) is Redact else None
