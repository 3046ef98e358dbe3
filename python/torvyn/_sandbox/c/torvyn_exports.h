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
void *torvyn__result_bytes(torvyn_bytes bytes);

/* What the host passes to a batch function. */
typedef struct {
    const char *data;
    const uint32_t *ends;
    size_t count;
    const uint64_t *sequences;
    const uint64_t *timestamps_ns;
    torvyn_bytes content_type;
    int32_t context;
} torvyn__batch;

void torvyn__batch_begin(void);
bool torvyn__batch_next(const torvyn__batch *batch, size_t at, torvyn_element *element);
void torvyn__batch_pull(size_t at);
size_t torvyn__batch_made(void);
void torvyn__check_polled(torvyn_polled polled, bool has_element);
bool torvyn__batch_end(size_t max_outputs);
void torvyn__batch_verdict(uint8_t verdict);
void *torvyn__batch_outputs(int32_t context);
void *torvyn__batch_pulled(uint8_t progress);
void *torvyn__batch_verdicts(int32_t context);
void *torvyn__batch_pushed(int32_t context, size_t taken, torvyn_signal signal);

#define TORVYN__EXPORT(name) __attribute__((export_name(name)))
#define TORVYN__ELEMENT                                                                                                \
    uint64_t sequence, uint64_t timestamp_ns, const char *type, size_t type_size, int32_t payload, int32_t context
#define TORVYN__BATCH                                                                                                  \
    const char *data, size_t data_size, const uint32_t *ends, size_t count, const uint64_t *sequences,                 \
        size_t sequence_count, const uint64_t *timestamps_ns, size_t timestamp_count, const char *type,                \
        size_t type_size, const void *attributes, size_t attribute_count, int32_t context
#define TORVYN__TAKE_BATCH                                                                                             \
    (void)data_size, (void)sequence_count, (void)timestamp_count, (void)attributes, (void)attribute_count;             \
    torvyn__batch batch = {data, ends, count, sequences, timestamps_ns, {type, type_size}, context};                   \
    torvyn_element element;                                                                                            \
    torvyn__batch_begin()
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

#ifdef TORVYN_STATE
TORVYN__EXPORT("torvyn:streaming/state@0.3.0#snapshot")
void *torvyn__snapshot(void) {
    torvyn__enter();
    return torvyn__result_bytes(torvyn_snapshot());
}

TORVYN__EXPORT("torvyn:streaming/state@0.3.0#restore")
void *torvyn__restore(const char *state, size_t size) {
    torvyn__enter();
    torvyn_restore((torvyn_bytes){state, size});
    return torvyn__result_nothing();
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
TORVYN__EXPORT("torvyn:streaming/batch-source@0.3.0#pull-batch")
void *torvyn__poll_batch(uint32_t most) {
    static const uint8_t progresses[] = {0, 2, 1};
    torvyn__batch_begin();
    uint8_t progress = 0;
    for (uint32_t i = 0; i < most && !progress; i++) {
        torvyn__batch_pull(i);
        size_t before = torvyn__batch_made();
        torvyn_polled polled = torvyn_poll();
        torvyn__check_polled(polled, torvyn__batch_made() > before);
        if (torvyn__batch_end(1)) break;
        progress = progresses[polled];
    }
    return torvyn__batch_pulled(progress);
}

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
TORVYN__EXPORT("torvyn:streaming/batch-processor@0.3.0#process-batch")
void *torvyn__process_batch(TORVYN__BATCH) {
    TORVYN__TAKE_BATCH;
    for (size_t i = 0; torvyn__batch_next(&batch, i, &element); i++) {
        torvyn_process(&element);
        torvyn__batch_end(1);
    }
    return torvyn__batch_outputs(context);
}

TORVYN__EXPORT("torvyn:streaming/processor@0.1.0#process")
void *torvyn__process(TORVYN__ELEMENT) {
    TORVYN__TAKE;
    torvyn_process(&element);
    torvyn__drop_element(&element);
    return torvyn__result_process();
}
#endif

#ifdef TORVYN_FILTER
TORVYN__EXPORT("torvyn:streaming/batch-filter@0.3.0#evaluate-batch")
void *torvyn__evaluate_batch(TORVYN__BATCH) {
    TORVYN__TAKE_BATCH;
    for (size_t i = 0; torvyn__batch_next(&batch, i, &element); i++) {
        torvyn__batch_verdict(torvyn_evaluate(&element) ? TORVYN_PASS : TORVYN_DROP);
        torvyn__batch_end(0);
    }
    return torvyn__batch_verdicts(context);
}

TORVYN__EXPORT("torvyn:filtering/filter@0.1.0#evaluate")
void *torvyn__evaluate(TORVYN__ELEMENT) {
    TORVYN__TAKE;
    bool passes = torvyn_evaluate(&element);
    torvyn__drop_element(&element);
    return torvyn__result_number(passes);
}
#endif

#ifdef TORVYN_GUARD
TORVYN__EXPORT("torvyn:streaming/batch-filter@0.3.0#evaluate-batch")
void *torvyn__judge_batch(TORVYN__BATCH) {
    TORVYN__TAKE_BATCH;
    for (size_t i = 0; torvyn__batch_next(&batch, i, &element); i++) {
        torvyn_verdict verdict = torvyn_judge(&element);
        torvyn__batch_verdict((uint8_t)verdict);
        torvyn__batch_end(verdict == TORVYN_REPLACED);
    }
    return torvyn__batch_verdicts(context);
}

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
TORVYN__EXPORT("torvyn:streaming/batch-aggregator@0.3.0#ingest-batch")
void *torvyn__ingest_batch(TORVYN__BATCH) {
    TORVYN__TAKE_BATCH;
    for (size_t i = 0; torvyn__batch_next(&batch, i, &element); i++) {
        torvyn_ingest(&element);
        torvyn__batch_end(1);
    }
    return torvyn__batch_outputs(context);
}

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
TORVYN__EXPORT("torvyn:streaming/batch-sink@0.3.0#push-batch")
void *torvyn__push_batch(TORVYN__BATCH) {
    TORVYN__TAKE_BATCH;
    size_t taken = 0;
    torvyn_signal signal = TORVYN_READY;
    while (signal == TORVYN_READY && torvyn__batch_next(&batch, taken, &element)) {
        signal = torvyn_push(&element);
        if (torvyn__batch_end(0)) signal = TORVYN_READY;
        taken++;
    }
    return torvyn__batch_pushed(context, taken, signal);
}

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
