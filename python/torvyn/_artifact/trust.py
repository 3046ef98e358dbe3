"""The trust policy: which keys this machine trusts for which sources, and what they have signed.

    default = "reject"                        # for sources that no rule names

    [[source]]
    prefix = "oci://registry.example.com/plant"
    keys = ["plant.pub", "backup.pub"]        # beside this file
    threshold = 2                             # this many of the keys must have signed
    max_age = "90d"                           # since the signature was made

The machine's file decides if it exists, so that a user cannot weaken it; otherwise the user's does.
A project cannot bring a policy: it would vouch for itself.

What can never decide anything is a mistake: a prefix that no reference has, a rule that another one
covers, a requirement without keys. Whoever wrote it believes that it protects something.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NoReturn

from torvyn._artifact import signature
from torvyn._artifact.keys import PublicKey, decode_base64
from torvyn._artifact.oci import invalid
from torvyn._artifact.reference import LAYOUT_SCHEME, SCHEME, Reference
from torvyn._artifact.signature import PAYLOAD_TYPE, Statement
from torvyn._manifest.problems import Problems
from torvyn._manifest.settings import user_config
from torvyn._manifest.toml_tree import Entry, Node, parse_tree
from torvyn.errors import ArtifactError, Diagnostic, Location, TorvynError, os_reason, suggestion

FILE: Final = "trust.toml"
MACHINE_FILE: Final = Path("/etc/torvyn") / FILE
ACTIONS: Final = ("reject", "warn", "allow")
LIMIT_BYTES: Final = 1024 * 1024
MAX_KEYS: Final = 64
ALL_FOLDERS: Final = f"{LAYOUT_SCHEME}/"
_REQUIREMENT: Final = ("keys", "threshold", "max_age")
_RULE_KEYS: Final = ("prefix", "action", *_REQUIREMENT)
_DEFAULT_KEYS: Final = ("default", *_REQUIREMENT)
_DAY_S: Final = 86_400


@dataclass(frozen=True, slots=True)
class Rule:
    """What is required of artifacts of one source."""

    prefix: str = ""
    action: str = "reject"
    """What happens if the requirement is not met: `reject`, `warn` or `allow`."""
    keys: tuple[PublicKey, ...] = ()
    threshold: int = 1
    max_age: timedelta | None = None

    def covers(self, source: str) -> bool:
        """Whole path segments: a rule for `oci://host/plant` is none for `oci://host/plants`, and
        one for all folders, `oci:/`, is none for registries."""
        if not self.prefix:
            return True
        is_same_kind = source.startswith(SCHEME) == self.prefix.startswith(SCHEME)
        if not is_same_kind or not source.startswith(self.prefix):
            return False
        rest = source[len(self.prefix) :]
        return not rest or rest[0] == "/" or self.prefix.endswith("/")


@dataclass(frozen=True, slots=True)
class TrustPolicy:
    rules: tuple[Rule, ...] = field(default=())
    file: str | None = None

    @classmethod
    def load(
        cls, environ: Mapping[str, str] | None = None, machine_file: Path | None = None
    ) -> TrustPolicy:
        """The policy of this machine, else of this user, else the built-in one: artifacts of
        registries that nobody vouches for are a warning, local ones are not."""
        user = user_config(os.environ if environ is None else environ)
        candidates = [machine_file or MACHINE_FILE, *([user.with_name(FILE)] if user else [])]
        for path in candidates:
            # Not `exists`: a file that cannot be read must not turn the policy off.
            if os.path.lexists(path):
                return cls.read(path)
        return cls((Rule("", "warn"), Rule(ALL_FOLDERS, "allow"), Rule(SCHEME, "warn")))

    @classmethod
    def read(cls, path: str | Path) -> TrustPolicy:
        path = Path(path)
        try:
            with path.open("rb") as file:
                data = file.read(LIMIT_BYTES + 1)
        except OSError as error:
            _fail(f"it cannot be read: {os_reason(error)}", Location(str(path)))
        if len(data) > LIMIT_BYTES:
            _fail(f"it has more than {LIMIT_BYTES} bytes", Location(str(path)))
        return cls(_Reader(path).rules(_parse(data, str(path))), str(path))

    def rule_for(self, source: str) -> Rule:
        """The rule with the longest prefix of the source; `reject` without keys if there is
        none."""
        rules = [rule for rule in self.rules if rule.covers(source)]
        return max(rules, key=lambda rule: len(rule.prefix), default=Rule())


class _Reader:
    def __init__(self, path: Path) -> None:
        self._path = path

    def rules(self, root: Node) -> tuple[Rule, ...]:
        entries = _entries(root, (*_DEFAULT_KEYS, "source"))
        sources = entries.pop("source", None)
        tables = [] if sources is None else sources.node.value
        if sources is not None and not _are("table", sources.node):
            hint = 'begin each rule with `[[source]]`, and give it a `prefix = "oci://..."`'
            _fail("`source` is not a list of tables", sources.location, hint)
        action = self._action(entries.get("default"), "reject")
        default = self._requirement(Rule(action=action), entries)
        rules = [self._source(table) for table in tables]
        self._check_shadows(rules, tables)
        if entries and {SCHEME, ALL_FOLDERS} <= {rule.prefix for rule in rules}:
            first = min(entries.values(), key=lambda each: (each.location.line, each.key))
            problem = f"no source is left for `{first.key}`: `oci://` and `oci:/` are for all"
            _fail(problem, first.location, "remove it, or one of the two rules")
        return (default, *rules)

    def _source(self, table: Node) -> Rule:
        entries = _entries(table, _RULE_KEYS)
        if "prefix" not in entries:
            hint = 'name its sources, for example `prefix = "oci://registry.example.com"`'
            _fail("a rule has no `prefix`", table.location, hint)
        prefix = _checked_prefix(entries["prefix"].node)
        rule = Rule(prefix, self._action(entries.get("action"), "reject"))
        return self._requirement(rule, entries)

    def _check_shadows(self, rules: list[Rule], tables: list[Node]) -> None:
        seen: dict[str, int] = {}
        for rule, table in zip(rules, tables, strict=True):
            place = table.value["prefix"].location
            line = seen.setdefault(rule.prefix, place.line or 0)
            if line != place.line:
                hint = "one rule decides for each source: write both as one"
                problem = f"the rule of line {line} is for the same sources, `{rule.prefix}`"
                _fail(problem, place, hint)

    def _action(self, entry: Entry | None, default: str) -> str:
        if entry is None:
            return default
        value = entry.node.value
        if value not in ACTIONS:
            hint = suggestion(str(value), ACTIONS, f"write one of {', '.join(ACTIONS)}")
            _fail(f"`{value}` is not an action", entry.node.location, hint)
        return str(value)

    def _requirement(self, rule: Rule, entries: Mapping[str, Entry]) -> Rule:
        """The rule with its keys and limits."""
        keys = self._keys(entries["keys"]) if "keys" in entries else ()
        for name in ("threshold", "max_age"):
            if name in entries and not keys:
                hint = "name `keys`, or leave it out: without keys, nothing counts as signed"
                _fail(f"`{name}` means nothing without `keys`", entries[name].location, hint)
        threshold = _threshold(entries["threshold"], len(keys)) if "threshold" in entries else 1
        age = _age(entries["max_age"]) if "max_age" in entries else None
        return replace(rule, keys=keys, threshold=threshold, max_age=age)

    def _keys(self, entry: Entry) -> tuple[PublicKey, ...]:
        if not _are("string", entry.node) or not entry.node.value:
            hint = "name files beside this one, or leave `keys` out to trust no key"
            _fail("`keys` is not a list of files", entry.location, hint)
        if len(entry.node.value) > MAX_KEYS:
            _fail(f"`keys` names more than {MAX_KEYS} files", entry.location)
        keys: list[PublicKey] = []
        for node in entry.node.value:
            try:
                key = PublicKey.read(self._path.parent / node.value)
            except TorvynError as error:
                raise error.at(node.location) from None
            if key in keys:
                hint = "each key counts once: name another file, or leave this one out"
                _fail(f"`{node.value}` is a key that is named already", node.location, hint)
            keys.append(key)
        return tuple(keys)


def _parse(data: bytes, file: str) -> Node:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        _fail("it is not UTF-8", Location(file))
    problems = Problems()
    root = parse_tree(text, file, problems)
    if root is None:
        found = problems.diagnostics()[0]
        hint = None if found.code == "manifest.too-deep" else found.hint
        _fail(found.message, found.location, hint)
    return root


def _entries(table: Node, known: tuple[str, ...]) -> dict[str, Entry]:
    # An unknown key may be a misspelled requirement: ignoring it would weaken the policy.
    for entry in table.entries():
        if entry.key not in known:
            hint = suggestion(entry.key, known, f"the keys are {', '.join(known)}")
            _fail(f"unknown key `{entry.key}`", entry.location, hint)
    return dict(table.value)


def _are(kind: str, node: Node) -> bool:
    return node.kind == "array" and all(each.kind == kind for each in node.value)


def _checked_prefix(node: Node) -> str:
    """A prefix that a reference can have, in the form that sources have: see `source_of`."""
    text = node.value
    if node.kind != "string" or not text.startswith((SCHEME, ALL_FOLDERS)):
        hint = "it must begin with oci:// (a registry) or oci:/ (a folder, from the root)"
        _fail(f"no source has the prefix `{text}`", node.location, hint)
    if not text.startswith(SCHEME):
        return _folder_prefix(text, node.location)
    if text == SCHEME:
        return SCHEME
    prefix = str(text.removesuffix("/"))
    try:
        # Anything below the prefix is a reference, if the prefix is the beginning of one.
        parsed = Reference.parse(f"{prefix}/x")
    except TorvynError as error:
        hint = "write oci://host, or oci://host/name without a tag and a digest"
        reason = error.message.rpartition(": ")[2]
        _fail(f"no source has the prefix `{text}`: {reason}", node.location, hint)
    if str(parsed) != f"{prefix}/x":
        hint = f"write `{str(parsed).removesuffix('/x')}`: hosts are compared in lower case"
        _fail(f"no source has the prefix `{text}`", node.location, hint)
    return prefix


def _folder_prefix(text: str, place: Location) -> str:
    try:
        return f"{LAYOUT_SCHEME}{Path(text.removeprefix(LAYOUT_SCHEME)).resolve()}"
    except (OSError, RuntimeError, ValueError) as error:
        _fail(f"no folder has the name in {text!a}: {error}", place)


def _threshold(entry: Entry, keys: int) -> int:
    value = entry.node.value
    if entry.node.kind != "integer" or value < 1:
        _fail("`threshold` is not a number from 1", entry.node.location)
    if value > keys:
        problem = f"`threshold` is {value}, and `keys` names {keys}: nothing can meet it"
        _fail(problem, entry.node.location, "name more keys, or lower it")
    return int(value)


def _age(entry: Entry) -> timedelta:
    text = str(entry.node.value)
    days = text.removesuffix("d")
    if entry.node.kind != "string" or not text.endswith("d") or not _is_number(days):
        _fail("`max_age` is not a number of days", entry.node.location, 'for example "90d"')
    if not int(days[:6]):
        problem = "`max_age` is no time at all: no signature could meet it"
        _fail(problem, entry.node.location, "write at least 1d")
    return timedelta(seconds=min(int(days[:6]), 36_500) * _DAY_S)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _fail(problem: str, location: Location | None, hint: str | None = None) -> NoReturn:
    message = f"the trust policy cannot be used: {problem}"
    raise ArtifactError("artifact.policy-invalid", message, location=location, hint=hint)


MAX_BUNDLES: Final = 32

_CODES: Final = {
    "expired": "artifact.signature-expired",
    "mismatch": "artifact.signature-mismatch",
    "untrusted": "artifact.signature-untrusted",
}
"""What a bundle lacks, the most telling first."""


@dataclass(frozen=True, slots=True)
class BundleResult:
    """What one bundle is worth under a rule."""

    signer: PublicKey | None
    """The trusted key, if the bundle counts."""
    flaw: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Verification:
    """Whether an artifact may be used, and who signed it."""

    source: str
    digest: str
    action: str
    signers: frozenset[PublicKey]
    bundles: tuple[BundleResult, ...]
    problem: Diagnostic | None
    """Why the requirement of the rule is not met."""

    @property
    def is_verified(self) -> bool:
        """Enough trusted keys have signed. False for an artifact that is merely allowed."""
        return self.problem is None

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        return (self.problem,) if self.problem and self.action == "warn" else ()

    def enforce(self) -> Verification:
        """Raises the problem if the rule says `reject`."""
        if self.problem is not None and self.action == "reject":
            raise ArtifactError(self.problem.code, self.problem.message, hint=self.problem.hint)
        return self


def verify(
    source: str, digest: str, bundles: Sequence[bytes], rule: Rule, now: datetime | None = None
) -> Verification:
    """Counts the trusted keys that signed the digest. Never raises; see `Verification.enforce`."""
    clock = now or datetime.now(UTC)
    results = tuple(_result(each, digest, rule, clock) for each in bundles[:MAX_BUNDLES])
    signers = frozenset(result.signer for result in results if result.signer is not None)
    problem = None
    if len(signers) < rule.threshold:
        problem = _problem(source, digest, rule, results, len(signers))
    return Verification(source, digest, rule.action, signers, results, problem)


def _result(data: bytes, digest: str, rule: Rule, now: datetime) -> BundleResult:
    try:
        envelope, hint = signature.parse(data)
    except ArtifactError as error:
        return BundleResult(None, "untrusted", f"a signature cannot be read: {error.message}")
    signers = envelope.signers(rule.keys)
    if not signers or len(envelope.signatures) != 1:
        return BundleResult(None, "untrusted", f"a signature is by {_key(hint)}, not a trusted one")
    signer = next(iter(signers))
    by = f"the signature of {signer.name}"
    try:
        if envelope.payload_type != PAYLOAD_TYPE:
            raise invalid("the signed text is of another type")
        statement = Statement.parse(envelope.payload)
    except ArtifactError as error:
        return BundleResult(None, "mismatch", f"{by} does not sign an artifact: {error.message}")
    if statement.digest != digest:
        return BundleResult(None, "mismatch", f"{by} is for another artifact, {statement.digest}")
    if expiry := _expiry(statement, rule, now):
        return BundleResult(None, "expired", f"{by} {expiry}")
    return BundleResult(signer)


def _expiry(statement: Statement, rule: Rule, clock: datetime) -> str:
    """Why the signature is too old; empty if it is not. A clock that is behind the signature's own
    date is wrong, and does not prolong it."""
    now = max(clock, statement.signed_at) if statement.signed_at else clock
    if statement.expires_at is not None and now >= statement.expires_at:
        return f"expired on {statement.expires_at:%Y-%m-%d %H:%M %Z}"
    if rule.max_age is None:
        return ""
    if statement.signed_at is None:
        return "does not say when it was made, and the policy limits its age"
    if now - statement.signed_at > rule.max_age:
        return f"is older than {rule.max_age.days} days: {statement.signed_at:%Y-%m-%d}"
    return ""


def _problem(
    source: str, digest: str, rule: Rule, results: Sequence[BundleResult], signed: int
) -> Diagnostic:
    what = f"`{source}@{digest}`"
    severity = "error" if rule.action == "reject" else "warning"
    if not results:
        hint = "sign it with `torvyn sign`, or change the policy: trust.toml"
        return Diagnostic(
            "artifact.signature-missing", f"{what} is not signed", None, hint, severity
        )
    flaws = {result.flaw for result in results}
    code = next((_CODES[flaw] for flaw in _CODES if flaw in flaws), _CODES["untrusted"])
    reasons = "; ".join(dict.fromkeys(result.reason for result in results if result.reason))
    verdict = f"{what} is not signed by a trusted key"
    if rule.threshold > 1:
        verdict = f"{what} is signed by {signed} trusted keys, and {rule.threshold} must sign it"
    hint = "`torvyn verify --help` explains which keys are trusted" if rule.keys else _NO_KEYS
    return Diagnostic(code, ": ".join(filter(None, (verdict, reasons))), None, hint, severity)


_NO_KEYS: Final = "no key is trusted for this source: name keys with `--key`, or in trust.toml"


def _key(hint: str) -> str:
    """The id of the key that a bundle names, shortened; anyone can write anything there."""
    try:
        key_id = decode_base64(hint, "the hint").hex()
    except ArtifactError:
        key_id = ""
    return f"key {key_id[:12]}" if len(key_id) == 64 else "an unnamed key"
