/* The memory of a component: a small arena per call, blocks for larger allocations, and text that outlives the call.
 *
 * The host writes arguments before a call starts and reads the result after it has ended, so the first allocation after
 * a result frees the arena.
 */
#include "torvyn_internal.h"

#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES 8192

/* An allocation that did not fit into the arena. */
typedef struct block {
    struct block *next;
    uint64_t aligned[];
} block;

static _Alignas(16) char arena[ARENA_BYTES];
static size_t used;
static block *blocks;
static bool is_stale;

void torvyn__end_call(void) { is_stale = true; }

void torvyn__free_scratch(void) {
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
    block *new_block = malloc(sizeof(block) + size);
    if (!new_block) __builtin_trap();
    new_block->next = blocks;
    blocks = new_block;
    return new_block->aligned;
}

void *torvyn_scratch(size_t size) {
    size_t start = (used + 7) & ~(size_t)7;
    if (size > ARENA_BYTES || start > ARENA_BYTES - size) return large(size);
    used = start + size;
    return arena + start;
}

__attribute__((export_name("cabi_realloc"))) void *torvyn__realloc(void *old, size_t old_size, size_t align,
                                                                   size_t size) {
    torvyn__free_scratch();
    if (size == 0) return (void *)align;
    void *memory = torvyn_scratch(size);
    if (old_size) memcpy(memory, old, old_size < size ? old_size : size);
    return memory;
}

void torvyn_append(torvyn_text *text, const void *data, size_t size) {
    if (size > text->capacity - text->size) {
        size_t needed = text->size + size;
        size_t doubled = text->capacity * 2;
        text->capacity = needed > doubled ? needed : doubled;
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
