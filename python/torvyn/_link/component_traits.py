"""What link reads from a component without starting it: role, ports, calls, signatures, config.

Everything is read through `_contract.inspection`, which blames exceptions on the component. A
method with too few or too many parameters, or one that is `async` while the main method is not,
would fail at the first element or at the end of the stream; a config of the wrong kind may say
nothing to a filter, which would then pass all. Link reports both before anything starts.
"""

from __future__ import annotations

import inspect
import json
import sys
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeGuard

from torvyn._contract.config import config_kind_of, table_keys, table_of
from torvyn._contract.enums import ConfigKind, Role
from torvyn._contract.inspection import (
    class_attribute,
    class_name,
    describe_error,
    has_attribute,
    is_class,
    is_instance,
    read_attribute,
    read_text_attribute,
)
from torvyn._contract.roles import (
    BATCH_METHODS,
    METHODS,
    OPTIONAL_METHODS,
    ROLES,
    TIMED_ROLES,
    TIMER_METHODS,
    AnyComponent,
    Component,
    defines_method,
)
from torvyn.errors import ContractError, Diagnostic, quoted, suggestion

if TYPE_CHECKING:
    from torvyn._sandbox.component import GuestComponent

INPUT, OUTPUT, ERROR = "input", "output", "error"


def role_of(component: AnyComponent) -> str:
    """The role; raises `ContractError` when the class has overwritten it."""
    role = read_attribute(component, "role")
    if type(role) is str and role in ROLES:
        return role
    value = f"`{role}`" if type(role) is str else f"an object of type {class_name(role)}"
    message = f"the `role` of `{class_name(component)}` is {value}"
    hint = "subclass a role and do not change `role`"
    raise ContractError("contract.bad-attribute", message, hint=hint)


def is_component_class(thing: Any) -> bool:
    """Whether it is a class with a role, even if it has overwritten its `role`."""
    if not is_class(thing) or not issubclass(thing, Component):
        return False
    return issubclass(thing, tuple(ROLES.values())) or read_text_attribute(thing, "role") in ROLES


def is_guest(component: object) -> TypeGuard[GuestComponent]:
    """Whether it runs in the sandbox. There are no guests before their module was loaded."""
    module = sys.modules.get("torvyn._sandbox.component")
    return module is not None and is_instance(component, module.GuestComponent)


def ports_of(component: AnyComponent, role: str, config: Any) -> tuple[str, ...]:
    """The output ports. Those of a router come from its config or its class."""
    if role == "sink":
        return ()
    if role in TIMED_ROLES:
        return (OUTPUT, *_names(read_attribute(component, "ports", ())))
    if role != "router":
        return (OUTPUT,)
    ports_for = read_attribute(component, "ports_for", None)
    if ports_for is not None:
        return tuple(ports_for(config))
    if isinstance(config, dict) and "ports" in config:
        return _names(config["ports"])
    return _names(read_attribute(component, "ports", ()))


def inputs_of(component: AnyComponent, role: str) -> tuple[str, ...]:
    """The names of the inputs; empty for a component that does not tell them apart."""
    return _names(read_attribute(component, "inputs", ()), "inputs") if role in TIMED_ROLES else ()


def _names(ports: Any, attribute: str = "ports") -> tuple[str, ...]:
    if isinstance(ports, str):
        raise ValueError(f"`{attribute}` must be a list of names")
    try:
        names = tuple(ports)
    except Exception as error:
        message = f"`{attribute}` must be a list of names; {describe_error(error)}"
        raise ValueError(message) from error
    if not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"`{attribute}` must be a list of names")
    if len(set(names)) != len(names):
        raise ValueError(f"`{attribute}` has a name twice")
    if ERROR in names:
        raise ValueError(f"the port `{ERROR}` is reserved for dead letters")
    return names


_ELEMENTS: Final = frozenset(
    (
        *("chunk", "document", "event", "frame", "line", "message", "number", "pair", "reading"),
        *("record", "request", "row", "sample", "sentence", "token", "word"),
    )
)
"""What names of components say about their outputs."""


def unit_of_name(name: str, role: str) -> str | None:
    """What a component sends, if its name says so: `token-source` sends tokens."""
    noun, _, rest = name.rpartition("-")
    return f"{noun}s" if rest == role and noun in _ELEMENTS else None


class CallStyle(NamedTuple):
    """How the methods of a component are called."""

    is_async: bool | None
    """Whether its role's method is `async`; None when it has no such method."""
    is_guest: bool = False
    reads_stream: bool = False
    """It is one generator over the whole stream, which needs a thread or a task of its own."""


def call_style_of(component: AnyComponent, role: str) -> CallStyle:
    if read_attribute(component, "is_guest", False) is True:
        return CallStyle(False, is_guest=True)
    streaming = read_attribute(component, "stream_function", None)
    if streaming is not None:
        return CallStyle(is_async_function(streaming), reads_stream=True)
    return CallStyle(_is_async(component, role))


