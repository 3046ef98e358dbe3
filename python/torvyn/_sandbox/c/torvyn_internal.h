/* Shared by the files of the glue code. Not for components. */
#ifndef TORVYN_INTERNAL_H
#define TORVYN_INTERNAL_H

#include "torvyn.h"

#define TYPES "torvyn:streaming/types@0.1.0"
#define ALLOCATOR "torvyn:streaming/buffer-allocator@0.1.0"
#define IMPORT(module, name) __attribute__((import_module(module), import_name(name)))

/* An `output-element` in the layout of the canonical ABI. */
typedef struct {
    uint64_t sequence;
    uint64_t timestamp_ns;
    torvyn_bytes content_type;
    int32_t payload;
} torvyn__output;

/* The state of the current call. */
typedef struct {
    torvyn__output *outputs;
    size_t output_count;
    size_t output_capacity;
    torvyn_bytes *ports;
    size_t port_count;
    size_t port_capacity;
    torvyn_bytes reason;
    torvyn_bytes payload;
    bool has_read;
    bool has_failed;
    torvyn_error error;
    torvyn_bytes message;
    bool is_batch;
} torvyn__call;

extern torvyn__call torvyn__current;

IMPORT(TYPES, "[resource-drop]buffer") void torvyn__drop_buffer(int32_t buffer);

/* Adds an output of the current element of a batch. */
void torvyn__batch_emit(torvyn_bytes content_type, const void *data, size_t size);
void *torvyn__grow(void *items, size_t count, size_t *capacity, size_t item_bytes);
void torvyn__free_scratch(void);
IMPORT(TYPES, "[resource-drop]flow-context") void torvyn__drop_context(int32_t context);
/* Marks the memory of the call as free; the next allocation reuses it. */
void torvyn__end_call(void);
torvyn_bytes torvyn__of(const char *text);

#endif
