/* Emits twice where one is all that fits; keeps all it gets for the flush. */
#define TORVYN_AGGREGATOR
#include <torvyn.h>

static torvyn_text all;

void torvyn_ingest(const torvyn_element *element) {
    torvyn_bytes read = torvyn_read(element);
    torvyn_append(&all, read.data, read.size);
    if (read.size == 3) torvyn_emit("a", 1), torvyn_emit("b", 1);
}

void torvyn_flush(void) {
    for (size_t i = 0; i < all.size; i++) torvyn_emit(all.data + i, 1);
}