def _is_async(component: AnyComponent, role: str) -> bool | None:
    method = METHODS[role]
    if defines_method(component, role, method):
        return is_async_function(read_attribute(component, method))
    batch_method = BATCH_METHODS.get(role)
    if batch_method is not None and defines_method(component, role, batch_method):
        return is_async_function(read_attribute(component, batch_method))
    if role == "source":
        if has_attribute(component, "__aiter__"):
            return True
        return False if has_attribute(component, "__iter__") else None
    return None


_ASYNC_FLAGS: Final = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def is_async_function(function: Any) -> bool:
    """Whether a call returns something to await or to iterate with `async for`."""
    plain = getattr(function, "__func__", function)
    if type(plain) is FunctionType and not plain.__dict__:
        # The result of `inspect` for a function without attributes, in a tenth of the time.
        return bool(plain.__code__.co_flags & _ASYNC_FLAGS)
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return True
    if inspect.isroutine(function) or is_class(function):
        return False
    call = read_attribute(function, "__call__", None)
    return inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call)


ARGUMENTS: Final[dict[str, tuple[str, ...]]] = {
    "init": ("config",),
    "teardown": (),
    "pull": (),
    "notify_backpressure": ("signal",),
    "process": ("element",),
    "evaluate": ("element",),
    "route": ("element",),
    "ingest": ("element",),
    "push": ("element",),
    **dict.fromkeys(BATCH_METHODS.values(), ("elements",)),
    "pull_batch": ("most",),
    "flush": (),
    "due_ns": (),
    "on_timer": (),
    "complete": ("end",),
}
"""The arguments of each method."""
ROLE_METHODS: Final = {
    role: (
        "init",
        method,
        *((BATCH_METHODS[role],) if role in BATCH_METHODS else ()),
        *OPTIONAL_METHODS[role],
        "teardown",
    )
    for role, method in METHODS.items()
}
"""The methods of each role, in the order of their calls."""
_STARRED: Final = inspect.CO_VARARGS
_FIT: Final[weakref.WeakSet[type[Any]]] = weakref.WeakSet()
"""Classes without a problem: each is checked once, however many flows use it."""


def wrong_signatures(component: AnyComponent, role: str, style: CallStyle) -> list[tuple[str, str]]:
    """What is wrong with each method that its role cannot call, and a hint."""
    names = ROLE_METHODS[role] + (TIMER_METHODS if role in TIMED_ROLES else ())
    cls: Any = component if is_class(component) else type(component)
    own = {} if cls is component else object.__getattribute__(component, "__dict__")
    is_plain = type(cls) is type and own.keys().isdisjoint(names)
    if style.is_guest or (is_plain and cls in _FIT):
        return []
    methods = [_method(cls, own, name) for name in names if defines_method(component, role, name)]
    found = [_problem(component, role, style, method) for method in methods if method is not None]
    wrong = [problem for problem in found if problem is not None]
    if is_plain and not wrong:
        _FIT.add(cls)
    return wrong


def _problem(
    component: AnyComponent, role: str, style: CallStyle, method: _Method
) -> tuple[str, str] | None:
    """The problem of a method and a hint."""
    name, title = method.name, class_name(component)
    hint = f"write `def {name}({', '.join(('self', *method.arguments))})`"
    if not callable(method.function):
        return f"`{name}` of `{title}` is not a method", hint
    if not method.fits:
        call = f"{name}({', '.join(method.arguments)})"
        message = f"`{title}` has `{method.signature}`, but {_article(role)} is called as `{call}`"
        return message, hint
    if not style.is_async and is_async_function(method.function):
        # The component does not run on an event loop, so nothing would await the call.
        main = _main_method(component, role)
        message = f"`{name}` of `{title}` is async and `{main}` is not"
        return message, f"write `async def {main}` as well, or make `{name}` a plain method"
    return None


def _main_method(component: AnyComponent, role: str) -> str:
    """The method that decides whether the component runs on an event loop."""
    for name in filter(None, (METHODS[role], BATCH_METHODS.get(role))):
        if defines_method(component, role, name):
            return name
    return "__iter__"


def _article(role: str) -> str:
    return f"{'an' if role == 'aggregator' else 'a'} {role}"


@dataclass(frozen=True, slots=True)
class _Method:
    """A method as its author wrote it, and the number of arguments that are bound already."""

    name: str
    function: Any
    bound: int

    @property
    def arguments(self) -> tuple[str, ...]:
        return ARGUMENTS[self.name]

    @property
    def fits(self) -> bool:
        return _accepts(self.function, self.bound + len(self.arguments))

    @property
    def signature(self) -> str:
        """The signature without annotations, which do not matter here."""
        bare = inspect.Parameter.empty
        try:
            signature = inspect.signature(self.function)
            parameters = [item.replace(annotation=bare) for item in signature.parameters.values()]
            text = signature.replace(parameters=parameters, return_annotation=bare)
        except Exception:
            return self.name
        return f"{self.name}{text}"


