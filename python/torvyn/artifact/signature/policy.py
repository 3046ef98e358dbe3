"""The trust policy: which keys this machine trusts for which sources.

    default = "reject"                        # for sources that no rule names

    [[source]]
    prefix = "oci://registry.example.com/plant"
    keys = ["plant.pub", "backup.pub"]        # beside this file
    threshold = 2                             # this many of the keys must have signed
    max_age = "90d"                           # since the signature was made

The machine's file decides if it exists, so that a user cannot weaken it; otherwise the user's does.
A project cannot bring a policy: it would vouch for itself.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NoReturn

from torvyn.artifact.signature.keys import PublicKey
from torvyn.errors import ArtifactError, Location
from torvyn.manifest.settings import user_config

FILE: Final = "trust.toml"
MACHINE_FILE: Final = Path("/etc/torvyn") / FILE
ACTIONS: Final = ("reject", "warn", "allow")
LIMIT_BYTES: Final = 1024 * 1024
MAX_KEYS: Final = 64
_RULE_KEYS: Final = ("prefix", "action", "keys", "threshold", "max_age")
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
        """Whole path segments: a rule for `oci://host/plant` is none for `oci://host/plants`."""
        if not source.startswith(self.prefix):
            return False
        rest = source[len(self.prefix) :]
        return not rest or rest[0] in "/" or self.prefix.endswith(("/", ":")) or not self.prefix


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
        return cls((Rule("", "warn"), Rule("oci:/", "allow"), Rule("oci://", "warn")))

    @classmethod
    def read(cls, path: str | Path) -> TrustPolicy:
        path = Path(path)
        try:
            with path.open("rb") as file:
                record = tomllib.loads(file.read(LIMIT_BYTES).decode())
        except OSError as error:
            _invalid(path, f"it cannot be read: {error.strerror}")
        except ValueError as error:
            _invalid(path, str(error))
        return cls(_Reader(path).rules(record), str(path))

    def rule_for(self, source: str) -> Rule:
        """The rule with the longest prefix of the source; `reject` without keys if there is
        none."""
        rules = [rule for rule in self.rules if rule.covers(source)]
        return max(rules, key=lambda rule: len(rule.prefix), default=Rule())


class _Reader:
    def __init__(self, path: Path) -> None:
        self._path = path

    def rules(self, record: dict[str, Any]) -> tuple[Rule, ...]:
        known = ("default", "keys", "threshold", "max_age", "source")
        self._require_known(record, known, "")
        sources = record.get("source", [])
        if not isinstance(sources, list) or not all(isinstance(each, dict) for each in sources):
            self._fail("`source` is not a list of tables: write [[source]]")
        rest = {key: value for key, value in record.items() if key not in ("source", "default")}
        default = self._rule({"action": record.get("default", "reject"), **rest}, "")
        rules = [self._source(each, f"source[{at}]") for at, each in enumerate(sources)]
        prefixes = [rule.prefix for rule in rules]
        if twice := next((each for each in prefixes if prefixes.count(each) > 1), None):
            self._fail(f"two rules have the prefix `{twice}`")
        return (default, *rules)

    def _source(self, record: dict[str, Any], path: str) -> Rule:
        self._require_known(record, _RULE_KEYS, path)
        prefix = record.get("prefix")
        if not isinstance(prefix, str) or not prefix.startswith("oci:"):
            self._fail("`prefix` must begin with oci:// (a registry) or oci:/ (a folder)", path)
        return self._rule(record, path)

    def _rule(self, record: dict[str, Any], path: str) -> Rule:
        action, threshold = record.get("action", "reject"), record.get("threshold", 1)
        if action not in ACTIONS:
            self._fail(f"`{action}` is not one of {', '.join(ACTIONS)}", path)
        keys = self._keys(record.get("keys", []), path)
        if isinstance(threshold, bool) or not isinstance(threshold, int) or threshold < 1:
            self._fail("`threshold` must be a number from 1", path)
        if keys and threshold > len(keys):
            self._fail(f"`threshold` is {threshold}, but only {len(keys)} keys are named", path)
        age = self._age(record["max_age"], path) if "max_age" in record else None
        return Rule(record.get("prefix", ""), action, keys, threshold, age)

    def _keys(self, names: object, path: str) -> tuple[PublicKey, ...]:
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            self._fail("`keys` must be a list of files", path)
        if len(names) > MAX_KEYS:
            self._fail(f"`keys` names more than {MAX_KEYS} files", path)
        keys = [PublicKey.read(self._path.parent / name) for name in names]
        if len(set(keys)) < len(keys):
            self._fail("`keys` names one key twice", path)
        return tuple(keys)

    def _age(self, text: object, path: str) -> timedelta:
        days = str(text).removesuffix("d")
        if not str(text).endswith("d") or not days.isascii() or not days.isdigit():
            self._fail("`max_age` must be a number of days, such as 90d", path)
        return timedelta(seconds=min(int(days[:6]), 36_500) * _DAY_S)

    def _require_known(self, record: dict[str, Any], known: tuple[str, ...], path: str) -> None:
        # An unknown key may be a misspelled requirement: ignoring it would weaken the policy.
        if unknown := sorted(set(record) - set(known)):
            self._fail(f"unknown key `{unknown[0]}`; the keys are {', '.join(known)}", path)

    def _fail(self, problem: str, path: str = "") -> NoReturn:
        _invalid(self._path, problem, path)


def _invalid(file: Path, problem: str, path: str = "") -> NoReturn:
    location = Location(str(file), path=path or None)
    message = f"the trust policy cannot be used: {problem}"
    raise ArtifactError("artifact.policy-invalid", message, location=location)
