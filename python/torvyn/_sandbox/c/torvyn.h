/* Components in C: define a role, include this file, and write the role's function.
 *
 *     #define TORVYN_FILTER
 *     #include <torvyn.h>
 *
 *     bool torvyn_evaluate(const torvyn_element *element) {
 *         return torvyn_size(element) < 100;
 *     }
 *
 * One file of a component defines its role; its other files only include this header. Data from these functions is
 * valid until the call returns, unless stated otherwise.
 */
#ifndef TORVYN_H
#define TORVYN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TORVYN__NOTE(name, text)                                                                                       \
    __asm__(".section .custom_section.torvyn." #name ",\"\",@\n.ascii " #text "\n.section .text,\"\",@\n")

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes with a length; not zero-terminated. */
typedef struct {
    const char *data;
    size_t size;
} torvyn_bytes;

/* An input element. Its payload stays in the host until you read it. */
typedef struct {
    uint64_t sequence;
    uint64_t timestamp_ns;
    torvyn_bytes content_type;
    int32_t payload;
    int32_t context;
} torvyn_element;

typedef enum { TORVYN_READY, TORVYN_PAUSE } torvyn_signal;

typedef enum {
    TORVYN_INVALID_INPUT, /* the element is invalid: never retried */
    TORVYN_UNAVAILABLE,   /* an external resource is unavailable: may be retried */
    TORVYN_INTERNAL,      /* the component has an error */
    TORVYN_DEADLINE_EXCEEDED,
    TORVYN_FATAL, /* the component cannot continue */
} torvyn_error;

/* Return `torvyn_replace(...)` or `torvyn_block(...)` for TORVYN_REPLACED and TORVYN_BLOCKED. */
typedef enum {
    TORVYN_PASS,
    TORVYN_DROP,
    TORVYN_REPLACED,
    TORVYN_BLOCKED,
    TORVYN_HOLD,
} torvyn_verdict;

typedef enum { TORVYN_ELEMENT, TORVYN_END, TORVYN_PENDING } torvyn_polled;

/* Functions that a component defines: that of its role, and any of the optional ones. */

void torvyn_init(torvyn_bytes config); /* before the first element */
void torvyn_teardown(void);            /* after the last element, however the flow ended */

void torvyn_pull(void); /* TORVYN_SOURCE: emits one element, or none to end the stream */
torvyn_polled torvyn_poll(void); /* TORVYN_POLLED_SOURCE: returns whether it emitted an element */
void torvyn_notify_backpressure(torvyn_signal signal);

void torvyn_process(const torvyn_element *element);  /* TORVYN_PROCESSOR: emits one element or none */
bool torvyn_evaluate(const torvyn_element *element); /* TORVYN_FILTER: whether the element passes */
torvyn_verdict torvyn_judge(const torvyn_element *element); /* TORVYN_GUARD */
void torvyn_route(const torvyn_element *element); /* TORVYN_ROUTER: calls `torvyn_send` for each port */

void torvyn_ingest(const torvyn_element *element); /* TORVYN_AGGREGATOR: emits one element or none */
void torvyn_flush(void);                           /* emits what is left at the end */

torvyn_signal torvyn_push(const torvyn_element *element); /* TORVYN_SINK */
void torvyn_complete(void);                               /* the stream ended without an error */

/* TORVYN_STATE, besides a role: the component's state, in any encoding. The bytes must stay valid until the next call.
 * `torvyn_restore` is called after `torvyn_init`, with what `torvyn_snapshot` returned. */
torvyn_bytes torvyn_snapshot(void);
void torvyn_restore(torvyn_bytes state);

/* Metadata, outside of functions, at most once each: the plural noun for the outputs in summaries (for a sink, for its
 * inputs), the ports of a router, separated by commas, and the config that it takes: "text", which is the default,
 * "table", "either" or "none". A table is JSON text. */
#define TORVYN_UNIT(text) TORVYN__NOTE(unit, text)
#define TORVYN_PORTS(text) TORVYN__NOTE(ports, text)
#define TORVYN_CONFIG(text) TORVYN__NOTE(config, text)

/* Functions that a component can call. */

/* The whole payload. The first call for an element copies it. */
torvyn_bytes torvyn_read(const torvyn_element *element);
/* A copy of at most `size` bytes, starting at `offset`. */
torvyn_bytes torvyn_read_at(const torvyn_element *element, uint64_t offset, uint64_t size);
/* The size of the payload in bytes, without a copy. */
uint64_t torvyn_size(const torvyn_element *element);
torvyn_bytes torvyn_flow_id(const torvyn_element *element);
torvyn_bytes torvyn_trace_id(const torvyn_element *element);
/* The nanoseconds until the flow's deadline; 0 without a deadline. */
uint64_t torvyn_deadline_ns(const torvyn_element *element);

/* Emits text, copied into host memory. */
void torvyn_emit(const void *data, size_t size);
/* Emits bytes with a content type; `content_type` must stay valid until the call returns. */
void torvyn_emit_as(const char *content_type, const void *data, size_t size);
/* Sends the element to a port; `port` must stay valid until the call returns. */
void torvyn_send(const char *port);
/* The verdicts with a text. */
torvyn_verdict torvyn_replace(const void *data, size_t size);
torvyn_verdict torvyn_block(const char *reason);

/* Makes the call fail when it returns; `message` must stay valid until then. Later failures are ignored. */
void torvyn_fail(torvyn_error error, const char *message);

/* Prints to standard output or standard error if the manifest grants it, otherwise to the log. */
void torvyn_print(const void *data, size_t size);
void torvyn_print_error(const void *data, size_t size);

/* Memory that is valid until the call returns. */
void *torvyn_scratch(size_t size);

/* A growing text that outlives the call. Initialise it with `{0}`. */
typedef struct {
    char *data;
    size_t size;
    size_t capacity;
} torvyn_text;

void torvyn_append(torvyn_text *text, const void *data, size_t size);
void torvyn_append_number(torvyn_text *text, uint64_t number);
void torvyn_clear(torvyn_text *text);

/* The bytes without leading and trailing white space, without a copy. */
torvyn_bytes torvyn_trim(torvyn_bytes bytes);
/* Whether both are equal, ignoring the case of ASCII letters. */
bool torvyn_equal_ignoring_case(torvyn_bytes one, torvyn_bytes other);
/* Sets `part` to the bytes before `separator` and moves `rest` past it. Returns false if nothing was left. */
bool torvyn_split(torvyn_bytes *rest, char separator, torvyn_bytes *part);

#ifdef __cplusplus
}
#endif

#include "torvyn_exports.h"

#endif
