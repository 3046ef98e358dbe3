"""The components of the templates in C: the same names, configs and outputs as those in Python."""

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
    /* Makes every element louder. */
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
    /* Lets short elements pass; its config is the greatest length, one digit. */
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
    /* Sends short elements one way and long ones another. Nothing is read. */
    #define TORVYN_ROUTER
    #include <torvyn.h>

    TORVYN_PORTS("short,long");

    void torvyn_route(const torvyn_element *element) {
        torvyn_send(torvyn_size(element) <= 3 ? "short" : "long");
    }
""")

_PAIRS = _code("""
    /* Joins two elements to one. */
    #define TORVYN_AGGREGATOR
    #include <torvyn.h>

    TORVYN_UNIT("pairs");

    static torvyn_text held;
    static int count;

    static void take(void) {
        torvyn_emit(held.data, held.size);
        torvyn_clear(&held);
        count = 0;
    }

    void torvyn_ingest(const torvyn_element *element) {
        torvyn_bytes text = torvyn_read(element);
        if (count) torvyn_append(&held, " and ", 5);
        torvyn_append(&held, text.data, text.size);
        if (++count == 2) take();
    }

    void torvyn_flush(void) {
        if (count) take();
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
"""Those that need a grant for standard output."""
