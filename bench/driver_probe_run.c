/*
 * driver-probe: experiments on running. What launches cost, what captures allow, what survives a reset of the device.
 */
#include "bench/driver_probe.h"

#include <stdio.h>
#include <string.h>

enum {
    BATCH = 200,
    BATCHES = 60,
    MAX_DYNAMIC_SHARED = 8,
    ATTRIBUTE_CLUSTER = 4,
    ATTRIBUTE_PROGRAMMATIC = 6, /* programmatic stream serialization */
    CAPTURE_GLOBAL = 0,
    CAPTURE_THREAD_LOCAL = 1,
    CAPTURE_RELAXED = 2
};

/* As in cuda.h. */
struct attribute {
    int id;
    char pad[4];
    union {
        char bytes[64];
        unsigned cluster[3];
        int flag;
    } value;
};

struct config {
    unsigned grid[3], block[3], shared_bytes;
    void *stream;
    struct attribute *attributes;
    unsigned attribute_count;
};

static void *pointer_parameter;
static int int_parameter = 1;
static void *small_parameters[] = {&pointer_parameter, &int_parameter};

static struct config config_on(void *stream)
{
    return (struct config){.grid = {1, 1, 1}, .block = {32, 1, 1}, .stream = stream};
}

/* ---------------------------------------------------------------------------------------------------------------
 * 3: what a launch costs
 * ------------------------------------------------------------------------------------------------------------- */

static int launch_ex(struct config *config, void *handle)
{
    return calls->launch_ex(config, handle, small_parameters, NULL);
}

static int launch_plain(struct config *config, void *handle)
{
    return calls->launch(handle, 1, 1, 1, 32, 1, 1, 0, config->stream, small_parameters, NULL);
}

/* The host's time for a call, with room in the queue. */
static void launch_time(const char *key, int (*launch)(struct config *, void *), struct config *config, void *handle)
{
    double values[BATCHES];
    snprintf(shared->doing, sizeof shared->doing, "%s", key);
    for (int i = 0; i < BATCHES; i++) {
        const double start = seconds_now();
        for (int j = 0; j < BATCH; j++) {
            const int result = launch(config, handle);
            if (result != 0) {
                answer("launch_cost", key, "%s", result_name(result));
                return;
            }
        }
        values[i] = (seconds_now() - start) * 1e9 / BATCH;
        calls->stream_sync(config->stream);
    }
    answer("launch_cost", key, "%.0f ns", median_of(values, BATCHES));
}

static void encode_time(void)
{
    static _Alignas(64) char map[128];
    const uint64_t extents[] = {128, 1024, 16, 8}, strides[] = {4096, 256, 4194304};
    const uint32_t box[] = {64, 128, 1, 1}, steps[] = {1, 1, 1, 1};
    double values[BATCHES];
    uint64_t memory = 0;
    if (calls->tensor_map == NULL || calls->memory_alloc(&memory, 1 << 26) != 0) {
        return;
    }
    for (int i = 0; i < BATCHES; i++) {
        const double start = seconds_now();
        for (int j = 0; j < BATCH; j++) {
            if (calls->tensor_map(map, 9, 4, (void *)(uintptr_t)memory, extents, strides, box, steps, 0, 3, 3, 0) != 0) {
                return;
            }
        }
        values[i] = (seconds_now() - start) * 1e9 / BATCH;
    }
    answer("launch_cost", "cuTensorMapEncodeTiled", "%.0f ns", median_of(values, BATCHES));
}

