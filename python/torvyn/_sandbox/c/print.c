/* Standard output and standard error with WASI streams, without libc or an adapter. */
#include "torvyn_internal.h"

#define STREAMS "wasi:io/streams@0.2.12"
#define MAX_WRITE_BYTES 4096

/* `result<_, stream-error>`. */
typedef struct {
    uint8_t is_error;
    struct {
        uint8_t kind;
        int32_t error;
    } failure;
} write_result;

IMPORT("wasi:cli/stdout@0.2.12", "get-stdout") int32_t get_stdout(void);
IMPORT("wasi:cli/stderr@0.2.12", "get-stderr") int32_t get_stderr(void);
IMPORT(STREAMS, "[method]output-stream.blocking-write-and-flush")
void write_and_flush(int32_t stream, const void *data, size_t size, write_result *to);
IMPORT("wasi:io/error@0.2.12", "[resource-drop]error") void drop_error(int32_t error);

static void write_all(int32_t stream, const char *data, size_t size) {
    while (size) {
        size_t part = size < MAX_WRITE_BYTES ? size : MAX_WRITE_BYTES;
        write_result result = {0};
        write_and_flush(stream, data, part, &result);
        if (result.is_error) {
            if (result.failure.kind == 0) drop_error(result.failure.error);
            torvyn_fail(TORVYN_UNAVAILABLE, "cannot write to standard output or standard error");
            return;
        }
        data += part;
        size -= part;
    }
}

void torvyn_print(const void *data, size_t size) {
    static int32_t stream;
    static bool is_open;
    if (!is_open) stream = get_stdout();
    is_open = true;
    write_all(stream, data, size);
}

void torvyn_print_error(const void *data, size_t size) {
    static int32_t stream;
    static bool is_open;
    if (!is_open) stream = get_stderr();
    is_open = true;
    write_all(stream, data, size);
}