def _method(cls: type[Any], own: Mapping[str, Any], name: str) -> _Method | None:
    """The method as its author wrote it; None for descriptors that cannot be inspected."""
    if name in own:
        return _Method(name, own[name], 0)
    attribute = class_attribute(cls, name)
    if isinstance(attribute, staticmethod):
        return _Method(name, attribute.__func__, 0)
    if isinstance(attribute, classmethod):
        return _Method(name, attribute.__func__, 1)
    if isinstance(attribute, FunctionType):
        return _Method(name, attribute, 1)
    if hasattr(type(attribute), "__get__"):
        return None
    return _Method(name, attribute, 0)


def _accepts(function: Any, count: int) -> bool:
    """Whether it can be called with so many arguments by position."""
    if isinstance(function, MethodType):
        return _accepts(function.__func__, count + 1)
    if not isinstance(function, FunctionType):
        return _binds(function, count)
    code = function.__code__
    names = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    defaults = function.__kwdefaults__ or {}
    if any(name not in defaults for name in names):
        return False
    least = code.co_argcount - len(function.__defaults__ or ())
    return least <= count and (count <= code.co_argcount or bool(code.co_flags & _STARRED))


def _binds(function: Any, count: int) -> bool:
    try:
        signature = inspect.signature(function)
    except Exception:
        # Some built-in functions have no signature.
        return True
    try:
        signature.bind(*(None,) * count)
    except TypeError:
        return False
    return True


_CODE: Final = "contract.wrong-config"
_TAKES: Final = {
    ConfigKind.TEXT: "text",
    ConfigKind.TABLE: "a table",
    ConfigKind.EITHER: "text or a table",
    ConfigKind.NONE: "no config",
}
_JSON_HINT: Final = (
    'write other text, or set `config_kind = "either"` on its class if it reads JSON itself'
)


def check_config_kind(component: AnyComponent, role: str, config: Any) -> None:
    """Raises `ContractError` if the component does not take such a config."""
    # On a command line, and in a running flow, a table is JSON text.
    table = table_of(config) if isinstance(config, str) else config
    given = config if table is None else table
    if config == "" or _is_list_of_ports(role, given):
        return
    kind = config_kind_of(component)
    if kind in _kinds_of(given):
        _check_keys(component, given)
        return
    if kind == ConfigKind.TEXT and table is not None and isinstance(config, str):
        message = f"`{class_name(component)}` takes text as its config, and this text is a JSON "
        raise ContractError(_CODE, f"{message}object, which counts as a table", hint=_JSON_HINT)
    got = "" if kind == ConfigKind.NONE else f" as its config, not {_phrase(given)}"
    message = f"`{class_name(component)}` takes {_TAKES[kind]}{got}"
    raise ContractError(_CODE, message, hint=_hint(component, kind))


def _check_keys(component: AnyComponent, config: Any) -> None:
    """Raises for unknown and missing keys, where the component names its keys in a `TypedDict`."""
    keys, name = table_keys(component), class_name(component)
    if not keys or isinstance(config, str):
        return
    problems = [
        Diagnostic(
            _CODE,
            f"`{name}` has no option `{key}`",
            hint=suggestion(str(key), keys, f"its options are {quoted(keys)}"),
        )
        for key in config
        if key not in keys
    ]
    missing = [key for key, is_required in keys.items() if is_required and key not in config]
    problems += [Diagnostic(_CODE, f"`{name}` needs the option `{key}`") for key in missing]
    if problems:
        raise ContractError.of(problems)


def _is_list_of_ports(role: str, config: Any) -> bool:
    """Torvyn itself reads the ports of a router."""
    return role == Role.ROUTER and isinstance(config, Mapping) and "ports" in config


def _kinds_of(config: Any) -> tuple[ConfigKind, ...]:
    """The kinds of components that take this config."""
    if isinstance(config, Mapping):
        return (ConfigKind.TABLE, ConfigKind.EITHER)
    return (ConfigKind.TEXT, ConfigKind.EITHER) if isinstance(config, str) else ()


def _phrase(config: Any) -> str:
    if isinstance(config, Mapping):
        return "a table"
    if isinstance(config, (list, tuple)):
        return "a list"
    return "text" if isinstance(config, str) else f"`{json.dumps(config, default=str)}`"


def _hint(component: AnyComponent, kind: ConfigKind) -> str:
    pairs = ", ".join(f"{key} = ..." for key in table_keys(component) or ("name",))
    text, table = 'text, `config = "..."`', f"a table, `config = {{ {pairs} }}`"
    match kind:
        case ConfigKind.TEXT:
            return f"write {text}"
        case ConfigKind.TABLE:
            return f"write {table}"
        case ConfigKind.EITHER:
            return f"write {text}, or {table}"
        case _:
            return "remove `config`, or write `def init(self, config)`"
