/* Makes letters large and drops what is empty. Two files: the work is done in `letters.c`. */
#define TORVYN_PROCESSOR
#include <torvyn.h>

#include "letters.h"

TORVYN_UNIT("shouts");

void torvyn_process(const torvyn_element *element) {
    torvyn_bytes read = torvyn_read(element);
    if (!read.size) return;
    char *loud = torvyn_scratch(read.size);
    enlarge(loud, read);
    torvyn_emit(loud, read.size);
}
