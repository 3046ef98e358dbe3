/* Reads sensor readings from a CSV file, one element per line; its config is the path of the file,
 * in a folder that the manifest grants.
 *
 * The last column says whether the reading is an anomaly. It is left out: a detector must not see it.
 */
#define TORVYN_SOURCE
#define TORVYN_STATE
#include <torvyn.h>

#include <stdio.h>
#include <string.h>

TORVYN_UNIT("readings");

#define MAX_LINE_BYTES 1024

static FILE *file;
static uint64_t sequence;
static torvyn_text reading;

static void add(const char *text) { torvyn_append(&reading, text, strlen(text)); }

void torvyn_init(torvyn_bytes config) {
    char line[MAX_LINE_BYTES];
    char *path = torvyn_scratch(config.size + 1);
    memcpy(path, config.data, config.size);
    path[config.size] = 0;
    file = fopen(path, "r");
    /* The first line names the columns. */
    if (!file || !fgets(line, sizeof line, file))
        torvyn_fail(TORVYN_FATAL, "cannot read the file of readings; is its folder granted?");
}

void torvyn_pull(void) {
    char line[MAX_LINE_BYTES];
    if (!fgets(line, sizeof line, file)) return;
    char *label = strrchr(line, ',');
    if (!label) {
        torvyn_fail(TORVYN_INVALID_INPUT, "a line of the file is not a reading");
        return;
    }
    *label = 0;
    torvyn_clear(&reading);
    add("{\"seq\":");
    torvyn_append_number(&reading, sequence++);
    add(",\"channels\":[");
    add(line);
    add("]}");
    torvyn_emit_as("application/json", reading.data, reading.size);
}

/* Where to continue: the position in the file, and the number of the next reading. */
typedef struct {
    int64_t position;
    uint64_t sequence;
} state;

torvyn_bytes torvyn_snapshot(void) {
    static state saved;
    saved = (state){ftell(file), sequence};
    return (torvyn_bytes){(const char *)&saved, sizeof saved};
}

void torvyn_restore(torvyn_bytes bytes) {
    state saved;
    if (bytes.size != sizeof saved) {
        torvyn_fail(TORVYN_FATAL, "the saved state is not one of this component");
        return;
    }
    memcpy(&saved, bytes.data, sizeof saved);
    sequence = saved.sequence;
    if (fseek(file, (long)saved.position, SEEK_SET)) torvyn_fail(TORVYN_FATAL, "cannot continue in the file of readings");
}
