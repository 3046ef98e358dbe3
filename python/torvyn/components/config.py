"""A node's `config` as typed options.

A config is plain text (the value of the component's main option), a table as JSON text, or, in
programs, a dict or a list. Numbers and booleans may be text, because values from the environment
are. All problems are reported at once; an unknown option is an error.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from torvyn._contract.units import parse_duration_s, parse_size_bytes
from torvyn.components.spec import Option, Spec, did_you_mean
from torvyn.errors import ContractError, Diagnostic

CODE = "contract.wrong-config"


def parse_config(spec: Spec, config: Any) -> dict[str, Any]:
    """The value or the default of every option of the spec; raises `ContractError`."""
    table = _table(spec, config)
    problems = [_unknown(spec, name) for name in table if spec.option(name) is None]
    values: dict[str, Any] = {}
    for option in spec.options:
        try:
            values[option.name] = _value(option, table)
        except ValueError as error:
            hint = f"`{option.name}` takes {option.expects}: {option.doc}"
            message = f"`{spec.name}`: {error}"
            problems.append(Diagnostic(CODE, message, hint=hint))
    if problems:
        raise ContractError.of(problems)
    return values


def config_text(config: Any) -> str:
    """A config as `init` receives it: text as it is, data as JSON; raises `ValueError`."""
    if config is None:
        return ""
    if isinstance(config, str):
        return config
    try:
        return json.dumps(config, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"cannot be written as JSON: {error}") from error


def wrong_config(spec: Spec, message: str, hint: str | None = None) -> ContractError:
    """The error for options that are well-formed but do not fit together."""
    return ContractError(CODE, f"`{spec.name}`: {message}", hint=hint)


def _table(spec: Spec, config: Any) -> Mapping[str, Any]:
    """The config as a table, whatever its form."""
    if isinstance(config, str):
        config = _from_text(spec, config)
    if config is None or config == "":
        return {}
    if isinstance(config, Mapping):
        return config
    main = spec.option(spec.main) if spec.main else None
    if main is not None:
        return {main.name: config}
    if not spec.options:
        raise wrong_config(spec, f"it takes no config, but got {_display(config)}")
    raise wrong_config(
        spec,
        f"its config must be a table, not {_display(config)}",
        hint=f"its options are {_names(spec)}",
    )


def _from_text(spec: Spec, text: str) -> Any:
    """JSON text of a table (or of a list, if `main` takes one) as data; other text unchanged."""
    start = text.lstrip()[:2]
    main = spec.option(spec.main) if spec.main else None
    takes_list = main is not None and main.kind in ("words", "tokens", "texts")
    if not start.startswith("{") and not (takes_list and start.startswith("[")):
        return text
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        if start == '{"':
            hint = "write a table in the manifest, or a dict in a program"
            raise wrong_config(spec, f"its config is not valid JSON: {error}", hint) from error
        return text
    return data if isinstance(data, (dict, list)) else text


def _value(option: Option, table: Mapping[str, Any]) -> Any:
    raw = table.get(option.name)
    if raw is None:
        if option.required:
            raise ValueError(f"the option `{option.name}` is missing")
        return option.default
    value = _convert(option, raw)
    if option.minimum is not None and value < option.minimum:
        raise ValueError(f"`{option.name}` is {_display(raw)}, which is too small")
    return value


def _convert(option: Option, raw: Any) -> Any:
    match option.kind:
        case "text" | "choice":
            return _text(option, raw)
        case "integer" | "number":
            return _number(option, raw)
        case "boolean":
            return _boolean(option, raw)
        case "duration" | "size":
            return _quantity(option, raw)
        case "words" | "tokens" | "texts":
            return _list(option, raw)
        case "list":
            return _tables(option, raw)
        case _:
            return _mapping(option, raw)


def _text(option: Option, raw: Any) -> str:
    if not isinstance(raw, str) or (option.choices and raw not in option.choices):
        raise _mismatch(option, raw)
    return raw


def _number(option: Option, raw: Any) -> float:
    number = raw
    if isinstance(raw, str):
        try:
            number = int(raw) if option.kind == "integer" else float(raw)
        except ValueError:
            raise _mismatch(option, raw) from None
    allowed = (int,) if option.kind == "integer" else (int, float)
    if isinstance(number, bool) or not isinstance(number, allowed) or not math.isfinite(number):
        raise _mismatch(option, raw)
    return number


def _boolean(option: Option, raw: Any) -> bool:
    value = {"true": True, "false": False}.get(raw) if isinstance(raw, str) else raw
    if not isinstance(value, bool):
        raise _mismatch(option, raw)
    return value


def _quantity(option: Option, raw: Any) -> float:
    try:
        return parse_duration_s(raw) if option.kind == "duration" else parse_size_bytes(raw)
    except ValueError as error:
        raise ValueError(f"`{option.name}`: {error}") from None


def _list(option: Option, raw: Any) -> tuple[str, ...]:
    parts = raw
    if isinstance(raw, str):
        parts = [raw] if option.kind == "texts" else raw.split(",")
    if not isinstance(parts, (list, tuple)) or not all(isinstance(part, str) for part in parts):
        raise _mismatch(option, raw)
    if option.kind != "words":
        return tuple(parts)
    return tuple(word for word in (part.strip() for part in parts) if word)


def _tables(option: Option, raw: Any) -> tuple[dict[str, Any], ...]:
    if not isinstance(raw, (list, tuple)) or not all(isinstance(item, Mapping) for item in raw):
        raise _mismatch(option, raw)
    return tuple(dict(item) for item in raw)


def _mapping(option: Option, raw: Any) -> dict[str, Any]:
    if not isinstance(raw, Mapping) or not all(isinstance(key, str) for key in raw):
        raise _mismatch(option, raw)
    if option.kind == "text table":
        for key, value in raw.items():
            if isinstance(value, Mapping):
                raise ValueError(
                    f'`{option.name}.{key}` is a table; quote a dotted name: "{key}.x"'
                )
            if not isinstance(value, str):
                raise ValueError(f"`{option.name}.{key}` is {_display(value)}, not text")
    return dict(raw)


def _mismatch(option: Option, raw: Any) -> ValueError:
    return ValueError(f"`{option.name}` is {_display(raw)}, not {option.expects}")


def _unknown(spec: Spec, name: str) -> Diagnostic:
    known = [option.name for option in spec.options]
    meant = did_you_mean(str(name), known, spec.other_names)
    hint = f"its options are {_names(spec)}{meant}" if spec.options else "it takes no options"
    return Diagnostic(CODE, f"`{spec.name}` has no option `{name}`", hint=hint)


def _names(spec: Spec) -> str:
    return ", ".join(f"`{option.name}` ({option.kind})" for option in spec.options)


def _display(value: Any) -> str:
    """A wrong value, shortened to fit on one line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, (list, tuple)):
        return "a list"
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
