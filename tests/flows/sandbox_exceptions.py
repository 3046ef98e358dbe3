"""Tests of flows that do not run in the sandbox, each with the reason."""

WHOLE = "a sandboxed processor answers with a whole list: its generator is run to the end"

REASONS = {
    "test_a_generator_that_fails_half_way_keeps_what_it_gave": WHOLE,
    "test_a_generator_of_a_processor_is_not_run_ahead_of_the_queue": WHOLE,
    "test_a_failing_notice_is_reported_and_the_stream_goes_on": "a guest reports it in its log",
    "test_a_flow_tells_the_memory_it_takes": "a guest's node keeps its limits and facts as well",
    "test_iterables_and_iterators_are_sources[wasm-<lambda>]": "a generator cannot travel",
    "test_fan_out_gives_the_same_text_to_everybody": "every guest has its own copy of a text",
    "test_any_other_exception_is_internal_and_keeps_its_traceback": (
        "exceptions stay inside the guest; their type and text come out"
    ),
}
"""By the name of the test, or of one of its cases."""
