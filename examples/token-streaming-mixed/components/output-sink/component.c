/* Prints each sentence with its number. */
#define TORVYN_SINK
#include <torvyn.h>

#include <string.h>

TORVYN_UNIT("sentences");

static uint64_t received;
static torvyn_text line;

torvyn_signal torvyn_push(const torvyn_element *element) {
    static const char head[] = "[output-sink] sentence ";
    torvyn_bytes sentence = torvyn_read(element);
    torvyn_clear(&line);
    torvyn_append(&line, head, strlen(head));
    torvyn_append_number(&line, received++);
    torvyn_append(&line, ": ", 2);
    torvyn_append(&line, sentence.data, sentence.size);
    torvyn_append(&line, "\n", 1);
    torvyn_print(line.data, line.size);
    return TORVYN_READY;
}

void torvyn_complete(void) {
    static const char last[] = "[output-sink] Stream complete.\n";
    torvyn_print(last, strlen(last));
}
