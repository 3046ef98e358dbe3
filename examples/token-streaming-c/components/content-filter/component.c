/* Drops tokens that are on a list; its config is the words, separated by commas. */
#define TORVYN_FILTER
#include <torvyn.h>

TORVYN_UNIT("tokens");

static torvyn_text blocked;

void torvyn_init(torvyn_bytes config) { torvyn_append(&blocked, config.data, config.size); }

bool torvyn_evaluate(const torvyn_element *element) {
    torvyn_bytes token = torvyn_trim(torvyn_read(element));
    torvyn_bytes rest = {blocked.data, blocked.size};
    torvyn_bytes word;
    while (torvyn_split(&rest, ',', &word))
        if (torvyn_equal_ignoring_case(token, torvyn_trim(word))) return false;
    return true;
}
