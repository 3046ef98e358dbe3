/* Prints by the C library, which asks for WASI's preview 1. */
#define TORVYN_SINK
#include <torvyn.h>

#include <stdio.h>

torvyn_signal torvyn_push(const torvyn_element *element) {
    torvyn_bytes read = torvyn_read(element);
    printf("%.*s\n", (int)read.size, read.data);
    fflush(stdout);
    return TORVYN_READY;
}
