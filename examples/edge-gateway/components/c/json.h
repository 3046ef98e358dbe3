/* Just enough JSON for readings: the values of keys in a flat object that the stage before wrote. */
#ifndef JSON_H
#define JSON_H

#include <torvyn.h>

#include <stdlib.h>
#include <string.h>

/* A zero-terminated copy, valid until the call returns. */
static inline const char *json_text(torvyn_bytes bytes) {
    char *text = torvyn_scratch(bytes.size + 1);
    memcpy(text, bytes.data, bytes.size);
    text[bytes.size] = 0;
    return text;
}

/* The text after `"key":`, or NULL. */
static inline const char *json_value(const char *text, const char *key) {
    size_t size = strlen(key);
    for (const char *at = text; (at = strstr(at, key)); at += size)
        if (at > text && at[-1] == '"' && at[size] == '"') {
            at += size + 1;
            at += strspn(at, " ");
            if (*at == ':') return at + 1 + strspn(at + 1, " ");
        }
    return NULL;
}

static inline double json_number(const char *text, const char *key, double otherwise) {
    const char *value = json_value(text, key);
    return value ? strtod(value, NULL) : otherwise;
}

/* The string without its quotes, as it was written; empty if the key is missing. */
static inline torvyn_bytes json_string(const char *text, const char *key) {
    const char *value = json_value(text, key);
    if (!value || *value != '"') return (torvyn_bytes){"", 0};
    const char *end = ++value;
    while (*end && *end != '"') end += *end == '\\' && end[1] ? 2 : 1;
    return (torvyn_bytes){value, (size_t)(end - value)};
}

/* Reads at most `limit` numbers of an array; returns how many there were, or 0 if the value is no array of numbers. */
static inline size_t json_numbers(const char *text, const char *key, double *numbers, size_t limit) {
    const char *at = json_value(text, key);
    size_t count = 0;
    if (!at || *at != '[') return 0;
    do {
        char *end;
        double number = strtod(++at, &end);
        if (end == at || count == limit) return 0;
        numbers[count++] = number;
        at = end + strspn(end, " ");
    } while (*at == ',');
    return *at == ']' ? count : 0;
}

#endif
