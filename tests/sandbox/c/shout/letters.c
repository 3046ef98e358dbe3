#include "letters.h"

#include <ctype.h>

void enlarge(char *to, torvyn_bytes from) {
    for (size_t i = 0; i < from.size; i++) to[i] = (char)toupper((unsigned char)from.data[i]);
}
