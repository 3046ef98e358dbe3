/* TCP with the socket interfaces of WASI, which the C library does not have for this target.
 *
 * Declarations follow the canonical ABI: a `result` is a record that starts with a byte that says whether it is an
 * error.
 */
#include "tcp.h"

#define IMPORT(module, name) __attribute__((import_module("wasi:" module "@0.2.12"), import_name(name)))

#define WAIT_NS 2000000000LL
#define MAX_WRITE_BYTES 4096
#define MAX_READ_BYTES 4096

typedef struct {
    uint8_t is_error;
    union {
        uint8_t error;
        int32_t handle;
        int32_t streams[2];
        torvyn_bytes bytes;
    };
} result;

/* `result<option<ip-address>, error-code>`. */
typedef struct {
    uint8_t is_error, padding;
    uint8_t is_some, padding_of_some;
    uint8_t is_ipv6, padding_of_address;
    union {
        uint8_t ipv4[4];
        uint16_t ipv6[8];
    };
} next_address;

IMPORT("sockets/instance-network", "instance-network") int32_t instance_network(void);
IMPORT("sockets/ip-name-lookup", "resolve-addresses")
void resolve_addresses(int32_t network, const char *name, size_t size, result *to);
IMPORT("sockets/ip-name-lookup", "[method]resolve-address-stream.subscribe") int32_t lookup_subscribe(int32_t lookup);
IMPORT("sockets/ip-name-lookup", "[method]resolve-address-stream.resolve-next-address")
void resolve_next(int32_t lookup, next_address *to);
IMPORT("sockets/ip-name-lookup", "[resource-drop]resolve-address-stream") void drop_lookup(int32_t lookup);
IMPORT("sockets/tcp-create-socket", "create-tcp-socket") void create_socket(int32_t family, result *to);
IMPORT("sockets/tcp", "[method]tcp-socket.start-connect")
void start_connect(int32_t socket, int32_t network, int32_t family, int32_t port, int32_t a, int32_t b, int32_t c,
                   int32_t d, int32_t e, int32_t f, int32_t g, int32_t h, int32_t i, int32_t j, result *to);
IMPORT("sockets/tcp", "[method]tcp-socket.finish-connect") void finish_connect(int32_t socket, result *to);
IMPORT("sockets/tcp", "[method]tcp-socket.subscribe") int32_t socket_subscribe(int32_t socket);
IMPORT("sockets/tcp", "[resource-drop]tcp-socket") void drop_socket(int32_t socket);
IMPORT("io/streams", "[method]output-stream.blocking-write-and-flush")
void write_and_flush(int32_t stream, const void *data, size_t size, result *to);
IMPORT("io/streams", "[method]input-stream.read") void read_stream(int32_t stream, uint64_t size, result *to);
IMPORT("io/streams", "[method]input-stream.subscribe") int32_t input_subscribe(int32_t stream);
IMPORT("io/streams", "[resource-drop]input-stream") void drop_input(int32_t stream);
IMPORT("io/streams", "[resource-drop]output-stream") void drop_output(int32_t stream);
IMPORT("io/poll", "poll") void poll_all(const int32_t *pollables, size_t count, torvyn_bytes *ready);
IMPORT("io/poll", "[resource-drop]pollable") void drop_pollable(int32_t pollable);
IMPORT("clocks/monotonic-clock", "subscribe-duration") int32_t subscribe_duration(int64_t duration_ns);

static int32_t network, socket, input, output;
static bool is_open, has_network, has_socket;

bool tcp_is_open(void) { return is_open; }

/* Waits until the pollable is ready, and drops it. Returns false if it took too long. */
static bool wait_for(int32_t pollable) {
    int32_t both[2] = {pollable, subscribe_duration(WAIT_NS)};
    torvyn_bytes ready;
    poll_all(both, 2, &ready);
    bool is_ready = ready.size && *(const uint32_t *)(const void *)ready.data == 0;
    drop_pollable(both[0]);
    drop_pollable(both[1]);
    return is_ready;
}

static bool resolve(torvyn_bytes host, next_address *to) {
    result lookup;
    resolve_addresses(network, host.data, host.size, &lookup);
    if (lookup.is_error) return false;
    bool is_found = wait_for(lookup_subscribe(lookup.handle));
    if (is_found) resolve_next(lookup.handle, to);
    drop_lookup(lookup.handle);
    return is_found && !to->is_error && to->is_some;
}

static bool connect(const next_address *to, uint16_t port) {
    result done;
    const uint8_t *four = to->ipv4;
    const uint16_t *six = to->ipv6;
    if (to->is_ipv6)
        start_connect(socket, network, 1, port, 0, six[0], six[1], six[2], six[3], six[4], six[5], six[6], six[7], 0,
                      &done);
    else
        start_connect(socket, network, 0, port, four[0], four[1], four[2], four[3], 0, 0, 0, 0, 0, 0, &done);
    if (done.is_error || !wait_for(socket_subscribe(socket))) return false;
    finish_connect(socket, &done);
    if (done.is_error) return false;
    input = done.streams[0];
    output = done.streams[1];
    return is_open = true;
}

bool tcp_open(torvyn_bytes host, uint16_t port) {
    next_address address;
    result created;
    if (!has_network) network = instance_network();
    has_network = true;
    if (!resolve(host, &address)) return false;
    create_socket(address.is_ipv6, &created);
    if (created.is_error) return false;
    socket = created.handle;
    has_socket = true;
    if (!connect(&address, port)) tcp_close();
    return is_open;
}

bool tcp_send(const void *data, size_t size) {
    for (const char *at = data; size;) {
        size_t part = size < MAX_WRITE_BYTES ? size : MAX_WRITE_BYTES;
        result written;
        write_and_flush(output, at, part, &written);
        if (written.is_error) return false;
        at += part;
        size -= part;
    }
    return true;
}

torvyn_bytes tcp_receive(void) {
    result read;
    do {
        if (!wait_for(input_subscribe(input))) return (torvyn_bytes){0};
        read_stream(input, MAX_READ_BYTES, &read);
        if (read.is_error) return (torvyn_bytes){0};
    } while (!read.bytes.size); /* a stream may be ready and have nothing yet */
    return read.bytes;
}

void tcp_close(void) {
    if (is_open) {
        drop_input(input);
        drop_output(output);
    }
    if (has_socket) drop_socket(socket);
    is_open = has_socket = false;
}
