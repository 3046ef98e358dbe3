"""The errors of deployments."""

from __future__ import annotations

from pathlib import Path

from torvyn.errors import DeployError, MissingError


def unknown_deployment(name: str, root: Path, known: list[str]) -> MissingError:
    names = ", ".join(f"`{each}`" for each in known)
    hint = f"the deployments are {names}" if known else "create it with `torvyn deploy add`"
    message = f"there is no deployment `{name}` in `{root}`"
    return MissingError("edge.deployment-unknown", message, hint=hint)


def bad_name(name: str) -> DeployError:
    hint = "use up to 64 lower-case letters, digits, `-` and `_`, and begin with a letter"
    shown = ascii(name[:80])[1:-1]
    message = f"`{shown}` is not the name of a deployment"
    return DeployError("edge.bad-name", message, hint=hint)


def unknown_generation(number: int, known: list[int]) -> MissingError:
    numbers = ", ".join(map(str, known))
    hint = f"its generations are {numbers}" if known else "it has none yet"
    message = f"the deployment has no generation {number}"
    return MissingError("edge.generation-unknown", message, hint=hint)


def no_generation(name: str) -> MissingError:
    hint = f"add one: `torvyn deploy add {name} ARTIFACT`"
    message = f"the deployment `{name}` has no generation to run"
    return MissingError("edge.no-generation", message, hint=hint)


def no_fallback() -> DeployError:
    hint = "name a generation: `torvyn deploy activate NAME NUMBER`"
    message = "the deployment has no other good generation to go back to"
    return DeployError("edge.no-fallback", message, hint=hint)


def barred(number: int, version: int, min_version: int) -> DeployError:
    message = (
        f"generation {number} is version {version} of its channel, which no longer allows "
        f"versions before {min_version}"
    )
    hint = "activate a newer generation, or wait for the next version"
    return DeployError("edge.version-barred", message, hint=hint)


def in_use(what: str) -> DeployError:
    hint = "wait until it has finished, or stop it"
    return DeployError("edge.in-use", f"another process {what}", hint=hint)


def disk_failed(path: Path, error: OSError) -> MissingError:
    reason = (error.strerror or str(error)).lower()
    message = f"cannot write `{path}`: {reason}"
    hint = "nothing has changed; free disk space or repair the folder, then try again"
    return MissingError("edge.disk-failed", message, hint=hint)


def damaged(path: Path, reason: str) -> DeployError:
    hint = "restore the file from a copy, or add the artifact again"
    return DeployError("edge.damaged", f"`{path}` is damaged: {reason}", hint=hint)


def not_a_project(digest: str, kind: str) -> DeployError:
    message = f"the artifact {digest} is not a packed project, but `{kind}`"
    return DeployError("edge.not-a-project", message, hint="`torvyn pack` writes a project")
