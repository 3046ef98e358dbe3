/* Counts its elements, and goes wrong as the first letter of each says. */
#define TORVYN_PROCESSOR
#include <torvyn.h>

#include <stdlib.h>

static volatile int zero;
static torvyn_text seen;

__attribute__((noinline)) static int deeper(int depth) {
    volatile char room[256];
    room[0] = (char)depth;
    return deeper(depth + 1) + room[0];
}

__attribute__((noinline)) static void go_wrong(char how) {
    if (how == 'a') abort();
    if (how == 'd') zero = 100 / zero;
    if (how == 'r') zero = deeper(0);
    if (how == 'w') *(volatile int *)0x7fffffff = 1;
    while (how == 'l') zero = 0;
}

void torvyn_process(const torvyn_element *element) {
    torvyn_bytes read = torvyn_read(element);
    go_wrong(read.data[0]);
    torvyn_append(&seen, "x", 1);
    torvyn_emit(seen.data, seen.size);
}
