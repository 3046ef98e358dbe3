#include <torvyn.h>

void enlarge(char *to, torvyn_bytes from);
