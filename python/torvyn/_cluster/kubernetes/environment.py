"""The variables of a pod, and the secrets that they come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from torvyn._cluster.kubernetes.options import KubernetesOptions

TOKEN: Final = "NATS_TOKEN"
TOKEN_KEY: Final = "token"
URL_KEY: Final = "url"


@dataclass(frozen=True, slots=True)
class SecretReference:
    """A secret that must exist before the pods start."""

    name: str
    command: str
    """Creates it."""


@dataclass(frozen=True, slots=True)
class Names:
    """The names of what the objects of one flow share."""

    flow: str

    @property
    def broker(self) -> str:
        return f"{self.flow}-nats"

    @property
    def variables(self) -> str:
        return f"{self.flow}-variables"

    @property
    def keys(self) -> str:
        return f"{self.flow}-keys"


def flow_environment(
    names: Names, options: KubernetesOptions, broker_settings: tuple[str, ...]
) -> list[dict[str, Any]]:
    """The variables of Torvyn.toml, and the settings that name the broker."""
    found = [secret_variable(name, names.variables, name) for name in sorted(options.variables)]
    if broker_settings and options.nats is None:
        # Kubernetes fills in variables that are defined above.
        url = f"nats://$({TOKEN})@{names.broker}:4222"
        found.append(secret_variable(TOKEN, names.broker, TOKEN_KEY))
        found += [{"name": setting, "value": url} for setting in broker_settings]
    elif has_credentials(options):
        found += [secret_variable(setting, names.broker, URL_KEY) for setting in broker_settings]
    else:
        found += [{"name": setting, "value": options.nats} for setting in broker_settings]
    if broker_settings and options.broker_namespace is not None:
        # The same in every image, wherever the project is in it.
        setting = {"name": "TORVYN_CLUSTER__NAMESPACE", "value": options.broker_namespace}
        found.append(setting)
    # Compiled components; the image is read-only.
    found.append({"name": "TORVYN_RUNTIME__CACHE_DIR", "value": "/tmp/cache"})
    found.append({"name": "HOME", "value": "/tmp"})
    return found


def secret_variable(name: str, secret: str, key: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def has_credentials(options: KubernetesOptions) -> bool:
    """Whether the address of the broker that exists must not be in a file."""
    return options.nats is not None and "@" in options.nats


def broker_secret(names: Names, options: KubernetesOptions) -> SecretReference:
    if options.nats is not None:
        return _secret(names.broker, options, f"--from-literal={URL_KEY}=URL-OF-THE-BROKER")
    # nats-server reads the value of a variable as it reads its file: this begins no number.
    literal = f'--from-literal={TOKEN_KEY}="t$(openssl rand -hex 24)"'
    return _secret(names.broker, options, literal)


def variables_secret(names: Names, options: KubernetesOptions) -> SecretReference:
    literals = (f'--from-literal={name}="${name}"' for name in sorted(options.variables))
    return _secret(names.variables, options, *literals)


def keys_secret(names: Names, options: KubernetesOptions) -> SecretReference:
    """`torvyn keys add` writes the file."""
    return _secret(names.keys, options, "--from-file=keys.json")


def _secret(name: str, options: KubernetesOptions, *contents: str) -> SecretReference:
    where = [] if options.namespace is None else ["-n", options.namespace]
    command = ["kubectl", "create", "secret", *where, "generic", name, *contents]
    return SecretReference(name, " ".join(command))
