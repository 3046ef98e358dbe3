"""Components that misbehave wherever torvyn looks at them, for every role and run mode."""

import asyncio

from torvyn._contract.roles import METHODS, ROLES

CULPRIT = "culprit"
MODES = ("inline", "thread", "async")


class Boom(Exception):
    pass


class Unprintable(Exception):
    """An exception whose text cannot be read."""

    def __str__(self):
        raise ValueError("no text")


class Unusual(BaseException):
    """What is raised and is no `Exception`."""


class Odd:
    """An answer that raises whatever is asked of it."""

    def _raise(self, *arguments):
        raise Boom("odd")

    __bool__ = __len__ = __eq__ = __hash__ = __repr__ = __str__ = __iter__ = __getattr__ = _raise


class Liar:
    """An answer that will not tell its class."""

    @property
    def __class__(self):
        raise Boom("no class")


class InstanceOnly:
    """A descriptor that raises when it is read from an object."""

    def __get__(self, thing, cls=None):
        if thing is None:
            return self
        raise Boom("descriptor")


class NamelessMeta(type):
    def __getattribute__(cls, name):
        if name in ("__name__", "__qualname__", "__module__"):
            raise Boom(name)
        return super().__getattribute__(name)


class NumberedMeta(type):
    __name__ = 5


class ClosedMeta(type):
    def __getattr__(cls, name):
        raise Boom(name)

    def __instancecheck__(cls, thing):
        raise Boom("instance")

    def __subclasscheck__(cls, thing):
        raise Boom("subclass")


def raising(error):
    def call(self, *arguments):
        raise error

    return call


def giving(make):
    return lambda self, *arguments: make()


def good(role):
    """The method of a role that does what it should."""

    def pull(self):
        self.__dict__["sent"] = sent = self.__dict__.get("sent", 0) + 1
        return str(sent) if sent <= 3 else None

    return {
        "source": pull,
        "processor": lambda self, element: element.text,
        "filter": lambda self, element: True,
        "router": lambda self, element: ["a"],
        "aggregator": lambda self, element: element.text,
        "sink": lambda self, element: None,
    }[role]


def make_hostile(role, mode, attributes, meta=type):
    """A component of a role with some attributes of its own; None as its method takes it away."""
    main = METHODS[role]
    attributes = dict(attributes)
    method = attributes.pop(main, good(role))
    space = {"ports": ("a",)} if role == "router" else {}
    if mode == "thread":
        space["run"] = "thread"
    if method is not None:
        space[main] = as_coroutine(method) if mode == "async" and callable(method) else method
    return meta("Hostile", (ROLES[role],), space | attributes)()


def as_coroutine(method):
    async def call(self, *arguments):
        return method(self, *arguments)

    return call


def iterated(role, **methods):
    """A source without `pull`; other roles keep their method and are not iterated."""
    return methods | ({"pull": None} if role == "source" else {})


READ = {
    "a `__getattr__` that raises": lambda role: {"__getattr__": raising(Boom("unknown"))},
    "a `__getattribute__` that raises": lambda role: {"__getattribute__": raising(Boom("all"))},
    "a role that is a number": lambda role: {"role": 5},
    "a role that is a list": lambda role: {"role": []},
    "a role that does not exist": lambda role: {"role": "sunk"},
    "a role that raises": lambda role: {"role": InstanceOnly()},
    "a method that raises when read": lambda role: {METHODS[role]: InstanceOnly()},
    "a unit that raises": lambda role: {"unit": InstanceOnly()},
    "a unit that is a number": lambda role: {"unit": 5},
    "a run mode that raises": lambda role: {"run": InstanceOnly()},
    "a run mode that is a list": lambda role: {"run": []},
    "a run mode that cannot be compared": lambda role: {"run": Odd()},
    "an `init` that is None": lambda role: {"init": None},
    "a `teardown` that is None": lambda role: {"teardown": None},
}
"""Whatever is read before a flow starts."""

CALLED = {
    "an exception": lambda: Boom("x"),
    "an exception without a text": Unprintable,
    "SystemExit": lambda: SystemExit(3),
    "GeneratorExit": GeneratorExit,
    "CancelledError": asyncio.CancelledError,
    "another BaseException": lambda: Unusual("x"),
}
"""Whatever a call raises."""

ANSWERED = {
    "an object that raises": Odd,
    "an object without a class": Liar,
    "a number": lambda: 5,
    "a class": lambda: int,
    "a list of objects that raise": lambda: [Odd()],
    "a list of objects without a class": lambda: [Liar()],
}
"""Whatever a call gives."""

ITERATED = {
    "a list": lambda self: ["x"],
    "a str": lambda self: "x",
    "None": lambda self: None,
    "an exception": raising(Boom("x")),
    "an exception without a text": raising(Unprintable()),
    "SystemExit": raising(SystemExit(3)),
}
"""Whatever `__iter__` and `__aiter__` do instead of giving an iterator."""

HARMLESS = {
    "comparing": {
        name: raising(Boom(name))
        for name in ("__eq__", "__hash__", "__repr__", "__str__", "__len__", "__bool__")
    },
    "not hashable": {"__hash__": None},
    "no class": {"__class__": property(raising(Boom("class")))},
}
"""What torvyn never asks of a component."""

METACLASSES = (NamelessMeta, NumberedMeta, ClosedMeta)
