/* Memory of a component: a small arena that lasts for one call, blocks for what does not fit, text that stays.
 *
 * The host puts arguments here before the call begins and reads the answer after it has ended, so the arena is emptied
 * by the first request that follows an answer.
 */
#include "torvyn_internal.h"

#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES 8192

/* A request that the arena had no room for. */
typedef struct block {
    struct block *next;
    uint64_t aligned[];
} block;

static _Alignas(16) char arena[ARENA_BYTES];
static size_t used;
static block *blocks;
static bool is_stale;

void torvyn__end_call(void) { is_stale = true; }

void torvyn__forget_scratch(void) {
    if (!is_stale) return;
    is_stale = false;
    used = 0;
    while (blocks) {
        block *next = blocks->next;
        free(blocks);
        blocks = next;
    }
}

static void *large(size_t size) {
    block *made = malloc(sizeof(block) + size);
    if (!made) __builtin_trap();
    made->next = blocks;
    blocks = made;
    return made->aligned;
}

void *torvyn_scratch(size_t size) {
    size_t start = (used + 7) & ~(size_t)7;
    if (size > ARENA_BYTES || start > ARENA_BYTES - size) return large(size);
    used = start + size;
    return arena + start;
}

__attribute__((export_name("cabi_realloc"))) void *torvyn__realloc(void *old, size_t old_size, size_t align,
                                                                   size_t size) {
    torvyn__forget_scratch();
    if (size == 0) return (void *)align;
    void *made = torvyn_scratch(size);
    if (old_size) memcpy(made, old, old_size < size ? old_size : size);
    return made;
}

void torvyn_append(torvyn_text *text, const void *data, size_t size) {
    if (size > text->capacity - text->size) {
        size_t wanted = text->size + size;
        size_t doubled = text->capacity * 2;
        text->capacity = wanted > doubled ? wanted : doubled;
        text->data = realloc(text->data, text->capacity);
        if (!text->data) __builtin_trap();
    }
    if (size) memcpy(text->data + text->size, data, size);
    text->size += size;
}

void torvyn_append_number(torvyn_text *text, uint64_t number) {
    char digits[20];
    size_t first = sizeof digits;
    do {
        digits[--first] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    torvyn_append(text, digits + first, sizeof digits - first);
}

void torvyn_clear(torvyn_text *text) { text->size = 0; }
