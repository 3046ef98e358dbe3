/* Judges by the first letter: d drops, r replaces, b blocks, h holds. */
#define TORVYN_GUARD
#include <torvyn.h>

torvyn_verdict torvyn_judge(const torvyn_element *element) {
    torvyn_bytes start = torvyn_read_at(element, 0, 1);
    switch (start.size ? start.data[0] : 0) {
    case 'd': return TORVYN_DROP;
    case 'r': return torvyn_replace("***", 3);
    case 'b': return torvyn_block("a bad word");
    case 'h': return TORVYN_HOLD;
    default: return TORVYN_PASS;
    }
}
