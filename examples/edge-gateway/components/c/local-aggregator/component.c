/* Reduces a window of readings to one element: count, minimum, maximum and mean of every channel. Anomalies are kept
 * whole, with all their fields. */
#define TORVYN_AGGREGATOR
#define TORVYN_STATE
#include "json.h"

#include <math.h>
#include <stdio.h>

TORVYN_UNIT("windows");
TORVYN_CONFIG("table");

#define MAX_CHANNELS 32

static size_t window = 100;
static torvyn_text origin, anomalies, summary;

/* The figures of the open window. */
static struct {
    double lowest[MAX_CHANNELS], highest[MAX_CHANNELS], sum[MAX_CHANNELS], first, last;
    uint64_t count, channel_count, origin_size;
} figures;

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
    snprintf(part, sizeof part, "\"first\":%.0f,\"last\":%.0f,\"count\":%llu,\"channels\":[", figures.first, figures.last,
             (unsigned long long)figures.count);
    add(&summary, part);
    for (size_t i = 0; i < figures.channel_count; i++) {
        snprintf(part, sizeof part, "%s{\"min\":%.17g,\"max\":%.17g,\"mean\":%.17g}", i ? "," : "", figures.lowest[i],
                 figures.highest[i], figures.sum[i] / (double)figures.count);
        add(&summary, part);
    }
    add(&summary, "],\"anomalies\":[");
    torvyn_append(&summary, anomalies.data, anomalies.size);
    add(&summary, "]}");
    torvyn_emit_as("application/json", summary.data, summary.size);
    torvyn_clear(&anomalies);
    figures.count = 0;
}

static void note(const double *channels, double sequence) {
    if (!figures.count) figures.first = sequence;
    figures.last = sequence;
    for (size_t i = 0; i < figures.channel_count; i++) {
        figures.lowest[i] = figures.count ? fmin(figures.lowest[i], channels[i]) : channels[i];
        figures.highest[i] = figures.count ? fmax(figures.highest[i], channels[i]) : channels[i];
        figures.sum[i] = figures.count ? figures.sum[i] + channels[i] : channels[i];
    }
    figures.count++;
}

void torvyn_ingest(const torvyn_element *element) {
    double channels[MAX_CHANNELS];
    torvyn_bytes bytes = torvyn_read(element);
    const char *reading = json_text(bytes);
    size_t found = json_numbers(reading, "channels", channels, MAX_CHANNELS);
    if (!found || (figures.count && found != figures.channel_count)) {
        torvyn_fail(TORVYN_INVALID_INPUT, "the reading has no channels, or not as many as the first one");
        return;
    }
    figures.channel_count = found;
    if (!figures.count) remember_origin(reading);
    note(channels, json_number(reading, "seq", 0));
    const char *anomaly = json_value(reading, "anomaly");
    if (anomaly && *anomaly == 't') {
        if (anomalies.size) add(&anomalies, ",");
        torvyn_append(&anomalies, bytes.data, bytes.size);
    }
    if (figures.count == window) emit();
}

void torvyn_flush(void) {
    if (figures.count) emit();
}

/* The figures, then the fields of the origin, then the anomalies. */
torvyn_bytes torvyn_snapshot(void) {
    static torvyn_text saved;
    torvyn_clear(&saved);
    figures.origin_size = origin.size;
    torvyn_append(&saved, &figures, sizeof figures);
    torvyn_append(&saved, origin.data, origin.size);
    torvyn_append(&saved, anomalies.data, anomalies.size);
    return (torvyn_bytes){saved.data, saved.size};
}

void torvyn_restore(torvyn_bytes bytes) {
    if (bytes.size >= sizeof figures) memcpy(&figures, bytes.data, sizeof figures);
    if (bytes.size < sizeof figures || bytes.size - sizeof figures < figures.origin_size) {
        torvyn_fail(TORVYN_FATAL, "the saved state is not one of this component");
        return;
    }
    const char *texts = bytes.data + sizeof figures;
    torvyn_clear(&origin);
    torvyn_clear(&anomalies);
    torvyn_append(&origin, texts, figures.origin_size);
    torvyn_append(&anomalies, texts + figures.origin_size, bytes.size - sizeof figures - figures.origin_size);
}
