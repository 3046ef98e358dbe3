/* Has nothing, then something, then no more. */
#define TORVYN_POLLED_SOURCE
#include <torvyn.h>

static int asked;

torvyn_polled torvyn_poll(void) {
    switch (asked++) {
    case 0: return TORVYN_PENDING;
    case 1: torvyn_emit_as("application/octet-stream", "\0\1\2", 3); return TORVYN_ELEMENT;
    default: return TORVYN_END;
    }
}
