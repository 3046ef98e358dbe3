"""Methods that their role cannot call are found by link, with what they take and what they get."""

import functools

import pytest

import torvyn
from torvyn._contract.roles import METHODS, ROLES
from torvyn.errors import LinkError

ARGUMENTS = {
    "init": "config",
    "teardown": "",
    "pull": "",
    "notify_backpressure": "signal",
    "flush": "",
    "complete": "end",
} | dict.fromkeys(("process", "evaluate", "route", "ingest", "push"), "element")
BESIDE = {
    "source": ("notify_backpressure",),
    "processor": ("flush",),
    "filter": ("flush",),
    "router": (),
    "aggregator": ("flush",),
    "sink": ("complete",),
}
METHODS_OF = [
    (role, name) for role in ROLES for name in ("init", METHODS[role], *BESIDE[role], "teardown")
]
EVERY_METHOD = pytest.mark.parametrize(("role", "name"), METHODS_OF)


def define(head, body="pass"):
    space = {}
    exec(f"{head}:\n    {body}", space)
    return space[head.split("def ")[1].split("(")[0]]


def make(role, **methods):
    """A class of a role, whose method is right unless it is given."""
    main = METHODS[role]
    own = {"ports": ("a",)} if role == "router" else {}
    own[main] = define(f"def {main}(self{', element' if role != 'source' else ''})")
    return type("Part", (ROLES[role],), own | methods)


def problems(part):
    flow = torvyn.Flow()
    flow.add("node", part)
    try:
        _ = flow.plan
    except LinkError as error:
        return [found for found in error.diagnostics if found.code == "contract.wrong-signature"]
    return []


@EVERY_METHOD
@pytest.mark.parametrize("start", ["def", "async def"])
def test_a_method_that_takes_too_much_is_explained(role, name, start):
    taken = ", ".join(filter(None, ("self", ARGUMENTS[name], "more")))
    part = make(role, **{name: define(f"{start} {name}({taken})")})

    (found,) = problems(part)

    wanted = f"{name}({ARGUMENTS[name]})"
    article = "an" if role == "aggregator" else "a"
    assert found.message == (
        f"node `node`: `Part` has `{name}({taken})`, but {article} {role} is called as `{wanted}`"
    )
    assert found.hint == f"write `def {name}({', '.join(filter(None, ('self', ARGUMENTS[name])))})`"


@EVERY_METHOD
def test_a_method_that_takes_nothing_at_all_is_explained(role, name):
    (found,) = problems(make(role, **{name: define(f"def {name}()")}))

    assert f"`Part` has `{name}()`" in found.message


@pytest.mark.parametrize(("role", "name"), [pair for pair in METHODS_OF if ARGUMENTS[pair[1]]])
def test_a_method_that_takes_too_little_is_explained(role, name):
    (found,) = problems(make(role, **{name: define(f"def {name}(self)")}))

    assert f"`Part` has `{name}(self)`" in found.message


@EVERY_METHOD
def test_a_keyword_that_nobody_gives_is_explained(role, name):
    taken = ", ".join(filter(None, ("self", ARGUMENTS[name], "*", "more")))

    (found,) = problems(make(role, **{name: define(f"def {name}({taken})")}))

    assert f"`Part` has `{name}({taken})`" in found.message


@EVERY_METHOD
@pytest.mark.parametrize("extra", ["more=None", "*rest", "**rest", "*, more=None"])
def test_a_method_may_take_more_that_has_a_default(role, name, extra):
    taken = ", ".join(filter(None, ("self", ARGUMENTS[name], extra)))

    assert problems(make(role, **{name: define(f"def {name}({taken})")})) == []


@EVERY_METHOD
def test_static_and_class_methods_and_wrapped_ones_are_what_they_are(role, name):
    own = ARGUMENTS[name]
    static = staticmethod(define(f"def {name}({own})"))
    of_class = classmethod(define(f"def {name}({', '.join(filter(None, ('cls', own)))})"))
    # Without `staticmethod`, a partial becomes a method in future versions of Python.
    partial = staticmethod(functools.partial(lambda *taken: None))

    for method in (static, of_class, partial):
        assert problems(make(role, **{name: method})) == []
    (found,) = problems(make(role, **{name: staticmethod(define(f"def {name}(self, more, x)"))}))
    assert f"`{name}(self, more, x)`" in found.message


@pytest.mark.parametrize(
    ("role", "name"), [pair for pair in METHODS_OF if pair[1] != METHODS[pair[0]]]
)
def test_an_async_method_beside_one_that_is_not_is_explained(role, name):
    taken = ", ".join(filter(None, ("self", ARGUMENTS[name])))
    method, main = define(f"async def {name}({taken})"), METHODS[role]

    (found,) = problems(make(role, **{name: method}))

    assert found.message == f"node `node`: `{name}` of `Part` is async and `{main}` is not"
    taken = "self" if role == "source" else "self, element"
    both = {name: method, main: define(f"async def {main}({taken})")}
    assert problems(make(role, **both)) == []


@EVERY_METHOD
def test_what_is_no_method_is_explained(role, name):
    (found,) = problems(make(role, **{name: "text"}))

    assert found.message == f"node `node`: `{name}` of `Part` is not a method"


def test_all_wrong_methods_are_told_in_one_run():
    part = make("sink", init=define("def init(self)"), complete=define("def complete(self)"))

    assert len(problems(part)) == 2


def test_a_plain_function_is_compared_as_well():
    for component in (torvyn.filter(lambda: True), torvyn.filter(lambda element, more: True)):
        (found,) = problems(component)
        assert "a filter is called as `evaluate(element)`" in found.message
    assert problems(torvyn.processor(str)) == []
    assert problems(torvyn.sink(print)) == []


def test_a_method_is_a_property_of_its_object():
    class Part(torvyn.Filter):
        @property
        def evaluate(self):
            return lambda element: True

    assert problems(Part()) == []