void probe_launch_cost(void)
{
    void *stream = NULL, *library = NULL, *kernel = NULL, *function = NULL;
    if (!device_open("launch_cost", &stream) || shared->code[CODE_SMALL].size == 0 ||
        code_load(shared->code[CODE_SMALL].bytes, &library, &kernel) != 0 ||
        calls->kernel_function(&function, kernel) != 0) {
        return;
    }
    struct config plain = config_on(stream), attributed = config_on(stream);
    struct attribute attribute = {.id = ATTRIBUTE_CLUSTER, .value.cluster = {1, 1, 1}};
    launch_time("cuLaunchKernelEx, CUkernel", launch_ex, &plain, kernel);
    launch_time("cuLaunchKernelEx, CUfunction", launch_ex, &plain, function);
    launch_time("cuLaunchKernel, CUkernel", launch_plain, &plain, kernel);
    launch_time("cuLaunchKernel, CUfunction", launch_plain, &plain, function);
    attributed.attributes = &attribute;
    attributed.attribute_count = 1;
    launch_time("cuLaunchKernelEx, cluster of 1", launch_ex, &attributed, kernel);
    attribute = (struct attribute){.id = ATTRIBUTE_PROGRAMMATIC, .value.flag = 1};
    launch_time("cuLaunchKernelEx, PDL", launch_ex, &attributed, kernel);
    encode_time();
}

/* ---------------------------------------------------------------------------------------------------------------
 * 4: loading inside a capture
 * ------------------------------------------------------------------------------------------------------------- */

static const char *mode_text(int mode)
{
    return mode == CAPTURE_GLOBAL ? "global" : mode == CAPTURE_THREAD_LOCAL ? "thread_local" : "relaxed";
}

struct capture_results {
    int load, attribute, function, launch, end;
};

static void load_in_capture(bool swapped, bool early, void *stream, struct capture_results *results)
{
    void *library = NULL, *kernel = NULL, *function = NULL;
    int mode = CAPTURE_RELAXED;
    if (swapped) {
        calls->capture_mode(&mode);
    }
    results->load = code_load(shared->code[CODE_SMALL].bytes, &library, &kernel);
    if (results->load == 0) {
        results->attribute = calls->kernel_set(MAX_DYNAMIC_SHARED, 65536, kernel, 0);
    }
    if (results->load == 0 && early && calls->kernel_function(&function, kernel) == 0 && calls->function_load != NULL) {
        results->function = calls->function_load(function);
    }
    if (swapped) {
        calls->capture_mode(&mode);
    }
    struct config config = config_on(stream);
    results->launch = results->load == 0 ? launch_ex(&config, kernel) : -1;
}

static void capture_once(int capture, bool swapped, bool early, void *stream)
{
    struct capture_results results = {0};
    void *graph = NULL;
    char key[64];
    snprintf(key, sizeof key, "%s%s%s", mode_text(capture), swapped ? ", thread relaxed" : "",
             early ? ", loaded early" : "");
    snprintf(shared->doing, sizeof shared->doing, "%s", key);
    const int begin = calls->capture_begin(stream, capture);
    if (begin != 0) {
        answer("capture", key, "cannot begin: %s", result_name(begin));
        return;
    }
    load_in_capture(swapped, early, stream, &results);
    results.end = calls->capture_end(stream, &graph);
    answer("capture", key, "load %d, attribute %d, function %d, launch %d, end of capture %d: %s", results.load,
           results.attribute, results.function, results.launch, results.end,
           results.end == 0 && results.launch == 0 ? "works" : result_name(results.end));
}

void probe_capture(void)
{
    void *stream = NULL;
    if (!device_open("capture", &stream) || shared->code[CODE_SMALL].size == 0) {
        return;
    }
    for (int capture = CAPTURE_GLOBAL; capture <= CAPTURE_RELAXED; capture++) {
        for (int choice = 0; choice < 4; choice++) {
            capture_once(capture, (choice & 1) != 0, (choice & 2) != 0, stream);
        }
    }
}

/* ---------------------------------------------------------------------------------------------------------------
 * 6: resets and other devices
 * ------------------------------------------------------------------------------------------------------------- */

static int launch_and_wait(void *kernel, void *stream)
{
    struct config config = config_on(stream);
    const int result = launch_ex(&config, kernel);
    return result != 0 ? result : calls->stream_sync(stream);
}

static void step(const char *key, int result)
{
    answer("reset", key, "%s", result_name(result));
}

