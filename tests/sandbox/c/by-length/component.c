/* Sends short elements to `a` and long ones to `a` and `b`, by their size alone. */
#define TORVYN_ROUTER
#include <torvyn.h>

TORVYN_PORTS("a,b");

void torvyn_route(const torvyn_element *element) {
    torvyn_send("a");
    if (torvyn_size(element) > 3) torvyn_send("b");
}
