/* Defaults for the optional functions of a component. */
#include "torvyn.h"

#define OPTIONAL __attribute__((weak))

OPTIONAL void torvyn_init(torvyn_bytes config) { (void)config; }
OPTIONAL void torvyn_teardown(void) {}
OPTIONAL void torvyn_notify_backpressure(torvyn_signal signal) { (void)signal; }
OPTIONAL void torvyn_flush(void) {}
OPTIONAL void torvyn_complete(void) {}
