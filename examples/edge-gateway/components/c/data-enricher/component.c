/* Adds the fields of its config to every reading: the device, the site, the unit. */
#define TORVYN_PROCESSOR
#include <torvyn.h>

TORVYN_UNIT("readings");
TORVYN_CONFIG("table");

static torvyn_text fields, enriched;

void torvyn_init(torvyn_bytes config) {
    torvyn_bytes object = torvyn_trim(config);
    if (object.size < 3 || object.data[0] != '{') {
        torvyn_fail(TORVYN_FATAL, "the config must be a table with at least one field");
        return;
    }
    torvyn_append(&fields, object.data + 1, object.size - 1); /* with the closing brace */
}

void torvyn_process(const torvyn_element *element) {
    torvyn_bytes reading = torvyn_read(element);
    torvyn_clear(&enriched);
    torvyn_append(&enriched, reading.data, reading.size - 1);
    torvyn_append(&enriched, ",", 1);
    torvyn_append(&enriched, fields.data, fields.size);
    torvyn_emit_as("application/json", enriched.data, enriched.size);
}
