"""`redact`: puts a label in the place of personal data and secrets in the joined text.

They are known by their shape and, where they have them, by their check digits. A word waits until
it cannot become one; nothing else does.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from torvyn.components.config import wrong_config
from torvyn.components.spec import Option, Spec
from torvyn.components.text_guard import GUARDED, POLICY, Guard
from torvyn.contract import Element, Verdict

KINDS: Final = (
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
    summary="Puts a label in the place of e-mail addresses, card and phone numbers, keys...",
    options=(
        Option(
            "data",
            "words",
            KINDS,
            "What is redacted: `email`, `card` (issuer, length and check digit), `phone`, `iban` "
            "(country, length and check digits), `api-key` (by known prefixes), `jwt`, `ip` "
            "(addresses of machines), `ssn` (United States), `pem` (PEM blocks), `url-password` "
            "(user and password in a URL).",
        ),
        Option(
            "action",
            "choice",
            "replace",
            "What becomes of a match; `block` ends the stream with `content_filter`.",
            choices=("drop", "replace", "block"),
        ),
        Option(
            "replacement",
            "text",
            "[{}]",
            "What stands in the place of a match; `{}` is what it was, such as `email`.",
        ),
        POLICY,
        GUARDED,
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
        for kind in options["data"]:
            if kind not in KINDS:
                known = ", ".join(f"`{known}`" for known in KINDS)
                raise wrong_config(SPEC, f"it knows no `{kind}`", f"it knows {known}")
        return {
            "rules": "redact",
            "kinds": list(dict.fromkeys(options["data"])),
            "replacements": [options["replacement"].replace("{}", kind) for kind in KINDS],
        }

    def rule_name(self, rule: int) -> str:
        return KINDS[rule]

    def evaluate(self, element: Element) -> bool | Verdict:
        return super().evaluate(element)

    def native_stage(self, config: str) -> tuple[str, dict[str, object]] | None:
        options = self.options_of(config)
        return self.native_form(options) if type(self) is Redact else None
