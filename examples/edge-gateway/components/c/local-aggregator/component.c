/* Reduces a window of readings to one element: count, minimum, maximum and mean of every channel. Anomalies are kept
 * whole, with all their fields. */
#define TORVYN_AGGREGATOR
#include "json.h"

#include <math.h>
#include <stdio.h>

TORVYN_UNIT("windows");

#define MAX_CHANNELS 32

static size_t window = 100, count, channel_count;
static double lowest[MAX_CHANNELS], highest[MAX_CHANNELS], sum[MAX_CHANNELS];
static double first, last;
static torvyn_text origin, anomalies, summary;

static void add(torvyn_text *to, const char *text) { torvyn_append(to, text, strlen(text)); }

void torvyn_init(torvyn_bytes config) { window = (size_t)json_number(json_text(config), "window", 100); }

/* The fields that say where the readings come from. */
static void remember_origin(const char *reading) {
    static const char *const keys[] = {"device", "site", "unit"};
    torvyn_clear(&origin);
    for (size_t i = 0; i < 3; i++) {
        torvyn_bytes value = json_string(reading, keys[i]);
        add(&origin, "\"");
        add(&origin, keys[i]);
        add(&origin, "\":\"");
        torvyn_append(&origin, value.data, value.size);
        add(&origin, "\",");
    }
}

static void emit(void) {
    char part[160];
    torvyn_clear(&summary);
    add(&summary, "{");
    torvyn_append(&summary, origin.data, origin.size);
    snprintf(part, sizeof part, "\"first\":%.0f,\"last\":%.0f,\"count\":%zu,\"channels\":[", first, last, count);
    add(&summary, part);
    for (size_t i = 0; i < channel_count; i++) {
        snprintf(part, sizeof part, "%s{\"min\":%.17g,\"max\":%.17g,\"mean\":%.17g}", i ? "," : "", lowest[i],
                 highest[i], sum[i] / (double)count);
        add(&summary, part);
    }
    add(&summary, "],\"anomalies\":[");
    torvyn_append(&summary, anomalies.data, anomalies.size);
    add(&summary, "]}");
    torvyn_emit_as("application/json", summary.data, summary.size);
    torvyn_clear(&anomalies);
    count = 0;
}

static void note(const double *channels, double sequence) {
    if (!count) first = sequence;
    last = sequence;
    for (size_t i = 0; i < channel_count; i++) {
        lowest[i] = count ? fmin(lowest[i], channels[i]) : channels[i];
        highest[i] = count ? fmax(highest[i], channels[i]) : channels[i];
        sum[i] = count ? sum[i] + channels[i] : channels[i];
    }
    count++;
}

void torvyn_ingest(const torvyn_element *element) {
    double channels[MAX_CHANNELS];
    torvyn_bytes bytes = torvyn_read(element);
    const char *reading = json_text(bytes);
    size_t found = json_numbers(reading, "channels", channels, MAX_CHANNELS);
    if (!found || (count && found != channel_count)) {
        torvyn_fail(TORVYN_INVALID_INPUT, "the reading has no channels, or not as many as the first one");
        return;
    }
    channel_count = found;
    if (!count) remember_origin(reading);
    note(channels, json_number(reading, "seq", 0));
    const char *anomaly = json_value(reading, "anomaly");
    if (anomaly && *anomaly == 't') {
        if (anomalies.size) add(&anomalies, ",");
        torvyn_append(&anomalies, bytes.data, bytes.size);
    }
    if (count == window) emit();
}

void torvyn_flush(void) {
    if (count) emit();
}
