"""The errors of deployments."""

from __future__ import annotations

from pathlib import Path

from torvyn.errors import DeployError, Diagnostic, MissingError, os_reason


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
    reason = os_reason(error)
    message = f"cannot write `{path}`: {reason}"
    hint = "nothing has changed; free disk space or repair the folder, then try again"
    return MissingError("edge.disk-failed", message, hint=hint)


def damaged(path: Path, reason: str) -> DeployError:
    hint = "restore the file from a copy, or add the artifact again"
    return DeployError("edge.damaged", f"`{path}` is damaged: {reason}", hint=hint)


def not_a_project(digest: str, kind: str) -> DeployError:
    message = f"the artifact {digest} is not a packed project, but `{kind}`"
    return DeployError("edge.not-a-project", message, hint="`torvyn pack` writes a project")


# Channels


def invalid_channel(reason: str) -> DeployError:
    return DeployError("edge.channel-invalid", f"the channel cannot be read: {reason}")


def version_falls(channel: str, version: int, before: int) -> DeployError:
    message = f"version {version} of `{channel}` is not higher than {before}, which was signed last"
    hint = (
        "devices that have seen a version refuse a lower one, and another one of the same number; "
        "leave `--version` out, or say `--allow-lower-version`"
    )
    return DeployError("edge.channel-version-falls", message, hint=hint)


def bar_falls(min_version: int, before: int) -> DeployError:
    message = f"`--min-version` is {min_version}, and version {before} is the least allowed already"
    hint = "devices never lower it: leave `--min-version` out to keep it"
    return DeployError("edge.channel-bar-falls", message, hint=hint)


def dropped_artifacts(channel: str, names: list[str]) -> DeployError:
    listed = ", ".join(f"`{name}`" for name in names)
    message = f"the version before of `{channel}` has {listed}, and this one has not"
    options = " ".join(f"--drop {name}" for name in names)
    hint = (
        f"devices that run it would get no updates: name it with `--artifact`, or say `{options}`"
    )
    return DeployError("edge.channel-artifact-dropped", message, hint=hint)


def new_signers(channel: str) -> Diagnostic:
    message = (
        f"none of these keys is one that devices of `{channel}` trust, as far as the file says"
    )
    hint = "they take it when enough others countersign; `channel rotate` changes the keys"
    return Diagnostic("edge.channel-new-signers", message, None, hint, "warning")


def project_falls(name: str, version: str, before: str) -> Diagnostic:
    message = f"`{name}` is {version} now, and was {before} in the version before"
    hint = "devices go back to it; if you do not want that, pack and sign the newer one"
    return Diagnostic("edge.channel-project-falls", message, None, hint, "warning")


def same_keys() -> DeployError:
    message = "the new keys are the old ones, so nothing would change"
    hint = "make another one: `torvyn sign --generate-key NAME`"
    return DeployError("edge.channel-keys-same", message, hint=hint)


def untrusted_channel(reason: str) -> DeployError:
    hint = "it may be forged; if its keys have changed, fetch it with all changes of keys"
    message = f"the channel is not signed by the keys that you trust: {reason}"
    return DeployError("edge.channel-untrusted", message, hint=hint)


def other_channel(found: str, expected: str) -> DeployError:
    message = f"the document is of the channel `{found}`, not `{expected}`"
    return DeployError("edge.channel-other", message)


def other_keys(channel: str, trusted: object, named: object) -> DeployError:
    message = f"the channel `{channel}` must be signed by {trusted} here, and you named {named}"
    hint = (
        "leave out `--key` to keep what is trusted; after a theft or a loss, `--replace-keys` "
        "trusts the keys that you name, and no others"
    )
    return DeployError("edge.channel-keys-differ", message, hint=hint)


def too_many_channels(channel: str, most: int) -> DeployError:
    message = f"the deployment knows {most} channels already, and `{channel}` is not one of them"
    hint = "what was seen of a channel is never forgotten: make another deployment for this one"
    return DeployError("edge.too-many-channels", message, hint=hint)


def rolled_back_channel(channel: str, version: int, seen: int) -> DeployError:
    message = f"version {version} of the channel `{channel}` is older than {seen}, which was seen"
    hint = "an old document was served again; to go back, publish the old artifact as a new version"
    return DeployError("edge.channel-rolled-back", message, hint=hint)


def forked_channel(channel: str, version: int) -> DeployError:
    message = f"there are two different documents of version {version} of the channel `{channel}`"
    return DeployError(
        "edge.channel-forked", message, hint="publish the right one as a new version"
    )


def skipped_versions(channel: str, version: int, most: int) -> DeployError:
    message = f"version {version} of the channel `{channel}` skips too many; at most {most} is next"
    return DeployError("edge.channel-skipped", message)


def expired_channel(channel: str, version: int, stale_s: float) -> DeployError:
    message = f"version {version} of the channel `{channel}` expired {stale_s:.0f} s ago"
    hint = "what runs goes on; publish a new version, or check the clock of this machine"
    return DeployError("edge.channel-expired", message, hint=hint)


def unknown_artifact(name: str, known: list[str]) -> DeployError:
    names = ", ".join(f"`{each}`" for each in known)
    what = f"no artifact `{name}`" if name else "several artifacts, and you named none"
    message, hint = f"the channel has {what}", f"its artifacts are {names}"
    return DeployError("edge.channel-artifact-unknown", message, hint=hint)


def unreachable(source: str, reason: str | Exception) -> MissingError:
    if isinstance(reason, Exception):
        cause = getattr(reason, "reason", reason)
        reason = (os_reason(cause) or "the connection was cut").lower()
    return MissingError("edge.unreachable", f"cannot fetch {source}: {reason}")


def too_slow(source: str, count: int, elapsed_s: float) -> MissingError:
    message = f"{source} is too slow: {count} bytes in {elapsed_s:.0f} s"
    return MissingError("edge.too-slow", message, hint="the next try continues where it was cut")


def check_failed(digest: str, problem: str) -> DeployError:
    message = f"the artifact {digest} cannot run here: {problem}"
    hint = "it is not tried again until the channel changes"
    return DeployError("edge.check-failed", message, hint=hint)
