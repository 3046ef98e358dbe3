/* Fails as its input says, by the number of the error. */
#define TORVYN_FILTER
#include <torvyn.h>

void torvyn_init(torvyn_bytes config) {
    if (config.size) torvyn_fail(TORVYN_FATAL, "no config is wanted");
}

bool torvyn_evaluate(const torvyn_element *element) {
    torvyn_bytes read = torvyn_read(element);
    torvyn_fail((torvyn_error)(read.data[0] - '0'), "as you wish");
    return true;
}
