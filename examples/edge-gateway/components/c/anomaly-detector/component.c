/* Scores every reading by how far its channels are from what they usually are.
 *
 * For each channel it keeps a moving mean and variance, which forget old readings exponentially. The score is the sum
 * of the distances from the means, in standard deviations. A distance is cut at `clip` deviations before the detector
 * learns from it, so that an anomaly does not become the new normal.
 */
#define TORVYN_PROCESSOR
#define TORVYN_STATE
#include "json.h"

#include <math.h>
#include <stdio.h>

TORVYN_UNIT("readings");
TORVYN_CONFIG("table");

#define MAX_CHANNELS 32

static double alpha, clip, resolution, threshold;
static torvyn_text scored;

/* What it has learned. */
static struct {
    double mean[MAX_CHANNELS], variance[MAX_CHANNELS];
    uint64_t channel_count;
} learned;

void torvyn_init(torvyn_bytes config) {
    const char *options = json_text(config);
    alpha = json_number(options, "alpha", 0.03);
    clip = json_number(options, "clip", 3.0);
    resolution = json_number(options, "resolution", 1.0);
    threshold = json_number(options, "threshold", 15.0);
}

static void start(const double *channels, size_t count) {
    learned.channel_count = count;
    for (size_t i = 0; i < count; i++) {
        learned.mean[i] = channels[i];
        learned.variance[i] = 0.0;
    }
}

static double learn(const double *channels) {
    double score = 0.0;
    for (size_t i = 0; i < learned.channel_count; i++) {
        /* A sensor that never moved still has the noise of its resolution. */
        double deviation = sqrt(learned.variance[i] + resolution * resolution);
        double distance = channels[i] - learned.mean[i];
        score += fabs(distance) / deviation;
        distance = fmax(-clip * deviation, fmin(clip * deviation, distance));
        learned.mean[i] += alpha * distance;
        learned.variance[i] = (1.0 - alpha) * (learned.variance[i] + alpha * distance * distance);
    }
    return score;
}

void torvyn_process(const torvyn_element *element) {
    double channels[MAX_CHANNELS];
    char added[80];
    torvyn_bytes reading = torvyn_read(element);
    size_t count = json_numbers(json_text(reading), "channels", channels, MAX_CHANNELS);
    if (!count || (learned.channel_count && count != learned.channel_count)) {
        torvyn_fail(TORVYN_INVALID_INPUT, "the reading has no channels, or not as many as the first one");
        return;
    }
    if (!learned.channel_count) start(channels, count);
    double score = learn(channels);
    int size = snprintf(added, sizeof added, ",\"score\":%.17g,\"anomaly\":%s}", score,
                        score > threshold ? "true" : "false");
    torvyn_clear(&scored);
    torvyn_append(&scored, reading.data, reading.size - 1);
    torvyn_append(&scored, added, (size_t)size);
    torvyn_emit_as("application/json", scored.data, scored.size);
}

torvyn_bytes torvyn_snapshot(void) { return (torvyn_bytes){(const char *)&learned, sizeof learned}; }

void torvyn_restore(torvyn_bytes bytes) {
    if (bytes.size == sizeof learned) memcpy(&learned, bytes.data, sizeof learned);
    else torvyn_fail(TORVYN_FATAL, "the saved state is not one of this component");
}
