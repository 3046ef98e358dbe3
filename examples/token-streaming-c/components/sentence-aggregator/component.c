/* Collects tokens until one ends a sentence. */
#define TORVYN_AGGREGATOR
#include <torvyn.h>

#include <string.h>

TORVYN_UNIT("sentences");

static torvyn_text held;

static void take(void) {
    torvyn_bytes sentence = torvyn_trim((torvyn_bytes){held.data, held.size});
    torvyn_emit(sentence.data, sentence.size);
    torvyn_clear(&held);
}

void torvyn_ingest(const torvyn_element *element) {
    torvyn_bytes token = torvyn_read(element);
    torvyn_append(&held, token.data, token.size);
    token = torvyn_trim(token);
    if (token.size && memchr(".!?", token.data[token.size - 1], 3)) take();
}

void torvyn_flush(void) {
    if (torvyn_trim((torvyn_bytes){held.data, held.size}).size) take();
}