void probe_reset(void)
{
    void *stream = NULL, *library = NULL, *kernel = NULL, *context = NULL;
    if (!device_open("reset", &stream) || shared->code[CODE_SMALL].size == 0 ||
        code_load(shared->code[CODE_SMALL].bytes, &library, &kernel) != 0) {
        return;
    }
    step("launch before", launch_and_wait(kernel, stream));
    step("cuDevicePrimaryCtxReset", calls->context_reset(0));
    snprintf(shared->doing, sizeof shared->doing, "launch on the old stream");
    struct config config = config_on(NULL);
    step("launch, NULL stream, old context", launch_ex(&config, kernel));
    step("retain the context again", calls->context_retain(&context, 0));
    step("make it current", calls->context_set(context));
    step("a new stream", calls->stream_create(&stream, 1));
    snprintf(shared->doing, sizeof shared->doing, "launch of the old kernel in the new context");
    step("launch of the old CUkernel", launch_and_wait(kernel, stream));
    void *again = NULL, *second = NULL;
    step("load the code once more", code_load(shared->code[CODE_SMALL].bytes, &again, &second));
    step("launch of that", second == NULL ? -1 : launch_and_wait(second, stream));
    snprintf(shared->doing, sizeof shared->doing, "unload of the old library");
    step("unload of the old library", calls->library_unload(library));
}

static int second_device_open(void **stream)
{
    void *context = NULL;
    int device = 0, result = calls->device_get(&device, 1);
    result = result == 0 ? calls->context_retain(&context, device) : result;
    result = result == 0 ? calls->context_set(context) : result;
    return result == 0 ? calls->stream_create(stream, 1) : result;
}

void probe_second_device(void)
{
    void *stream = NULL, *other = NULL, *library = NULL, *kernel = NULL;
    int count = 0;
    if (!device_open("second_device", &stream) || shared->code[CODE_SMALL].size == 0 || calls->device_count(&count) != 0 ||
        code_load(shared->code[CODE_SMALL].bytes, &library, &kernel) != 0) {
        return;
    }
    if (count < 2) {
        answer("second_device", "devices", "%d: nothing to try", count);
        return;
    }
    answer("second_device", "launch on device 0", "%s", result_name(launch_and_wait(kernel, stream)));
    answer("second_device", "open device 1", "%s", result_name(second_device_open(&other)));
    answer("second_device", "same CUkernel on device 1", "%s", result_name(launch_and_wait(kernel, other)));
    answer("second_device", "stream of 0, context of 1", "%s", result_name(launch_and_wait(kernel, stream)));
}

/* ---------------------------------------------------------------------------------------------------------------
 * 7: sm_90 and sm_90a
 * ------------------------------------------------------------------------------------------------------------- */

/* A kernel that computes, launched with n < 0. */
static double run_time(const void *code, void *stream)
{
    static int negative = -1;
    void *library = NULL, *kernel = NULL, *begin = NULL, *end = NULL;
    uint64_t memory = 0;
    float milliseconds = 0;
    if (code_load(code, &library, &kernel) != 0 || calls->memory_alloc(&memory, 4096) != 0 ||
        calls->event_create(&begin, 0) != 0 || calls->event_create(&end, 0) != 0) {
        return -1;
    }
    void *parameters[] = {&memory, &negative};
    struct config config = config_on(stream);
    config.grid[0] = 100000;
    config.block[0] = 256;
    for (int i = 0; i < 2; i++) { /* the first warms up */
        calls->event_record(begin, stream);
        for (int j = 0; j < 10; j++) {
            calls->launch_ex(&config, kernel, parameters, NULL);
        }
        calls->event_record(end, stream);
        calls->event_sync(end);
    }
    return calls->event_elapsed(&milliseconds, begin, end) == 0 ? (double)milliseconds / 10 : -1;
}

void probe_arch_suffix(void)
{
    void *stream = NULL;
    const struct probe_code *suffixed = &shared->code[CODE_SMALL], *plain = &shared->code[CODE_PLAIN_ARCH];
    if (suffixed->size == 0 || plain->size == 0 || !device_open("arch_suffix", &stream)) {
        return;
    }
    answer("arch_suffix", "bytes", "%zu with the suffix, %zu without", suffixed->size, plain->size);
    answer("arch_suffix", "time of the same source", "%.4f ms with the suffix, %.4f ms without",
           run_time(suffixed->bytes, stream), run_time(plain->bytes, stream));
}
