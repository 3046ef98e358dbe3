"""The end of a source: said once, and the source is not asked again."""

import asyncio

import pytest

import torvyn


class Three(torvyn.Source):
    """Counts how often it is asked."""

    asked = 0

    def pull(self):
        self.asked += 1
        return str(self.asked) if self.asked <= 3 else None


class ThreeLater(torvyn.Source):
    asked = 0

    async def pull(self):
        self.asked += 1
        return str(self.asked) if self.asked <= 3 else torvyn.End("length")


class ThreeOnAThread(Three):
    run = "thread"


@pytest.mark.parametrize("kind", [Three, ThreeLater, ThreeOnAThread])
def test_a_source_is_not_asked_again_after_its_end(kind):
    source = kind()

    texts = list(torvyn.Flow(source).text())

    assert (texts, source.asked) == (["1", "2", "3"], 4)


def test_an_async_generator_ends_a_flow_on_the_loop_that_runs_both():
    async def tokens():
        for token in ("a", "b"):
            await asyncio.sleep(0)
            yield token

    async def collected():
        return [element.text async for element in torvyn.Flow(tokens)]

    assert asyncio.run(collected()) == ["a", "b"]
