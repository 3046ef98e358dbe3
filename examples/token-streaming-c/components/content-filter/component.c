/* Drops tokens that are on a list; its config is the words, separated by commas. */
#define TORVYN_FILTER
#include <torvyn.h>

TORVYN_UNIT("tokens");
TORVYN_CONFIG("text");

static torvyn_text blocked;
static uint64_t filtered;

void torvyn_init(torvyn_bytes config) {
    torvyn_bytes rest = config, word;
    while (torvyn_split(&rest, ',', &word)) {
        if (!torvyn_trim(word).size) continue;
        if (blocked.size) torvyn_append(&blocked, ",", 1);
        torvyn_append(&blocked, word.data, word.size);
    }
    /* Without a word, it blocks this one: a filter must not pass everything by mistake. */
    if (!blocked.size) torvyn_append(&blocked, "blocked_word", 12);
}

bool torvyn_evaluate(const torvyn_element *element) {
    torvyn_bytes token = torvyn_trim(torvyn_read(element));
    torvyn_bytes rest = {blocked.data, blocked.size};
    torvyn_bytes word;
    while (torvyn_split(&rest, ',', &word)) {
        if (!torvyn_equal_ignoring_case(token, torvyn_trim(word))) continue;
        filtered++;
        return false;
    }
    return true;
}

void torvyn_teardown(void) {
    if (!filtered) return;
    torvyn_text line = {0};
    torvyn_append(&line, "[content-filter] Filtered ", 26);
    torvyn_append_number(&line, filtered);
    torvyn_append(&line, " token(s) during this flow.\n", 28);
    torvyn_print_error(line.data, line.size);
}
