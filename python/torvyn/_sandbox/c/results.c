/* Starts a call, and writes its result as a record of the canonical ABI. */
#include "torvyn_internal.h"

#include <string.h>

torvyn__call torvyn__current;

/* Every call returns a `result`. Its payload starts at byte 4, or at byte 8 if it contains an element. */
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
} record;

void torvyn__enter(void) {
    torvyn__free_scratch();
    torvyn__current = (torvyn__call){0};
}

void torvyn__drop_element(const torvyn_element *element) {
    torvyn__drop_buffer(element->payload);
    torvyn__drop_context(element->context);
}

/* Drops the emitted elements that are not returned. */
static void drop_outputs(size_t from) {
    for (size_t i = from; i < torvyn__current.output_count; i++) torvyn__drop_buffer(torvyn__current.outputs[i].payload);
}

/* Returns whether the call failed. */
static bool write_status(bool is_wide, size_t max_outputs) {
    torvyn__call *call = &torvyn__current;
    torvyn__end_call();
    if (call->output_count > max_outputs) torvyn_fail(TORVYN_INTERNAL, "the call emitted more elements than it may");
    if (call->has_failed) drop_outputs(0);
    if (is_wide) {
        record.wide.is_error = call->has_failed;
        record.wide.error.kind = (uint8_t)call->error;
        record.wide.error.message = call->message;
    } else {
        record.narrow.is_error = call->has_failed;
        record.narrow.error.kind = (uint8_t)call->error;
        record.narrow.error.message = call->message;
    }
    return call->has_failed;
}

void *torvyn__result_nothing(void) {
    write_status(false, 0);
    return &record;
}

void *torvyn__result_number(uint8_t number) {
    if (!write_status(false, 0)) record.narrow.number = number;
    return &record;
}

void *torvyn__result_list(void) {
    if (!write_status(false, SIZE_MAX)) {
        record.narrow.list.items = torvyn__current.outputs;
        record.narrow.list.count = torvyn__current.output_count;
    }
    return &record;
}

void *torvyn__result_bytes(torvyn_bytes bytes) {
    if (!write_status(false, 0)) {
        record.narrow.list.items = bytes.data;
        record.narrow.list.count = bytes.size;
    }
    return &record;
}

void *torvyn__result_ports(void) {
    if (!write_status(false, 0)) {
        record.narrow.list.items = torvyn__current.ports;
        record.narrow.list.count = torvyn__current.port_count;
    }
    return &record;
}

/* A variant: the case `kind` with the emitted element, if any. */
static void *write_variant(uint8_t kind, size_t max_outputs) {
    if (!write_status(true, max_outputs)) {
        record.wide.choice.kind = kind;
        if (torvyn__current.output_count) record.wide.choice.output = torvyn__current.outputs[0];
    }
    return &record;
}

void *torvyn__result_option(void) { return write_variant(torvyn__current.output_count > 0, 1); }

void *torvyn__result_process(void) { return write_variant(torvyn__current.output_count == 0, 1); }

void torvyn__check_polled(torvyn_polled polled, bool has_element) {
    if ((polled == TORVYN_ELEMENT) != has_element)
        torvyn_fail(TORVYN_INTERNAL, "`torvyn_poll` must return TORVYN_ELEMENT if and only if it emitted an element");
}

void *torvyn__result_polled(torvyn_polled polled) {
    torvyn__check_polled(polled, torvyn__current.output_count > 0);
    return write_variant((uint8_t)polled, 1);
}

void *torvyn__result_verdict(torvyn_verdict verdict) {
    write_variant((uint8_t)verdict, verdict == TORVYN_REPLACED);
    if (verdict == TORVYN_BLOCKED && !torvyn__current.has_failed) record.wide.choice.reason = torvyn__current.reason;
    return &record;
}
