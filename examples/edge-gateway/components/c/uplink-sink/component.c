/* Sends every window to a collector as an HTTP request, on a connection that it keeps.
 *
 * A window is accepted when the collector answered 2xx. If the collector is away or overloaded, the call fails as
 * unavailable, and the node's `on_error` retries it. The header `Idempotency-Key` lets the collector recognise a
 * window that it already has: the answer may get lost.
 */
#define TORVYN_SINK
#include "json.h"
#include "tcp.h"

#include <stdio.h>
#include <strings.h>

TORVYN_UNIT("windows");

#define MAX_ANSWER_BYTES 16384

static torvyn_text host, path, request, answer;
static uint16_t port = 80;

/* The config is `http://HOST[:PORT]/PATH`. */
void torvyn_init(torvyn_bytes config) {
    const char *url = json_text(torvyn_trim(config));
    if (strncmp(url, "http://", 7)) {
        torvyn_fail(TORVYN_FATAL, "the config must be a URL that starts with http://");
        return;
    }
    url += 7;
    size_t host_size = strcspn(url, ":/");
    torvyn_append(&host, url, host_size);
    url += host_size;
    if (*url == ':') port = (uint16_t)strtoul(url + 1, NULL, 10);
    url += strcspn(url, "/");
    torvyn_append(&path, *url ? url : "/", *url ? strlen(url) : 1);
}

static void write_request(torvyn_bytes body) {
    const char *window = json_text(body);
    torvyn_bytes device = json_string(window, "device");
    char *head = torvyn_scratch(512 + host.size + path.size + device.size);
    int size = sprintf(head,
                       "POST %.*s HTTP/1.1\r\nHost: %.*s:%u\r\nContent-Type: application/json\r\n"
                       "Idempotency-Key: %.*s-%.0f-%.0f\r\nContent-Length: %zu\r\n\r\n",
                       (int)path.size, path.data, (int)host.size, host.data, port, (int)device.size, device.data,
                       json_number(window, "first", 0), json_number(window, "last", 0), body.size);
    torvyn_clear(&request);
    torvyn_append(&request, head, (size_t)size);
    torvyn_append(&request, body.data, body.size);
}

/* The value of a header in the zero-terminated head of the answer, or NULL. */
static const char *header(const char *name) {
    for (const char *line = answer.data; (line = strstr(line, "\r\n"));) {
        line += 2;
        if (!strncasecmp(line, name, strlen(name)) && line[strlen(name)] == ':') return line + strlen(name) + 1;
    }
    return NULL;
}

/* Reads an answer to its end. Returns its status, or 0 if the connection failed. */
static int read_answer(void) {
    size_t head_size = 0, body_size = 0;
    torvyn_clear(&answer);
    while (!head_size || answer.size < head_size + body_size) {
        torvyn_bytes part = tcp_receive();
        if (!part.size || answer.size + part.size > MAX_ANSWER_BYTES) return 0;
        torvyn_append(&answer, part.data, part.size);
        torvyn_append(&answer, "", 1);
        answer.size--;
        const char *end = head_size ? NULL : strstr(answer.data, "\r\n\r\n");
        if (end) {
            head_size = (size_t)(end - answer.data) + 4;
            const char *length = header("content-length");
            body_size = length ? strtoul(length, NULL, 10) : 0;
        }
    }
    const char *connection = header("connection");
    if (!header("content-length") || (connection && !strncasecmp(connection + strspn(connection, " "), "close", 5)))
        tcp_close();
    return answer.size > 12 && !strncmp(answer.data, "HTTP/1.", 7) ? atoi(answer.data + 9) : 0;
}

static int exchange(void) {
    torvyn_bytes name = {host.data, host.size};
    if (!tcp_is_open() && !tcp_open(name, port)) return 0;
    int status = tcp_send(request.data, request.size) ? read_answer() : 0;
    if (!status) tcp_close();
    return status;
}

torvyn_signal torvyn_push(const torvyn_element *element) {
    write_request(torvyn_read(element));
    bool is_kept = tcp_is_open();
    int status = exchange();
    /* The collector may have closed a kept connection in the meantime. */
    if (!status && is_kept) status = exchange();
    if (!status) torvyn_fail(TORVYN_UNAVAILABLE, "the collector cannot be reached");
    else if (status >= 500 || status == 429 || status == 408)
        torvyn_fail(TORVYN_UNAVAILABLE, "the collector is overloaded or failed");
    else if (status >= 300) torvyn_fail(TORVYN_INVALID_INPUT, "the collector rejected the window");
    return TORVYN_READY;
}

void torvyn_teardown(void) { tcp_close(); }
