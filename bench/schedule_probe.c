/*
 * schedule-probe: how evenly the schedules of the Hopper forward load a GPU, and what they cost. On the machine with the GPU:
 *
 *     schedule-probe [SECONDS]
 *
 *     busy      every block notes when it began and when its last row was stored (the kernel's own source, with these stamps added,
 *               compiled anew): the longest and the mean time that a block had nothing to do, as a part of the launch
 *     time      of a launch, the schedule made before each, or once
 *     build     of a schedule alone
 *     gap       from the end of a small launch to the start of the next one, of one-call forwards queued back to back
 *     replay    captured once, then replayed with other offsets: the bits of the output against those of a plain launch
 *
 * Needs no toolkit, and writes nothing.
 */
#include "runtime/kernel.h"
#include "runtime/memory.h"
#include "tools/bench_case.h"
#include "tools/bench_data.h"
#include "tools/gpu.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BLOCKS = 1024, GROUP = 8 };

/* X(name, symbol, parameters): beyond those of tools/gpu.h. */
#define PROBE_DRIVER(X)                                                                                                \
    X(global, cuLibraryGetGlobal, (uint64_t *, size_t *, void *, const char *))                                        \
    X(capture_begin, cuStreamBeginCapture_v2, (struct CUstream_st *, int))                                             \
    X(capture_end, cuStreamEndCapture, (struct CUstream_st *, void **))                                                \
    X(graph_make, cuGraphInstantiateWithFlags, (void **, void *, uint64_t))                                            \
    X(graph_launch, cuGraphLaunch, (void *, struct CUstream_st *))

static struct {
#define POINTER(name, symbol, parameters) int(*name) parameters;
    PROBE_DRIVER(POINTER)
#undef POINTER
} calls;

struct probe {
    struct gpu gpu;
    struct CUstream_st *stream;
    gdpa_ctx *ctx, *stamped; /* stamped: its kernels have stamps */
    double seconds;
};

