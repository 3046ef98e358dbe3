"""The templates' components in C, with the same names, configs and outputs as those in Python."""

from __future__ import annotations

from textwrap import dedent
from typing import Final


def _code(text: str) -> str:
    return dedent(text).lstrip("\n")


_COUNTDOWN = _code("""
    /* Counts down; its config is the number to start from. */
    #define TORVYN_SOURCE
    #include <torvyn.h>

    TORVYN_UNIT("numbers");

    static uint64_t next = 3;
    static torvyn_text number;

    void torvyn_init(torvyn_bytes config) {
        if (!config.size) return;
        next = 0;
        for (size_t i = 0; i < config.size; i++)
            next = next * 10 + (uint64_t)(config.data[i] - '0');
    }

    void torvyn_pull(void) {
        if (!next) return; /* nothing emitted: the stream ends */
        torvyn_clear(&number);
        torvyn_append_number(&number, next--);
        torvyn_emit(number.data, number.size);
    }
""")

_SHOUT = _code("""
    /* Converts every element to upper case. */
    #define TORVYN_PROCESSOR
    #include <torvyn.h>

    #include <ctype.h>

    TORVYN_UNIT("shouts");

    void torvyn_process(const torvyn_element *element) {
        torvyn_bytes text = torvyn_read(element);
        char *loud = torvyn_scratch(text.size + 1);
        for (size_t i = 0; i < text.size; i++) loud[i] = (char)toupper((unsigned char)text.data[i]);
        loud[text.size] = '!';
        torvyn_emit(loud, text.size + 1);
    }
""")

_KEEP_SHORT = _code("""
    /* Passes short elements; its config is the maximum length. */
    #define TORVYN_FILTER
    #include <torvyn.h>

    TORVYN_UNIT("words");

    static uint64_t limit = 3;

    void torvyn_init(torvyn_bytes config) {
        if (!config.size) return;
        limit = 0;
        for (size_t i = 0; i < config.size; i++) {
            if (config.data[i] < '0' || config.data[i] > '9') {
                torvyn_fail(TORVYN_FATAL, "the config must be a number");
                return;
            }
            limit = limit * 10 + (uint64_t)(config.data[i] - '0');
        }
    }

    bool torvyn_evaluate(const torvyn_element *element) { return torvyn_size(element) <= limit; }
""")

_BY_LENGTH = _code("""
    /* Sends short elements to one port and long elements to another, without reading them. */
    #define TORVYN_ROUTER
    #include <torvyn.h>

    TORVYN_PORTS("short,long");

    void torvyn_route(const torvyn_element *element) {
        torvyn_send(torvyn_size(element) <= 3 ? "short" : "long");
    }
""")

_PAIRS = _code("""
    /* Joins every two elements into one. */
    #define TORVYN_AGGREGATOR
    #include <torvyn.h>

    TORVYN_UNIT("pairs");

    static torvyn_text pair;
    static int count;

    static void emit(void) {
        torvyn_emit(pair.data, pair.size);
        torvyn_clear(&pair);
        count = 0;
    }

    void torvyn_ingest(const torvyn_element *element) {
        torvyn_bytes text = torvyn_read(element);
        if (count) torvyn_append(&pair, " and ", 5);
        torvyn_append(&pair, text.data, text.size);
        if (++count == 2) emit();
    }

    void torvyn_flush(void) {
        if (count) emit();
    }
""")

_NUMBERED = _code("""
    /* Prints every element with its number. */
    #define TORVYN_SINK
    #include <torvyn.h>

    TORVYN_UNIT("lines");

    static uint64_t received;
    static torvyn_text line;

    torvyn_signal torvyn_push(const torvyn_element *element) {
        torvyn_bytes text = torvyn_read(element);
        torvyn_clear(&line);
        torvyn_append_number(&line, ++received);
        torvyn_append(&line, ". ", 2);
        torvyn_append(&line, text.data, text.size);
        torvyn_append(&line, "\\n", 1);
        torvyn_print(line.data, line.size);
        return TORVYN_READY;
    }
""")

_DETECTOR = _code("""
    /* Scores each reading: its distance from the moving mean, in standard deviations. */
    #define TORVYN_PROCESSOR
    #include <torvyn.h>

    #include <math.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>

    TORVYN_UNIT("readings");

    static const double alpha = 0.1, clip = 3.0, noise = 0.01, threshold = 4.0;
    static double mean, variance;
    static bool has_mean;

    void torvyn_process(const torvyn_element *element) {
        torvyn_bytes reading = torvyn_read(element);
        char *text = torvyn_scratch(reading.size + 1), *end, *output = torvyn_scratch(200);
        memcpy(text, reading.data, reading.size);
        text[reading.size] = 0;
        double value = strtod(text, &end);
        if (end == text || *end) {
            torvyn_fail(TORVYN_INVALID_INPUT, "the reading is not a number");
            return;
        }
        if (!has_mean) mean = value;
        has_mean = true;
        double deviation = sqrt(variance + noise), distance = value - mean;
        double score = fabs(distance) / deviation;
        /* An anomaly must not become the new normal. */
        distance = fmax(-clip * deviation, fmin(clip * deviation, distance));
        mean += alpha * distance;
        variance = (1 - alpha) * (variance + alpha * distance * distance);
        const char *verdict = score > threshold ? "true" : "false";
        int size = snprintf(output, 200, "{\\"value\\": %s, \\"score\\": %.2f, \\"anomaly\\": %s}",
                            text, score, verdict);
        torvyn_emit_as("application/json", output, (size_t)(size < 200 ? size : 199));
    }
""")

COMPONENTS: Final = {
    "detector": _DETECTOR,
    "countdown": _COUNTDOWN,
    "shout": _SHOUT,
    "keep-short": _KEEP_SHORT,
    "by-length": _BY_LENGTH,
    "pairs": _PAIRS,
    "numbered": _NUMBERED,
}
"""Name -> the text of its `component.c`."""

PRINTING: Final = ("numbered",)
"""The components that need a grant for standard output."""
