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
    /* Passes short elements; its config is the maximum length, one digit. */
    #define TORVYN_FILTER
    #include <torvyn.h>

    TORVYN_UNIT("words");

    static uint64_t limit = 3;

    void torvyn_init(torvyn_bytes config) {
        if (config.size) limit = (uint64_t)(config.data[0] - '0');
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

COMPONENTS: Final = {
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