static bool open_all(struct probe *probe)
{
    if (!gpu_open(&probe->gpu, NULL, 0) || !gpu_stream_create(&probe->gpu, &probe->stream)) {
        fprintf(stderr, "schedule-probe: %s\n", probe->gpu.why);
        return false;
    }
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
#define LOAD(name, symbol, parameters)                                                                                 \
    *(void **)&calls.name = library == NULL ? NULL : dlsym(library, #symbol);                                          \
    if (calls.name == NULL) {                                                                                          \
        fprintf(stderr, "schedule-probe: the driver has no %s\n", #symbol);                                            \
        return false;                                                                                                  \
    }
    PROBE_DRIVER(LOAD)
#undef LOAD
    return gdpa_ctx_create(NULL, &probe->ctx) == GDPA_OK && gdpa_ctx_create(NULL, &probe->stamped) == GDPA_OK;
}

static bool failed(const char *what, const char *why)
{
    printf("%-8s FAILED: %s\n", what, why);
    return false;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Stamps
 * ------------------------------------------------------------------------------------------------------------- */

static const char stamp_code[] = "extern \"C\" { __device__ unsigned long long gdpa_stamps[2048]; }\n"
                                 "__device__ inline unsigned long long gdpa_stamp()\n"
                                 "{\n"
                                 "    unsigned long long time;\n"
                                 "    asm volatile(\"mov.u64 %0, %globaltimer;\" : \"=l\"(time) :: \"memory\");\n"
                                 "    return time;\n"
                                 "}\n\n";
static const char stamp_begin[] = "    if (threadIdx.x == 0) {\n"
                                  "        gdpa_stamps[2 * blockIdx.x] = gdpa_stamp();\n"
                                  "        gdpa_stamps[2 * blockIdx.x + 1] = 0;\n"
                                  "    }\n";
static const char stamp_end[] =
    " if (threadIdx.x % 128 == 0) { atomicMax(&gdpa_stamps[2 * blockIdx.x + 1], gdpa_stamp()); }";

/* The source with stamps, malloced; NULL where the kernel looks unlike what is expected. */
static char *add_stamps(const char *source)
{
    static const char entry[] = "extern \"C\" __global__ __launch_bounds__(kThreads, 1)";
    static const char run[] = "consumer.run();";
    const char *head = strstr(source, entry);
    const char *body = head == NULL ? NULL : strstr(head, ")\n{\n");
    const char *end = body == NULL ? NULL : strstr(body, run);
    char *text = malloc(strlen(source) + 4096);
    if (end == NULL || text == NULL) {
        free(text);
        return NULL;
    }
    body += 4;
    end += strlen(run);
    sprintf(text, "%.*s%s%.*s%s%.*s%s%s", (int)(head - source), source, stamp_code, (int)(body - head), head,
            stamp_begin, (int)(end - body), body, stamp_end, end);
    return text;
}

/* Puts code with stamps into a kernel that is not loaded yet. */
static bool stamp_kernel(struct probe *probe, gdpa_kernel *kernel)
{
    static char source[4 << 20];
    struct sbuf why;
    sbuf_init(&why, 1 << 16);
    const struct nvrtc *nvrtc = NULL;
    bool good = false;
    char *text = NULL;
    if (gdpa_kernel_artifact(kernel, GDPA_ARTIFACT_SOURCE, source, sizeof source, NULL) == GDPA_OK &&
        (text = add_stamps(source)) != NULL && context_nvrtc(probe->stamped, &nvrtc, &why) == GDPA_OK) {
        const struct compile_request request = {text, "0123456789abcdef0123456789abcdef", kernel->name, "sm_90a", 90};
        struct compile_result compiled = {0};
        good = compile_source(nvrtc, &request, &compiled, &why) == GDPA_OK;
        if (good) {
            const gdpa_allocator *allocator = &probe->stamped->allocator;
            memory_free(allocator, kernel->code);
            kernel->code = memory_copy(allocator, compiled.output.cubin, compiled.output.cubin_size);
            kernel->code_size = compiled.output.cubin_size;
        }
        compile_result_deinit(&compiled);
    }
    if (!good) {
        printf("no stamps: %s\n", why.text);
    }
    free(text);
    sbuf_deinit(&why);
    return good;
}

/* ---------------------------------------------------------------------------------------------------------------
 * One case
 * ------------------------------------------------------------------------------------------------------------- */

/* What is measured, with data that all its kernels share. */
struct work {
    gdpa_spec spec;
    gdpa_kernel *kernel;
    struct bench_shape shape;
    struct bench_data data;
    void *schedule; /* made once; NULL: the kernel needs none */
    size_t schedule_bytes;
};

static bool work_open(struct probe *probe, const char *name, struct work *work)
{
    struct bench_case parsed;
    char why[512];
    memset(work, 0, sizeof *work);
    if (!bench_case_parse(name, &parsed, why, sizeof why)) {
        return failed(name, why);
    }
    parsed.spec.arch = probe->gpu.capability;
    work->spec = parsed.spec;
    if (!bench_shape_make(&parsed, 1, &work->shape) ||
        !bench_data_make(&probe->gpu, &parsed, &work->shape, 1, probe->stream, &work->data)) {
        return failed(name, probe->gpu.why);
    }
    if (gdpa_schedule_size(probe->ctx, &work->spec, &work->data.args, &work->schedule_bytes) != GDPA_OK ||
        !gpu_alloc(&probe->gpu, work->schedule_bytes, &work->schedule)) {
        return failed(name, gdpa_last_error());
    }
    work->data.args.schedule = work->schedule;
    work->data.args.schedule_bytes = work->schedule_bytes;
    return true;
}

/* Never by a kernel with stamps: one that is loaded has none to come. */
static bool make_schedule(struct probe *probe, const struct work *work)
{
    return gdpa_schedule_build(probe->ctx, &work->spec, &work->data.args, work->schedule, work->schedule_bytes,
                               probe->stream) == GDPA_OK;
}

static bool stamps_find(struct probe *probe, const struct work *work, void **stamps)
{
    uint64_t address = 0;
    size_t bytes = 0;
    if (gdpa_kernel_prepare(work->kernel) != GDPA_OK ||
        calls.global(&address, &bytes, work->kernel->library, "gdpa_stamps") != 0) {
        return failed("stamps", "they are not there");
    }
    (void)probe;
    *stamps = (void *)(uintptr_t)address;
    return true;
}

/* Of another grid before. */
static bool stamps_clear(struct probe *probe, const struct work *work)
{
    void *stamps = NULL;
    return stamps_find(probe, work, &stamps) &&
           gpu_fill(&probe->gpu, stamps, 0, sizeof(uint64_t[2 * MOST_BLOCKS]), probe->stream);
}

/* The kernel of a schedule, and its schedule made. */
static bool work_choose(struct probe *probe, int32_t schedule, bool stamped, struct work *work)
{
    gdpa_kernel_release(work->kernel);
    work->kernel = NULL;
    work->spec.schedule = schedule;
    if (gdpa_kernel_get(stamped ? probe->stamped : probe->ctx, &work->spec, &work->kernel) != GDPA_OK) {
        return failed("kernel", gdpa_last_error());
    }
    if (work->kernel == NULL || (stamped && work->kernel->library == NULL && !stamp_kernel(probe, work->kernel))) {
        return failed("kernel", "it has no stamps");
    }
    return (make_schedule(probe, work) || failed("schedule", gdpa_last_error())) &&
           (!stamped || stamps_clear(probe, work));
}

static void work_close(struct probe *probe, struct work *work)
{
    bench_data_free(&probe->gpu, &work->data);
    bench_shape_free(&work->shape);
    gpu_free(&probe->gpu, work->schedule);
    gdpa_kernel_release(work->kernel);
}

static bool launch(struct probe *probe, struct work *work, bool rebuild)
{
    return (!rebuild || make_schedule(probe, work)) &&
           gdpa_launch(work->kernel, &work->data.args, NULL, 0, probe->stream) == GDPA_OK;
}

/* Milliseconds a launch, the second half of `seconds`; negative when it fails. */
static double time_launches(struct probe *probe, struct work *work, bool rebuild, bool only_build)
{
    struct CUevent_st *from = NULL, *to = NULL;
    double best = 0, passed = 0, all = 0;
    int groups = 0;
    if (!gpu_event_create(&probe->gpu, &from) || !gpu_event_create(&probe->gpu, &to)) {
        return -1;
    }
    while (passed < probe->seconds * 1e3) {
        gpu_event_record(&probe->gpu, from, probe->stream);
        for (int i = 0; i < GROUP; i++) {
            const bool good = only_build ? make_schedule(probe, work) : launch(probe, work, rebuild);
            if (!good) {
                failed("launch", gdpa_last_error());
                return -1;
            }
        }
        gpu_event_record(&probe->gpu, to, probe->stream);
        if (!gpu_event_wait(&probe->gpu, to) || !gpu_event_milliseconds(&probe->gpu, from, to, &best)) {
            failed("launch", probe->gpu.why);
            return -1;
        }
        passed += best;
        if (passed > probe->seconds * 500) {
            all += best;
            groups++;
        }
    }
    gpu_event_destroy(&probe->gpu, from);
    gpu_event_destroy(&probe->gpu, to);
    return groups > 0 ? all / groups / GROUP : -1;
}

struct busy {
    double microseconds; /* from the first start to the last end */
    double mean_idle, most_idle;
    uint64_t first, last;
    int blocks;
};

static bool read_stamps(struct probe *probe, struct work *work, struct busy *busy)
{
    struct {
        uint64_t begin, end;
    } stamps[MOST_BLOCKS];
    void *place = NULL;
    int blocks = probe->gpu.processors - (int)work->data.args.sm_margin;
    if (!gpu_stream_wait(&probe->gpu, probe->stream) || !stamps_find(probe, work, &place) ||
        !gpu_download(&probe->gpu, stamps, place, sizeof stamps)) {
        return failed("stamps", probe->gpu.why);
    }
    busy->first = UINT64_MAX;
    busy->last = 0;
    double sum = 0, least = 1e30;
    busy->blocks = 0;
    for (int i = 0; i < blocks && stamps[i].begin != 0; i++) {
        busy->first = stamps[i].begin < busy->first ? stamps[i].begin : busy->first;
        busy->last = stamps[i].end > busy->last ? stamps[i].end : busy->last;
        const double own = stamps[i].end > stamps[i].begin ? (double)(stamps[i].end - stamps[i].begin) : 0;
        sum += own;
        least = own < least ? own : least;
        busy->blocks++;
    }
    const double whole = (double)(busy->last - busy->first);
    busy->microseconds = whole * 1e-3;
    busy->mean_idle = 1 - sum / busy->blocks / whole;
    busy->most_idle = 1 - least / whole;
    return true;
}

static const char *const schedules[] = {"auto", "auto", "static", "zigzag", "dynamic"};

static void probe_case(struct probe *probe, const char *name, int64_t margin)
{
    struct work work;
    printf("%s, margin %d\n", name, (int)margin);
    bool good = work_open(probe, name, &work);
    work.data.args.sm_margin = margin;
    for (int32_t schedule = GDPA_SCHEDULE_AUTO; good && schedule <= GDPA_SCHEDULE_DYNAMIC; schedule++) {
        struct busy busy = {0};
        good = work_choose(probe, schedule, false, &work);
        const double given = good ? time_launches(probe, &work, false, false) : -1;
        const double made = good && schedule >= GDPA_SCHEDULE_ZIGZAG ? time_launches(probe, &work, true, false) : given;
        good = good && work_choose(probe, schedule, true, &work);
        for (int i = 0; good && i < 20; i++) {
            good = launch(probe, &work, false);
        }
        good = good && read_stamps(probe, &work, &busy);
        printf("  %-8s %9.1f us %4.0f TFLOP/s, made each time %9.1f us; span %9.1f us, %d blocks, idle: mean %4.1f %%, "
               "most %4.1f %%\n",
               schedules[schedule], given * 1e3, work.shape.flops / given * 1e-9, made * 1e3, busy.microseconds,
               busy.blocks, 100 * busy.mean_idle, 100 * busy.most_idle);
    }
    work_close(probe, &work);
}

/* Making a schedule for so many sequences. */
static void probe_build(struct probe *probe, const char *name)
{
    struct work work;
    if (work_open(probe, name, &work) && work_choose(probe, GDPA_SCHEDULE_DYNAMIC, false, &work)) {
        printf("build    %-70s %8.1f us, %zu bytes\n", name, 1e3 * time_launches(probe, &work, false, true),
               work.schedule_bytes);
    }
    work_close(probe, &work);
}

/* One-call forwards back to back: the time of one less what the blocks of one are there for. */
static void probe_gap(struct probe *probe, const char *name)
{
    enum { CALLS = 2000, SPANS = 50 };
    struct work work;
    struct busy busy = {0};
    struct CUevent_st *from = NULL, *to = NULL;
    double each = -1, span = 0;
    bool good = work_open(probe, name, &work) && work_choose(probe, GDPA_SCHEDULE_AUTO, false, &work) &&
                gpu_event_create(&probe->gpu, &from) && gpu_event_create(&probe->gpu, &to);
    for (int round = 0; good && round < 3; round++) {
        gpu_event_record(&probe->gpu, from, probe->stream);
        for (int i = 0; i < CALLS; i++) {
            good = good && gdpa_forward(probe->ctx, &work.spec, &work.data.args, probe->stream) == GDPA_OK;
        }
        gpu_event_record(&probe->gpu, to, probe->stream);
        good = good && gpu_event_wait(&probe->gpu, to) && gpu_event_milliseconds(&probe->gpu, from, to, &each);
    }
    good = good && work_choose(probe, GDPA_SCHEDULE_AUTO, true, &work);
    for (int i = 0; good && i < SPANS; i++) { /* several in a row: the last one meets the caches of the loop */
        for (int before = 0; good && before < 3; before++) {
            good = launch(probe, &work, false);
        }
        good = good && read_stamps(probe, &work, &busy);
        span += busy.microseconds / SPANS;
    }
    printf("gap      %-70s a launch %6.2f us, its blocks %6.2f us, between two %6.2f us%s\n", name, each * 1e3 / CALLS,
           span, each * 1e3 / CALLS - span, good ? "" : "; FAILED");
    work_close(probe, &work);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Replays
 * ------------------------------------------------------------------------------------------------------------- */

/* Offsets of as many sequences with other lengths and the same sum. */
static void shuffle_lengths(int32_t *offsets, int64_t batch, uint32_t seed)
{
    int32_t rest = offsets[batch];
    for (int64_t i = 0; i < batch; i++) {
        seed = seed * 1664525 + 1013904223;
        const int32_t mean = rest / (int32_t)(batch - i);
        int32_t length = i + 1 == batch ? rest : (int32_t)((seed >> 8) % (uint32_t)(2 * mean + 1));
        length = length > rest ? rest : length;
        offsets[i] = offsets[batch] - rest;
        rest -= length;
    }
}

static bool output_hash(struct probe *probe, const struct work *work, size_t bytes, uint64_t *hash)
{
    unsigned char *host = malloc(bytes);
    if (host == NULL || !gpu_stream_wait(&probe->gpu, probe->stream) ||
        !gpu_download(&probe->gpu, host, work->data.args.o.data, bytes)) {
        free(host);
        return failed("replay", probe->gpu.why);
    }
    *hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word;
        memcpy(&word, host + i, 8);
        *hash = (*hash ^ word) * UINT64_C(1099511628211);
    }
    free(host);
    return true;
}

/* The offsets of both sides, on the device. */
static bool offsets_upload(struct probe *probe, struct work *work, const int32_t *offsets)
{
    const size_t bytes = sizeof(int32_t) * (size_t)(work->data.args.batch + 1);
    return gpu_upload(&probe->gpu, (void *)(uintptr_t)work->data.args.cu_seqlens_q, offsets, bytes) &&
           gpu_upload(&probe->gpu, (void *)(uintptr_t)work->data.args.cu_seqlens_k, offsets, bytes);
}

static void probe_replay(struct probe *probe, const char *name)
{
    enum { REPLAYS = 8 };
    struct work work;
    void *graph = NULL, *ready = NULL;
    uint64_t replayed[REPLAYS] = {0}, plain = 0;
    bool good = work_open(probe, name, &work) && work_choose(probe, GDPA_SCHEDULE_DYNAMIC, false, &work);
    gdpa_args *args = &work.data.args;
    args->max_seqlen_q = args->max_seqlen_k = 0;
    const size_t bytes = good ? (size_t)(args->total_q * args->heads_q * work.spec.head_dim_v) * 2 : 0;
    int32_t *offsets = work.shape.cu_seqlens_q;
    good = good && gdpa_kernel_prepare(work.kernel) == GDPA_OK && calls.capture_begin(probe->stream, 0) == 0 &&
           launch(probe, &work, true) && calls.capture_end(probe->stream, &graph) == 0 &&
           calls.graph_make(&ready, graph, 0) == 0;
    for (uint32_t i = 0; good && i < REPLAYS; i++) {
        shuffle_lengths(offsets, args->batch, i + 1);
        good = offsets_upload(probe, &work, offsets) &&
               gpu_fill(&probe->gpu, args->o.data, 0xff, bytes, probe->stream) &&
               calls.graph_launch(ready, probe->stream) == 0 && output_hash(probe, &work, bytes, &replayed[i]);
    }
    int same = 0;
    good = good && work_choose(probe, GDPA_SCHEDULE_AUTO, false, &work);
    for (uint32_t i = 0; good && i < REPLAYS; i++) {
        shuffle_lengths(offsets, args->batch, i + 1);
        good = offsets_upload(probe, &work, offsets) &&
               gpu_fill(&probe->gpu, args->o.data, 0xee, bytes, probe->stream) && launch(probe, &work, false) &&
               output_hash(probe, &work, bytes, &plain);
        same += good && plain == replayed[i];
    }
    printf("replay   %-70s %d of %d with other offsets have the bits of plain launches%s\n", name, same, REPLAYS,
           good ? "" : "; FAILED");
    work_close(probe, &work);
}

int main(int count, char **words)
{
    struct probe probe = {.seconds = count > 1 ? atof(words[1]) : 0.1};
    if (!open_all(&probe)) {
        return 3;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    static const char long_one[] = "fwd/jagged/d128/q65536/k65536/h4/b1024/bf16/fast_gelu/causal/others64/kvjagged";
    probe_case(&probe, long_one, 0);
    probe_case(&probe, long_one, 32);
    static const char *const cases[] = {
        "fwd/jagged/d128/q1024/k1024/h4/b1152/bf16/fast_gelu/fill0.5/kvjagged",
        "fwd/jagged/d128/q1024/k1024/h4/b1152/bf16/fast_gelu/causal/fill0.5/kvjagged",
        "fwd/jagged/d128/q256/k256/h4/b1152/bf16/fast_gelu/fill0.5",
        "fwd/jagged/d128/q1024/k256/h4/b1152/bf16/fast_gelu/fill0.5",
        "fwd/jagged/d128/q8192/k8192/h4/b32/bf16/fast_gelu/causal/fill0.5/kvjagged",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        probe_case(&probe, cases[i], 0);
    }
    probe_build(&probe, "fwd/jagged/d128/q1024/k1024/h4/b1152/bf16/fast_gelu/fill0.5/kvjagged");
    probe_build(&probe, "fwd/jagged/d64/q32/k32/h1/b100000/bf16/fast_gelu/fill0.5/kvjagged");
    probe_build(&probe, "fwd/jagged/d64/q32/k32/h1/b1000000/bf16/fast_gelu/fill0.5/kvjagged");
    probe_gap(&probe, "fwd/jagged/d128/q512/k512/h4/b16/bf16/fast_gelu/causal/fill0.5/kvjagged");
    probe_gap(&probe, "fwd/jagged/d128/q256/k256/h4/b32/bf16/fast_gelu/fill0.5/kvjagged");
    probe_replay(&probe, "fwd/jagged/d128/q2048/k2048/h4/b64/bf16/fast_gelu/causal/fill0.5/kvjagged");
    probe_replay(&probe, "fwd/jagged/d64/q300/k300/h3/b1000/bf16/silu/fill0.5/kvjagged");
    gdpa_ctx_destroy(probe.ctx);
    gpu_close(&probe.gpu);
    return 0;
}
