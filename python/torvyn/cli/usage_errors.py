"""Turns click's usage errors into ours."""

from __future__ import annotations

import re

import click

from torvyn.errors import UsageError


def usage_error(error: click.ClickException) -> UsageError:
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = context.command_path if context else "torvyn"
    see = f"see `{command} --help`"
    if isinstance(error, click.NoSuchOption):
        near = sorted(error.possibilities or [])
        hint = f"did you mean `{near[0]}`?" if near else see
        message = f"`{command}` has no option `{error.option_name}`"
        return UsageError("cli.unknown-option", message, hint=hint)
    if isinstance(error, click.MissingParameter) and error.param is not None:
        message = f"`{command}` needs {_name(error.param)}{_choices(error.param)}"
        return UsageError("cli.missing-argument", message, hint=see)
    if isinstance(error, click.BadParameter) and error.param is not None:
        message = f"{_name(error.param)}: {_plain(error.message)}"
        return UsageError("cli.bad-value", message, hint=_near(error) or see)
    message = error.format_message().rstrip(".")
    return UsageError("cli.bad-usage", message[:1].lower() + message[1:], hint=see)


def _name(param: click.Parameter) -> str:
    if isinstance(param, click.Option):
        return f"`{max(param.opts, key=len)}`"
    return param.metavar or param.human_readable_name


def _plain(message: str) -> str:
    message = re.sub(r"is not in the range x>=(\S+?)\.?$", r"is less than \1", message)
    return message.rstrip(".").replace("integer range", "whole number").replace("integer", "number")


def _choices(param: click.Parameter) -> str:
    choices = getattr(param.type, "choices", ())
    return f": {', '.join(choices)}" if choices else ""


def _near(error: click.BadParameter) -> str | None:
    """A hint with the most similar choice; click's message begins with the value in quotes."""
    choices = getattr(error.param.type, "choices", ()) if error.param else ()
    value = error.message.split("'")[1] if error.message.startswith("'") else ""
    from difflib import get_close_matches

    near = get_close_matches(value, choices, n=1)
    return f"did you mean `{near[0]}`?" if near else None
