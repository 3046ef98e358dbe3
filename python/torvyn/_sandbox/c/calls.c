/* The functions that a component can call during a call: read, emit, fail. */
#include "torvyn_internal.h"

#include <string.h>

IMPORT(TYPES, "[method]buffer.size") uint64_t buffer_size(int32_t buffer);
IMPORT(TYPES, "[method]buffer.read") void buffer_read(int32_t buffer, uint64_t offset, uint64_t size, torvyn_bytes *to);
IMPORT(TYPES, "[method]buffer.read-all") void buffer_read_all(int32_t buffer, torvyn_bytes *to);
IMPORT(TYPES, "[method]flow-context.flow-id") void context_flow_id(int32_t context, torvyn_bytes *to);
IMPORT(TYPES, "[method]flow-context.trace-id") void context_trace_id(int32_t context, torvyn_bytes *to);
IMPORT(TYPES, "[method]flow-context.deadline-ns") uint64_t context_deadline_ns(int32_t context);

/* `result<mutable-buffer, buffer-error>`, and without the handle `result<_, buffer-error>`. */
typedef struct {
    uint8_t is_error;
    union {
        int32_t buffer;
        struct {
            uint8_t kind;
            torvyn_bytes message;
        } error;
    };
} buffer_result;

IMPORT(ALLOCATOR, "allocate") void allocate(uint64_t capacity, buffer_result *to);
IMPORT(TYPES, "[method]mutable-buffer.append")
void mutable_append(int32_t buffer, const void *data, size_t size, buffer_result *to);
IMPORT(TYPES, "[method]mutable-buffer.freeze") int32_t mutable_freeze(int32_t buffer);
IMPORT(TYPES, "[resource-drop]mutable-buffer") void drop_mutable(int32_t buffer);

torvyn_bytes torvyn_read(const torvyn_element *element) {
    if (!torvyn__current.has_read) {
        buffer_read_all(element->payload, &torvyn__current.payload);
        torvyn__current.has_read = true;
    }
    return torvyn__current.payload;
}

torvyn_bytes torvyn_read_at(const torvyn_element *element, uint64_t offset, uint64_t size) {
    if (torvyn__current.is_batch) {
        torvyn_bytes all = torvyn__current.payload;
        size_t start = offset < all.size ? (size_t)offset : all.size;
        size_t left = all.size - start;
        return (torvyn_bytes){all.data + start, size < left ? (size_t)size : left};
    }
    torvyn_bytes read;
    buffer_read(element->payload, offset, size, &read);
    return read;
}

uint64_t torvyn_size(const torvyn_element *element) {
    return torvyn__current.is_batch ? torvyn__current.payload.size : buffer_size(element->payload);
}

torvyn_bytes torvyn_flow_id(const torvyn_element *element) {
    torvyn_bytes id;
    context_flow_id(element->context, &id);
    return id;
}

torvyn_bytes torvyn_trace_id(const torvyn_element *element) {
    torvyn_bytes id;
    context_trace_id(element->context, &id);
    return id;
}

uint64_t torvyn_deadline_ns(const torvyn_element *element) { return context_deadline_ns(element->context); }

torvyn_bytes torvyn__of(const char *text) { return (torvyn_bytes){text, strlen(text)}; }

void torvyn_fail(torvyn_error error, const char *message) {
    if (torvyn__current.has_failed) return;
    torvyn__current.has_failed = true;
    torvyn__current.error = error;
    torvyn__current.message = torvyn__of(message);
}

static void fail_with(const buffer_result *failed) {
    static const char *const reasons[] = {"the bytes do not fit into the buffer", "the offset is past the end"};
    uint8_t kind = failed->error.kind;
    torvyn_fail(TORVYN_INTERNAL, kind < 2 ? reasons[kind] : "cannot allocate a buffer");
    if (kind >= 2) torvyn__current.message = failed->error.message;
}

/* Grows an array in the call's memory, if it is full. */
void *torvyn__grow(void *items, size_t count, size_t *capacity, size_t item_bytes) {
    if (count < *capacity) return items;
    *capacity = *capacity ? *capacity * 2 : 4;
    void *larger = torvyn_scratch(*capacity * item_bytes);
    if (count) memcpy(larger, items, count * item_bytes);
    return larger;
}

void torvyn_emit(const void *data, size_t size) { torvyn_emit_as("text/plain; charset=utf-8", data, size); }

void torvyn_emit_as(const char *content_type, const void *data, size_t size) {
    torvyn__call *call = &torvyn__current;
    if (call->has_failed) return;
    if (call->is_batch) {
        call->output_count++;
        torvyn__batch_emit(torvyn__of(content_type), data, size);
        return;
    }
    buffer_result result;
    allocate(size, &result);
    if (result.is_error) {
        fail_with(&result);
        return;
    }
    int32_t buffer = result.buffer;
    if (size) mutable_append(buffer, data, size, &result);
    if (size && result.is_error) {
        fail_with(&result);
        drop_mutable(buffer);
        return;
    }
    call->outputs = torvyn__grow(call->outputs, call->output_count, &call->output_capacity, sizeof *call->outputs);
    torvyn__output *output = &call->outputs[call->output_count++];
    *output = (torvyn__output){0, 0, torvyn__of(content_type), mutable_freeze(buffer)};
    drop_mutable(buffer);
}

void torvyn_send(const char *port) {
    torvyn__call *call = &torvyn__current;
    call->ports = torvyn__grow(call->ports, call->port_count, &call->port_capacity, sizeof *call->ports);
    call->ports[call->port_count++] = torvyn__of(port);
}

torvyn_verdict torvyn_replace(const void *data, size_t size) {
    torvyn_emit(data, size);
    return TORVYN_REPLACED;
}

torvyn_verdict torvyn_block(const char *reason) {
    torvyn__current.reason = torvyn__of(reason);
    return TORVYN_BLOCKED;
}
