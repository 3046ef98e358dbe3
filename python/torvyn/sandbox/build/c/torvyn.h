/* Components in C: define the role, include this file, write the role's function.
 *
 *     #define TORVYN_FILTER
 *     #include <torvyn.h>
 *
 *     bool torvyn_evaluate(const torvyn_element *element) {
 *         return torvyn_size(element) < 100;
 *     }
 *
 * One file of a component defines its role; its other files include this header alone. What the header hands out is
 * valid until the call returns, unless it says otherwise.
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

/* Bytes with a length; never ended by a zero. */
typedef struct {
    const char *data;
    size_t size;
} torvyn_bytes;

/* An element on its way in. Its payload stays with the host until it is read. */
typedef struct {
    uint64_t sequence;
    uint64_t timestamp_ns;
    torvyn_bytes content_type;
    int32_t payload;
    int32_t context;
} torvyn_element;

typedef enum { TORVYN_READY, TORVYN_PAUSE } torvyn_signal;

typedef enum {
    TORVYN_INVALID_INPUT, /* the element is at fault: never tried again */
    TORVYN_UNAVAILABLE,   /* something outside is away: may be tried again */
    TORVYN_INTERNAL,      /* the component is at fault */
    TORVYN_DEADLINE_EXCEEDED,
    TORVYN_FATAL, /* the component cannot go on */
} torvyn_error;

/* Made by the functions below. */
typedef enum {
    TORVYN_PASS,
    TORVYN_DROP,
    TORVYN_REPLACED,
    TORVYN_BLOCKED,
    TORVYN_HOLD,
} torvyn_verdict;

typedef enum { TORVYN_ELEMENT, TORVYN_END, TORVYN_PENDING } torvyn_polled;

/* What a component writes: the function of its role, and those of the others that it wants. */

void torvyn_init(torvyn_bytes config); /* before the first element */
void torvyn_teardown(void);            /* after the last, whatever happened */

void torvyn_pull(void); /* TORVYN_SOURCE: emits one element, or none to end the stream */
torvyn_polled torvyn_poll(void); /* TORVYN_POLLED_SOURCE: says whether it emitted */
void torvyn_notify_backpressure(torvyn_signal signal);

void torvyn_process(const torvyn_element *element);  /* TORVYN_PROCESSOR: emits one element or none */
bool torvyn_evaluate(const torvyn_element *element); /* TORVYN_FILTER: whether it goes on */
torvyn_verdict torvyn_judge(const torvyn_element *element); /* TORVYN_GUARD */
void torvyn_route(const torvyn_element *element); /* TORVYN_ROUTER: names ports by `torvyn_send` */

void torvyn_ingest(const torvyn_element *element); /* TORVYN_AGGREGATOR: emits one element or none */
void torvyn_flush(void);                           /* emits what is left */

torvyn_signal torvyn_push(const torvyn_element *element); /* TORVYN_SINK */
void torvyn_complete(void);                               /* the stream ended in order */

/* What a component says of itself, once and outside of functions: what its outputs are called in summaries (for a sink,
 * what it receives), and the ports of a router, separated by commas. */
#define TORVYN_UNIT(text) TORVYN__NOTE(unit, text)
#define TORVYN_PORTS(text) TORVYN__NOTE(ports, text)

/* What a component may call. */

/* All bytes of the payload: one copy, made by the first call for an element. */
torvyn_bytes torvyn_read(const torvyn_element *element);
/* At most `size` bytes from `offset` on: one copy. */
torvyn_bytes torvyn_read_at(const torvyn_element *element, uint64_t offset, uint64_t size);
/* How many bytes the payload has; nothing is copied. */
uint64_t torvyn_size(const torvyn_element *element);
torvyn_bytes torvyn_flow_id(const torvyn_element *element);
torvyn_bytes torvyn_trace_id(const torvyn_element *element);
/* Nanoseconds that are left to the flow; 0 without a deadline. */
uint64_t torvyn_deadline_ns(const torvyn_element *element);

/* Sends text: one copy into host memory. */
void torvyn_emit(const void *data, size_t size);
/* Sends bytes of another kind; `content_type` must outlive the call. */
void torvyn_emit_as(const char *content_type, const void *data, size_t size);
/* Sends the element to a port, whose name must outlive the call. */
void torvyn_send(const char *port);
/* Verdicts with something to say. */
torvyn_verdict torvyn_replace(const void *data, size_t size);
torvyn_verdict torvyn_block(const char *reason);

/* Makes the call fail when it returns; `message` must outlive the call. The first failure counts. */
void torvyn_fail(torvyn_error error, const char *message);

/* To standard output or standard error, as far as the manifest grants it. */
void torvyn_print(const void *data, size_t size);
void torvyn_print_error(const void *data, size_t size);

/* Memory until the call returns. */
void *torvyn_scratch(size_t size);

/* Text that grows and stays. Begins as `{0}`. */
typedef struct {
    char *data;
    size_t size;
    size_t capacity;
} torvyn_text;

void torvyn_append(torvyn_text *text, const void *data, size_t size);
void torvyn_append_number(torvyn_text *text, uint64_t number);
void torvyn_clear(torvyn_text *text);

/* A piece of bytes without the white space around it; nothing is copied. */
torvyn_bytes torvyn_trim(torvyn_bytes bytes);
/* Whether two are equal, letters of ASCII in either case. */
bool torvyn_equal_ignoring_case(torvyn_bytes one, torvyn_bytes other);
/* The part before `separator`; moves `rest` behind it. False when nothing was left. */
bool torvyn_split(torvyn_bytes *rest, char separator, torvyn_bytes *part);

#ifdef __cplusplus
}
#endif

#include "torvyn_exports.h"

#endif
