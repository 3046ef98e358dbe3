/* What a component may call while a call runs: reading, sending, failing. */
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
} attempt;

IMPORT(ALLOCATOR, "allocate") void allocate(uint64_t capacity, attempt *to);
IMPORT(TYPES, "[method]mutable-buffer.append")
void mutable_append(int32_t buffer, const void *data, size_t size, attempt *to);
IMPORT(TYPES, "[method]mutable-buffer.freeze") int32_t mutable_freeze(int32_t buffer);
IMPORT(TYPES, "[resource-drop]mutable-buffer") void drop_mutable(int32_t buffer);

torvyn_bytes torvyn_read(const torvyn_element *element) {
    if (!torvyn__now.has_read) {
        buffer_read_all(element->payload, &torvyn__now.payload);
        torvyn__now.has_read = true;
    }
    return torvyn__now.payload;
}

torvyn_bytes torvyn_read_at(const torvyn_element *element, uint64_t offset, uint64_t size) {
    torvyn_bytes read;
    buffer_read(element->payload, offset, size, &read);
    return read;
}

uint64_t torvyn_size(const torvyn_element *element) { return buffer_size(element->payload); }

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
    if (torvyn__now.has_failed) return;
    torvyn__now.has_failed = true;
    torvyn__now.error = error;
    torvyn__now.message = torvyn__of(message);
}

static void fail_with(const attempt *failed) {
    static const char *const reasons[] = {"the bytes do not fit into the buffer", "the offset lies behind the end"};
    uint8_t kind = failed->error.kind;
    torvyn_fail(TORVYN_INTERNAL, kind < 2 ? reasons[kind] : "no buffer");
    if (kind >= 2) torvyn__now.message = failed->error.message;
}

/* Room for one more in an array of the call's own memory. */
static void *room(void *items, size_t count, size_t *capacity, size_t item_bytes) {
    if (count < *capacity) return items;
    *capacity = *capacity ? *capacity * 2 : 4;
    void *made = torvyn_scratch(*capacity * item_bytes);
    if (count) memcpy(made, items, count * item_bytes);
    return made;
}

void torvyn_emit(const void *data, size_t size) { torvyn_emit_as("text/plain; charset=utf-8", data, size); }

void torvyn_emit_as(const char *content_type, const void *data, size_t size) {
    torvyn__call *now = &torvyn__now;
    if (now->has_failed) return;
    attempt tried;
    allocate(size, &tried);
    if (tried.is_error) {
        fail_with(&tried);
        return;
    }
    int32_t buffer = tried.buffer;
    if (size) mutable_append(buffer, data, size, &tried);
    if (size && tried.is_error) {
        fail_with(&tried);
        drop_mutable(buffer);
        return;
    }
    now->outputs = room(now->outputs, now->output_count, &now->output_capacity, sizeof *now->outputs);
    torvyn__output *output = &now->outputs[now->output_count++];
    *output = (torvyn__output){0, 0, torvyn__of(content_type), mutable_freeze(buffer)};
    drop_mutable(buffer);
}

void torvyn_send(const char *port) {
    torvyn__call *now = &torvyn__now;
    now->ports = room(now->ports, now->port_count, &now->port_capacity, sizeof *now->ports);
    now->ports[now->port_count++] = torvyn__of(port);
}

torvyn_verdict torvyn_replace(const void *data, size_t size) {
    torvyn_emit(data, size);
    return TORVYN_REPLACED;
}

torvyn_verdict torvyn_block(const char *reason) {
    torvyn__now.reason = torvyn__of(reason);
    return TORVYN_BLOCKED;
}
