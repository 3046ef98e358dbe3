/* Emits every text with its number, and keeps the number across restarts. */
#define TORVYN_PROCESSOR
#define TORVYN_STATE
#include <torvyn.h>

static uint64_t count;
static torvyn_text text;

void torvyn_process(const torvyn_element *element) {
    torvyn_bytes bytes = torvyn_read(element);
    torvyn_clear(&text);
    torvyn_append(&text, bytes.data, bytes.size);
    torvyn_append_number(&text, ++count);
    torvyn_emit(text.data, text.size);
}

torvyn_bytes torvyn_snapshot(void) { return (torvyn_bytes){(const char *)&count, sizeof count}; }

void torvyn_restore(torvyn_bytes state) {
    if (state.size != sizeof count) {
        torvyn_fail(TORVYN_INVALID_INPUT, "this is not a count");
        return;
    }
    __builtin_memcpy(&count, state.data, sizeof count);
}
