"""Components are exchanged at random moments: every element is processed once, by one version."""

from collections import Counter

from graphs import expected, graphs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scale import sample
from swap_graphs import SwappedFlow

from torvyn.testing import check_account

LAW = settings(
    max_examples=sample(6, full=30),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
seeds = st.integers(0, 2**32)


def run(swapped, most=200):
    """Starts the flow and exchanges components until it is over; returns how often it tried."""
    flow = swapped.flow.start()
    for version in range(1, most):
        if not swapped.swap_once(version) or flow.wait(0):
            break
    flow.wait()
    return version


@LAW
@given(graphs(), seeds)
def test_swaps_lose_nothing_and_repeat_nothing(graph, seed):
    swapped = SwappedFlow(graph, seed)
    run(swapped)

    sent = expected(swapped.graph)
    for at in swapped.sinks:
        assert Counter(swapped.texts[at]) == sent[at]
    check_account(swapped.flow.statistics)


@LAW
@given(graphs(), seeds)
def test_versions_that_fail_lose_nothing_and_repeat_nothing(graph, seed):
    swapped = SwappedFlow(graph, seed, breaks=True)
    run(swapped, most=60)

    sent = expected(swapped.graph)
    for at in swapped.sinks:
        assert Counter(swapped.texts[at]) == sent[at]
    check_account(swapped.flow.statistics)


@LAW
@given(graphs(), seeds)
def test_versions_follow_each_other_in_order(graph, seed):
    swapped = SwappedFlow(graph, seed)
    run(swapped)

    nodes = swapped.flow.statistics.nodes
    for name, versions in swapped.versions.items():
        assert versions == sorted(versions)
        assert len(versions) == nodes[name].received


@LAW
@given(graphs(), seeds, st.integers(0, 5), st.sampled_from(["drain", "cancel"]))
def test_an_ending_during_swaps_accounts_for_every_element(graph, seed, at, ending):
    swapped = SwappedFlow(graph, seed)
    flow = swapped.flow.start()
    for version in range(1, at + 2):
        if version == at + 1:
            getattr(flow, ending)()
        if not swapped.swap_once(version):
            break
    flow.wait()

    check_account(flow.statistics)
    emitted = sum(len(texts) for texts in swapped.texts.values())
    assert flow.statistics.emitted == emitted
