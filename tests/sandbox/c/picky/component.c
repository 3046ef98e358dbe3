/* Rejects texts that start with `x`, in a message that it builds in one place. */
#define TORVYN_PROCESSOR
#include <torvyn.h>

static char message[] = "rejected ?";

void torvyn_process(const torvyn_element *element) {
    torvyn_bytes bytes = torvyn_read(element);
    torvyn_emit(bytes.data, torvyn_size(element));
    if (bytes.size > 1 && bytes.data[0] == 'x') {
        message[sizeof message - 2] = bytes.data[1];
        torvyn_fail(TORVYN_INVALID_INPUT, message);
    }
}
