/* A stand-in for a language model: one element per token. */
#define TORVYN_SOURCE
#include <torvyn.h>

#include <string.h>

TORVYN_UNIT("tokens");

static const char *const tokens[] = {
    "The", " quick", " brown", " fox", " jumped", " over", " the", " lazy", " dog", ".",      /* */
    " The", " blocked_word", " was", " filtered", ".",                                        /* */
    " Torvyn", " handles", " streaming", " tokens", ".",
};

static size_t next;

void torvyn_pull(void) {
    if (next < sizeof tokens / sizeof *tokens) {
        torvyn_emit(tokens[next], strlen(tokens[next]));
        next++;
    }
}
