/* The border of a call: what it begins with and the record its answer becomes. */
#include "torvyn_internal.h"

#include <string.h>

IMPORT(TYPES, "[resource-drop]flow-context") void drop_context(int32_t context);

torvyn__call torvyn__now;

/* Every answer is a `result`. Its second word begins after 4 bytes, or after 8 where it holds an element. */
static union {
    struct {
        uint8_t is_error;
        union {
            struct {
                uint8_t kind;
                torvyn_bytes message;
            } error;
            struct {
                const void *items;
                size_t count;
            } list;
            uint8_t number;
        };
    } narrow;
    struct {
        uint8_t is_error;
        union {
            struct {
                uint8_t kind;
                torvyn_bytes message;
            } error;
            struct {
                uint8_t kind;
                union {
                    torvyn__output output;
                    torvyn_bytes reason;
                };
            } choice;
        } __attribute__((aligned(8)));
    } wide;
} answer;

void torvyn__enter(void) {
    torvyn__forget_scratch();
    torvyn__now = (torvyn__call){0};
}

void torvyn__return(const torvyn_element *element) {
    torvyn__drop_buffer(element->payload);
    drop_context(element->context);
}

/* What was emitted and is not handed over goes back. */
static void drop_outputs(size_t from) {
    for (size_t i = from; i < torvyn__now.output_count; i++) torvyn__drop_buffer(torvyn__now.outputs[i].payload);
}

static bool fails(bool is_wide, size_t most_outputs) {
    torvyn__call *now = &torvyn__now;
    torvyn__end_call();
    if (now->output_count > most_outputs) torvyn_fail(TORVYN_INTERNAL, "more was emitted than one call may");
    if (now->has_failed) drop_outputs(0);
    if (is_wide) {
        answer.wide.is_error = now->has_failed;
        answer.wide.error.kind = (uint8_t)now->error;
        answer.wide.error.message = now->message;
    } else {
        answer.narrow.is_error = now->has_failed;
        answer.narrow.error.kind = (uint8_t)now->error;
        answer.narrow.error.message = now->message;
    }
    return now->has_failed;
}

void *torvyn__answer_nothing(void) {
    fails(false, 0);
    return &answer;
}

void *torvyn__answer_number(uint8_t number) {
    if (!fails(false, 0)) answer.narrow.number = number;
    return &answer;
}

void *torvyn__answer_list(void) {
    if (!fails(false, SIZE_MAX)) {
        answer.narrow.list.items = torvyn__now.outputs;
        answer.narrow.list.count = torvyn__now.output_count;
    }
    return &answer;
}

void *torvyn__answer_ports(void) {
    if (!fails(false, 0)) {
        answer.narrow.list.items = torvyn__now.ports;
        answer.narrow.list.count = torvyn__now.port_count;
    }
    return &answer;
}

/* One of several cases; the case `kind` holds what was emitted, if anything was. */
static void *choose(uint8_t kind, size_t most_outputs) {
    if (!fails(true, most_outputs)) {
        answer.wide.choice.kind = kind;
        if (torvyn__now.output_count) answer.wide.choice.output = torvyn__now.outputs[0];
    }
    return &answer;
}

void *torvyn__answer_option(void) { return choose(torvyn__now.output_count > 0, 1); }

void *torvyn__answer_process(void) { return choose(torvyn__now.output_count == 0, 1); }

void *torvyn__answer_polled(torvyn_polled polled) {
    bool has_element = polled == TORVYN_ELEMENT;
    if (has_element != (torvyn__now.output_count > 0))
        torvyn_fail(TORVYN_INTERNAL, "`torvyn_poll` says TORVYN_ELEMENT exactly when it emitted one");
    return choose((uint8_t)polled, 1);
}

void *torvyn__answer_verdict(torvyn_verdict verdict) {
    choose((uint8_t)verdict, verdict == TORVYN_REPLACED);
    if (verdict == TORVYN_BLOCKED && !torvyn__now.has_failed) answer.wide.choice.reason = torvyn__now.reason;
    return &answer;
}
