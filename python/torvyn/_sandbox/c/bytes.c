/* Functions for bytes that are not zero-terminated. */
#include "torvyn.h"

static bool is_space(char byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

static char lower(char byte) { return byte >= 'A' && byte <= 'Z' ? (char)(byte + 32) : byte; }

torvyn_bytes torvyn_trim(torvyn_bytes bytes) {
    while (bytes.size && is_space(bytes.data[0])) bytes.data++, bytes.size--;
    while (bytes.size && is_space(bytes.data[bytes.size - 1])) bytes.size--;
    return bytes;
}

bool torvyn_equal_ignoring_case(torvyn_bytes one, torvyn_bytes other) {
    if (one.size != other.size) return false;
    for (size_t i = 0; i < one.size; i++)
        if (lower(one.data[i]) != lower(other.data[i])) return false;
    return true;
}

bool torvyn_split(torvyn_bytes *rest, char separator, torvyn_bytes *part) {
    if (!rest->data) return false;
    size_t end = 0;
    while (end < rest->size && rest->data[end] != separator) end++;
    *part = (torvyn_bytes){rest->data, end};
    bool is_last = end == rest->size;
    *rest = is_last ? (torvyn_bytes){0} : (torvyn_bytes){rest->data + end + 1, rest->size - end - 1};
    return true;
}
