/* Batches: the host passes what waits in one piece, and gets all outputs in one piece.
 *
 * The component's own function is called once per element, without a call into the host. Its errors are those of single
 * elements.
 */
#include "torvyn_internal.h"

#include <stdlib.h>
#include <string.h>

/* A list of numbers or records that keeps its memory from batch to batch. */
typedef struct {
    void *items;
    size_t count;
    size_t capacity;
} list;

typedef struct {
    const void *items;
    size_t count;
} wire_list;

/* `record failure`. */
typedef struct {
    uint32_t position;
    uint8_t kind;
    torvyn_bytes message;
} failure;

/* `record detail`: of an output with another content type than the first one. */
typedef struct {
    uint32_t position;
    uint8_t has_content_type;
    torvyn_bytes content_type;
    uint8_t has_attributes;
    wire_list attributes;
    uint8_t keep;
} detail;

/* `record outputs`. */
typedef struct {
    wire_list data, ends, origins;
    torvyn_bytes content_type;
    wire_list details, failures;
} outputs;

/* Every batch function returns a `result` whose payload starts at byte 4. */
static struct {
    uint8_t is_error;
    union {
        outputs made;
        struct {
            outputs made;
            uint8_t progress;
        } pulled;
        struct {
            wire_list verdicts;
            outputs made;
            torvyn_bytes reason;
        } judged;
        struct {
            uint32_t taken;
            uint8_t signal;
            wire_list failures;
        } pushed;
    };
} record;

static list data, ends, origins, details, failures, verdicts;
static torvyn_bytes content_type, reason;
static uint32_t position;

static void *extend(list *to, size_t count, size_t item_bytes) {
    if (to->count + count > to->capacity) {
        size_t doubled = to->capacity * 2;
        to->capacity = to->count + count > doubled ? to->count + count : doubled;
        to->items = realloc(to->items, to->capacity * item_bytes);
        if (!to->items) __builtin_trap();
    }
    void *new_items = (char *)to->items + to->count * item_bytes;
    to->count += count;
    return new_items;
}

static void push_number(list *to, uint32_t number) { *(uint32_t *)extend(to, 1, sizeof number) = number; }

static wire_list on_wire(const list *from) { return (wire_list){from->items, from->count}; }

/* A copy that is valid until the call returns: a component may reuse its own for the next element. */
static torvyn_bytes copy_of(torvyn_bytes bytes) {
    char *copy = torvyn_scratch(bytes.size);
    if (bytes.size) memcpy(copy, bytes.data, bytes.size);
    return (torvyn_bytes){copy, bytes.size};
}

static bool is_equal(torvyn_bytes one, torvyn_bytes other) {
    return one.size == other.size && (one.data == other.data || memcmp(one.data, other.data, one.size) == 0);
}

void torvyn__batch_begin(void) {
    torvyn__free_scratch();
    list *const all[] = {&data, &ends, &origins, &details, &failures, &verdicts};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) all[i]->count = 0;
    content_type = reason = (torvyn_bytes){0};
    memset(&record, 0, sizeof record);
}

bool torvyn__batch_next(const torvyn__batch *batch, size_t at, torvyn_element *element) {
    if (at >= batch->count) return false;
    size_t start = at ? batch->ends[at - 1] : 0;
    *element = (torvyn_element){batch->sequences[at], batch->timestamps_ns[at], batch->content_type, -1, batch->context};
    torvyn__current = (torvyn__call){
        .payload = {batch->data + start, batch->ends[at] - start}, .has_read = true, .is_batch = true};
    position = (uint32_t)at;
    return true;
}

/* Starts the call for an element that a source is about to make. */
void torvyn__batch_pull(size_t at) {
    torvyn__current = (torvyn__call){.is_batch = true};
    position = (uint32_t)at;
}

size_t torvyn__batch_made(void) { return ends.count; }

void torvyn__batch_emit(torvyn_bytes type, const void *from, size_t size) {
    if (!content_type.data) content_type = copy_of(type);
    if (size) memcpy(extend(&data, size, 1), from, size);
    if (!is_equal(type, content_type)) {
        detail *special = extend(&details, 1, sizeof *special);
        *special = (detail){.position = (uint32_t)ends.count, .has_content_type = 1, .content_type = copy_of(type)};
    }
    push_number(&ends, (uint32_t)data.count);
    push_number(&origins, position);
}

/* Drops what a failed element emitted, and notes its error. Returns whether it failed. */
bool torvyn__batch_end(size_t max_outputs) {
    torvyn__call *call = &torvyn__current;
    if (call->output_count > max_outputs) torvyn_fail(TORVYN_INTERNAL, "the call emitted more elements than it may");
    if (!call->has_failed) return false;
    ends.count -= call->output_count;
    origins.count -= call->output_count;
    data.count = ends.count ? ((uint32_t *)ends.items)[ends.count - 1] : 0;
    while (details.count && ((detail *)details.items)[details.count - 1].position >= ends.count) details.count--;
    failure *failed = extend(&failures, 1, sizeof *failed);
    *failed = (failure){position, (uint8_t)call->error, copy_of(call->message)};
    return true;
}

void torvyn__batch_verdict(uint8_t verdict) {
    *(uint8_t *)extend(&verdicts, 1, 1) = verdict;
    if (verdict == TORVYN_BLOCKED && !reason.data) reason = copy_of(torvyn__current.reason);
}

static outputs made(void) {
    return (outputs){on_wire(&data), on_wire(&ends),    on_wire(&origins),
                     content_type,   on_wire(&details), on_wire(&failures)};
}

static void end_call(void) {
    torvyn__current.is_batch = false;
    torvyn__end_call();
}

void *torvyn__batch_outputs(int32_t context) {
    torvyn__drop_context(context);
    end_call();
    record.made = made();
    return &record;
}

void *torvyn__batch_pulled(uint8_t progress) {
    end_call();
    record.pulled.made = made();
    record.pulled.progress = progress;
    return &record;
}

void *torvyn__batch_verdicts(int32_t context) {
    torvyn__drop_context(context);
    end_call();
    record.judged.verdicts = on_wire(&verdicts);
    record.judged.made = made();
    record.judged.reason = reason;
    return &record;
}

void *torvyn__batch_pushed(int32_t context, size_t taken, torvyn_signal signal) {
    torvyn__drop_context(context);
    end_call();
    record.pushed.taken = (uint32_t)taken;
    record.pushed.signal = (uint8_t)signal;
    record.pushed.failures = on_wire(&failures);
    return &record;
}
