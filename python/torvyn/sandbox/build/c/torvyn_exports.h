/* The exports of a component, for the role that its file defines. Part of `torvyn.h`; do not include it directly.
 *
 * Names and flat parameters follow the canonical ABI: an element is six numbers, and a result that does not fit into
 * one number is the address of a record.
 */
#ifdef __cplusplus
extern "C" {
#endif

void torvyn__enter(void);
void torvyn__drop_element(const torvyn_element *element);
void *torvyn__result_nothing(void);
void *torvyn__result_number(uint8_t number);
void *torvyn__result_option(void);
void *torvyn__result_process(void);
void *torvyn__result_list(void);
void *torvyn__result_ports(void);
void *torvyn__result_polled(torvyn_polled polled);
void *torvyn__result_verdict(torvyn_verdict verdict);

#define TORVYN__EXPORT(name) __attribute__((export_name(name)))
#define TORVYN__ELEMENT                                                                                                \
    uint64_t sequence, uint64_t timestamp_ns, const char *type, size_t type_size, int32_t payload, int32_t context
#define TORVYN__TAKE                                                                                                   \
    torvyn_element element = {sequence, timestamp_ns, {type, type_size}, payload, context};                            \
    torvyn__enter()

#if defined(TORVYN_SOURCE) || defined(TORVYN_POLLED_SOURCE) || defined(TORVYN_PROCESSOR) || defined(TORVYN_FILTER) || \
    defined(TORVYN_GUARD) || defined(TORVYN_ROUTER) || defined(TORVYN_AGGREGATOR) || defined(TORVYN_SINK)
TORVYN__EXPORT("torvyn:streaming/lifecycle@0.1.0#init")
void *torvyn__init(const char *config, size_t size) {
    torvyn__enter();
    torvyn_init((torvyn_bytes){config, size});
    return torvyn__result_nothing();
}

TORVYN__EXPORT("torvyn:streaming/lifecycle@0.1.0#teardown")
void torvyn__teardown(void) {
    torvyn__enter();
    torvyn_teardown();
    torvyn__result_nothing();
}
#endif

#ifdef TORVYN_SOURCE
TORVYN__EXPORT("torvyn:streaming/source@0.1.0#pull")
void *torvyn__pull(void) {
    torvyn__enter();
    torvyn_pull();
    return torvyn__result_option();
}

TORVYN__EXPORT("torvyn:streaming/source@0.1.0#notify-backpressure")
void torvyn__notify(int32_t signal) {
    torvyn__enter();
    torvyn_notify_backpressure((torvyn_signal)signal);
    torvyn__result_nothing();
}
#endif

#ifdef TORVYN_POLLED_SOURCE
TORVYN__EXPORT("torvyn:streaming/polled-source@0.2.0#pull")
void *torvyn__poll(void) {
    torvyn__enter();
    return torvyn__result_polled(torvyn_poll());
}

TORVYN__EXPORT("torvyn:streaming/polled-source@0.2.0#notify-backpressure")
void torvyn__notify_polled(int32_t signal) {
    torvyn__enter();
    torvyn_notify_backpressure((torvyn_signal)signal);
    torvyn__result_nothing();
}
#endif

#ifdef TORVYN_PROCESSOR
TORVYN__EXPORT("torvyn:streaming/processor@0.1.0#process")
void *torvyn__process(TORVYN__ELEMENT) {
    TORVYN__TAKE;
    torvyn_process(&element);
    torvyn__drop_element(&element);
    return torvyn__result_process();
}
#endif

#ifdef TORVYN_FILTER
TORVYN__EXPORT("torvyn:filtering/filter@0.1.0#evaluate")
void *torvyn__evaluate(TORVYN__ELEMENT) {
    TORVYN__TAKE;
    bool passes = torvyn_evaluate(&element);
    torvyn__drop_element(&element);
    return torvyn__result_number(passes);
}
#endif

#ifdef TORVYN_GUARD
TORVYN__EXPORT("torvyn:filtering/guard@0.2.0#evaluate")
void *torvyn__judge(TORVYN__ELEMENT) {
    TORVYN__TAKE;
    torvyn_verdict verdict = torvyn_judge(&element);
    torvyn__drop_element(&element);
    return torvyn__result_verdict(verdict);
}
#endif

#ifdef TORVYN_ROUTER
TORVYN__EXPORT("torvyn:filtering/router@0.1.0#route")
void *torvyn__route(TORVYN__ELEMENT) {
    TORVYN__TAKE;
    torvyn_route(&element);
    torvyn__drop_element(&element);
    return torvyn__result_ports();
}
#endif

#ifdef TORVYN_AGGREGATOR
TORVYN__EXPORT("torvyn:aggregation/aggregator@0.1.0#ingest")
void *torvyn__ingest(TORVYN__ELEMENT) {
    TORVYN__TAKE;
    torvyn_ingest(&element);
    torvyn__drop_element(&element);
    return torvyn__result_option();
}

TORVYN__EXPORT("torvyn:aggregation/aggregator@0.1.0#flush")
void *torvyn__flush(void) {
    torvyn__enter();
    torvyn_flush();
    return torvyn__result_list();
}
#endif

#ifdef TORVYN_SINK
TORVYN__EXPORT("torvyn:streaming/sink@0.1.0#push")
void *torvyn__push(TORVYN__ELEMENT) {
    TORVYN__TAKE;
    torvyn_signal signal = torvyn_push(&element);
    torvyn__drop_element(&element);
    return torvyn__result_number((uint8_t)signal);
}

TORVYN__EXPORT("torvyn:streaming/sink@0.1.0#complete")
void *torvyn__complete(void) {
    torvyn__enter();
    torvyn_complete();
    return torvyn__result_nothing();
}
#endif

#ifdef __cplusplus
}
#endif
