/*
 * gdpa-jit bench: rates of kernels on the GPU, by the steady protocol (bench_steady.h), as TFLOP/s, as a ratio to cuBLAS in the
 * same process, and as FLOP a clock and SM.
 */
#include "tools/bench_case.h"
#include "tools/bench_data.h"
#include "tools/bench_steady.h"
#include "tools/commands.h"
#include "tools/compile_ahead.h"
#include "tools/cublas.h"
#include "tools/json.h"
#include "tools/progress.h"
#include "tools/record.h"
#include "tools/specs.h"
#include "tools/tool.h"
#include "tools/verify_gpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    REFERENCE_SIZE = 8192,
    COPY_BYTES = 1 << 30,
    LENGTHS_SEED = 3, /* of jagged cases, unless --seed says otherwise: records compare the same lengths */
};

static const struct option_row options[] = {
    {.name = "suite",
     .letter = 's',
     .kind = OPTION_REPEAT,
     .values = "NAME",
     .doc = "portable, forward, jagged or backward"},
    {.name = "case",
     .letter = 'c',
     .kind = OPTION_REPEAT,
     .values = "NAME",
     .doc = "such as fwd/dense/d128/q4096/k4096/h16/b8/bf16/relu"},
    {.name = "filter", .kind = OPTION_REPEAT, .values = "TEXT", .doc = "only cases whose name holds every TEXT"},
    {.name = "list", .kind = OPTION_FLAG, .doc = "show the names of the cases; run nothing, need no GPU"},
    {.name = "seconds",
     .kind = OPTION_NUMBER,
     .values = "SECONDS",
     .doc = "each case runs, the last half is timed; default 1.2",
     .lowest = 0,
     .highest = 3600},
    {.name = "record", .kind = OPTION_TEXT, .values = "FILE", .doc = "keep a line a case; in a folder: <gpu>.jsonl"},
    {.name = "jobs",
     .letter = 'j',
     .kind = OPTION_INTEGER,
     .values = "N",
     .doc = "compiles at a time, before any kernel runs; 1: none ahead",
     .lowest = 1,
     .highest = 1024},
    {.name = "cublas",
     .kind = OPTION_TEXT,
     .values = "FILE",
     .doc = "the libcublas to compare with; default: searched"},
    {.name = "no-cublas", .kind = OPTION_FLAG, .doc = "measure no reference rate, state no ratios"},
    {.name = "device",
     .kind = OPTION_INTEGER,
     .values = "N",
     .doc = "number of the GPU; default 0",
     .lowest = 0,
     .highest = 1023},
    {.name = "seed",
     .kind = OPTION_INTEGER,
     .values = "N",
     .doc = "of lengths and data; default 3",
     .lowest = 0,
     .highest = 9223372036854775807L},
    {.name = NULL},
};

struct bench {
    struct tool *tool;
    struct bench_case *cases;
    size_t count, capacity;
    double seconds;
    uint64_t seed;
    struct gpu gpu;
    struct nvml nvml;
    struct CUstream_st *stream;
    char driver[64];
    double reference_tflops; /* 0: not measured */
    double copy_gbps;        /* likewise */
    size_t done, failed;
    bool record_failed;
};

/* ---------------------------------------------------------------------------------------------------------------
 * What to measure
 * ------------------------------------------------------------------------------------------------------------- */

static void case_add(struct bench *bench, const struct bench_case *one)
{
    char name[BENCH_NAME];
    bench_case_name(one, name);
    const char *part;
    for (size_t i = 0; (part = args_repeat(&bench->tool->args, "filter", i)) != NULL; i++) {
        if (strstr(name, part) == NULL) {
            return;
        }
    }
    if (bench->count == bench->capacity) {
        bench->capacity = 2 * bench->capacity + 64;
        bench->cases = tool_realloc(bench->cases, bench->capacity * sizeof *bench->cases);
    }
    bench->cases[bench->count++] = *one;
}

static bool case_add_name(struct bench *bench, const char *name, char *why, size_t capacity)
{
    struct bench_case one;
    if (!bench_case_parse(name, &one, why, capacity)) {
        return false;
    }
    case_add(bench, &one);
    return true;
}

static bool suite_add(struct bench *bench, const char *name, char *why, size_t capacity)
{
    const struct bench_suite *suite = bench_suite_find(name);
    if (suite == NULL) {
        bench_suite_unknown(name, why, capacity);
        return false;
    }
    for (size_t i = 0; suite->cases[i] != NULL; i++) {
        if (!case_add_name(bench, suite->cases[i], why, capacity)) {
            return false;
        }
    }
    return true;
}

static bool words_add(struct bench *bench, char *why, size_t capacity)
{
    const struct args *args = &bench->tool->args;
    struct spec_rules rules = {.archs = NULL};
    struct spec_list list;
    spec_list_init(&list);
    bool good = spec_list_add_words(&list, args->words, args->word_count, &rules, why, capacity);
    for (size_t i = 0; good && i < list.count; i++) {
        struct bench_case one;
        bench_case_of_spec(&list.specs[i], &one);
        case_add(bench, &one);
    }
    spec_list_deinit(&list);
    return good;
}

static bool collect(struct bench *bench, char *why, size_t capacity)
{
    const struct args *args = &bench->tool->args;
    const char *name;
    for (size_t i = 0; (name = args_repeat(args, "suite", i)) != NULL; i++) {
        if (!suite_add(bench, name, why, capacity)) {
            return false;
        }
    }
    for (size_t i = 0; (name = args_repeat(args, "case", i)) != NULL; i++) {
        if (!case_add_name(bench, name, why, capacity)) {
            return false;
        }
    }
    bool any = args_count(args, "suite") + args_count(args, "case") + args->word_count > 0;
    if (!any && !suite_add(bench, "portable", why, capacity)) {
        return false;
    }
    if (!words_add(bench, why, capacity)) {
        return false;
    }
    if (bench->count == 0 && any) {
        snprintf(why, capacity, "no case is left after --filter");
    } else if (bench->count == 0) {
        snprintf(why, capacity, "no case of the suite portable is left after --filter; --suite takes another one");
    }
    return bench->count > 0;
}

static void list_cases(const struct bench *bench)
{
    for (size_t i = 0; i < bench->count; i++) {
        char name[BENCH_NAME];
        bench_case_name(&bench->cases[i], name);
        if (bench->tool->json) {
            json_t *report = json_report("bench_case");
            json_set_text(report, "case", name);
            json_print(stdout, report);
        } else {
            printf("%s\n", name);
        }
    }
}

/* ---------------------------------------------------------------------------------------------------------------
 * What was measured
 * ------------------------------------------------------------------------------------------------------------- */

/* One line of the record, without the fields of a case of ours. */
struct measured {
    const char *name, *impl;
    struct steady_result steady;
    double flops, bytes; /* bytes 0: not a matter of bandwidth */
    struct kernel_facts facts;
};

static double tflops_of(const struct measured *measured)
{
    return measured->flops / measured->steady.ms * 1e-9;
}

static double per_clock(const struct bench *bench, const struct measured *measured)
{
    if (!measured->steady.clocked || measured->steady.sm_mhz <= 0) {
        return NAN;
    }
    return tflops_of(measured) * 1e6 / (bench->gpu.processors * measured->steady.sm_mhz);
}

/* Whether the memory, not the tensor cores, sets the limit: less arithmetic a byte than R over the copy rate. */
static bool bandwidth_bound(const struct bench *bench, const struct measured *measured)
{
    return measured->bytes > 0 && bench->copy_gbps > 0 && bench->reference_tflops > 0 &&
           measured->flops / measured->bytes < bench->reference_tflops * 1e3 / bench->copy_gbps;
}

static void set_rates(const struct bench *bench, const struct measured *measured, json_t *object)
{
    const struct steady_result *steady = &measured->steady;
    bool reference = bench->reference_tflops > 0;
    bool bound = bandwidth_bound(bench, measured);
    double gbps = measured->bytes / steady->ms * 1e-6;
    json_set_real(object, "tflops", tflops_of(measured));
    json_set_real(object, "R", reference ? bench->reference_tflops : NAN);
    json_set_real(object, "ratio", reference ? tflops_of(measured) / bench->reference_tflops : NAN);
    json_set_real(object, "gbps", bound ? gbps : NAN);
    json_set_real(object, "copy_gbps", bound ? bench->copy_gbps : NAN);
    json_set_real(object, "bw_frac", bound ? gbps / bench->copy_gbps : NAN);
    json_set_real(object, "first_tflops", measured->flops / steady->first_ms * 1e-9);
    json_set_real(object, "flop_clk_sm", per_clock(bench, measured));
    json_set_real(object, "sm_mhz", steady->clocked ? steady->sm_mhz : NAN);
    json_set_real(object, "watts", steady->clocked ? steady->watts : NAN);
    json_set_real(object, "ms", steady->ms);
    json_set_real(object, "spread", steady->spread);
}

static void set_case(const struct bench_case *one, json_t *object)
{
    const gdpa_spec *spec = &one->spec;
    bool jagged = spec->layout_q == GDPA_LAYOUT_JAGGED;
    json_set_text(object, "pass", spec->pass == GDPA_PASS_BACKWARD ? "bwd" : "fwd");
    json_set_text(object, "layout", jagged ? "jagged" : "dense");
    json_set_text(object, "kv", bench_case_keys(one));
    json_set_integer(object, "B", one->batch);
    json_set_integer(object, "Hq", one->heads_q);
    json_set_integer(object, "Hkv", one->heads_k);
    json_set_integer(object, "D", spec->head_dim);
    json_set_integer(object, "Dv", spec->head_dim_v != 0 ? spec->head_dim_v : spec->head_dim);
    json_set_integer(object, "Sq", one->rows_q);
    json_set_integer(object, "Sk", one->rows_k);
    json_set_real(object, "fill", one->fill);
    json_set_text(object, "dtype", spec->dtype == GDPA_DTYPE_FP16 ? "fp16" : "bf16");
    json_set_text(object, "act", one->activation);
    json_set_bool(object, "causal", spec->causal);
    char window[32];
    snprintf(window, sizeof window, "%d,%d", (spec->flags & GDPA_SPEC_WINDOW_LEFT) != 0 ? spec->window_left : -1,
             (spec->flags & GDPA_SPEC_WINDOW_RIGHT) != 0 ? spec->window_right : -1);
    json_set_text(object, "window", window);
    json_set_bool(object, "deterministic", spec->deterministic);
    static const char *const families[] = {"auto", "auto", "portable", "sm90", "short", "stream"};
    json_set_text(object, "family", spec->family >= 0 && spec->family <= 5 ? families[spec->family] : NULL);
    static const char *const schedules[] = {"auto", "auto", "static", "zigzag", "dynamic"};
    json_set_text(object, "schedule", spec->schedule >= 0 && spec->schedule <= 4 ? schedules[spec->schedule] : NULL);
}

static void set_origin(const struct bench *bench, const struct measured *measured, json_t *object)
{
    char date[11];
    record_date(date);
    json_set_text(object, "source", measured->facts.source[0] != 0 ? measured->facts.source : NULL);
    json_set_text(object, "version", gdpa_version_string());
    json_set_text(object, "gpu", bench->gpu.name);
    json_set_text(object, "driver", bench->driver);
    json_set_text(object, "nvrtc", measured->facts.nvrtc[0] != 0 ? measured->facts.nvrtc : NULL);
    json_set_text(object, "date", date);
}

static void keep_record(struct bench *bench, json_t *record)
{
    const char *path = args_text(&bench->tool->args, "record", NULL);
    if (path == NULL || bench->record_failed) {
        return;
    }
    struct stat status;
    bool folder = stat(path, &status) == 0 && S_ISDIR(status.st_mode);
    char *file = folder ? tool_format("%s/%s.jsonl", path, bench->gpu.slug) : tool_strdup(path);
    static const char *const keys[] = {"case", "impl", NULL};
    char why[512];
    if (!record_replace(file, keys, record, why, sizeof why)) {
        tool_error(bench->tool, "%s", why);
        bench->record_failed = true;
    }
    free(file);
}

static void print_line(const struct bench *bench, const struct measured *measured)
{
    printf("%-60s %6.1f TFLOP/s", measured->name, tflops_of(measured));
    if (bench->reference_tflops > 0) {
        printf("  %.3f R", tflops_of(measured) / bench->reference_tflops);
    }
    printf("  %.3f ms +-%.1f%%  first 25 ms %.0f", measured->steady.ms, 50 * measured->steady.spread,
           measured->flops / measured->steady.first_ms * 1e-9);
    if (measured->steady.clocked) {
        printf("  SM %.0f MHz  %.0f W  %.0f FLOP/clk/SM", measured->steady.sm_mhz, measured->steady.watts,
               per_clock(bench, measured));
    }
    if (bandwidth_bound(bench, measured)) {
        double gbps = measured->bytes / measured->steady.ms * 1e-6;
        printf("  %.0f GB/s = %.2f of a copy", gbps, gbps / bench->copy_gbps);
    }
    printf("\n");
    fflush(stdout);
}

/* one NULL: a yardstick, which has no kernel of ours. */
static void report(struct bench *bench, const struct bench_case *one, const struct measured *measured)
{
    json_t *record = json_object();
    json_set_text(record, "case", measured->name);
    json_set_text(record, "impl", measured->impl);
    if (one != NULL) {
        set_case(one, record);
    }
    set_rates(bench, measured, record);
    set_origin(bench, measured, record);
    keep_record(bench, record);
    if (bench->tool->json) {
        json_t *printed = json_report("bench");
        json_object_update(printed, record);
        json_print(stdout, printed);
    } else {
        print_line(bench, measured);
    }
    json_decref(record);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Measuring
 * ------------------------------------------------------------------------------------------------------------- */

struct gemm_work {
    struct cublas *cublas;
    void *a, *b, *c;
};

static bool queue_gemm(void *user, struct CUstream_st *stream, const char **why)
{
    struct gemm_work *work = user;
    (void)stream; /* the handle has it */
    *why = work->cublas->why;
    return cublas_gemm(work->cublas, REFERENCE_SIZE, work->a, work->b, work->c);
}

static bool gemm_measure(struct bench *bench, struct cublas *cublas, struct measured *measured)
{
    int64_t elements = (int64_t)REFERENCE_SIZE * REFERENCE_SIZE;
    struct gemm_work work = {.cublas = cublas};
    bool good =
        bench_random(&bench->gpu, GDPA_DTYPE_BF16, elements, 1, bench->stream, &work.a) &&
        bench_random(&bench->gpu, GDPA_DTYPE_BF16, elements, 2, bench->stream, &work.b) &&
        gpu_alloc(&bench->gpu, (size_t)elements * 2, &work.c) &&
        steady_measure(&bench->gpu, &bench->nvml, bench->stream, bench->seconds, queue_gemm, &work, &measured->steady);
    gpu_free(&bench->gpu, work.a);
    gpu_free(&bench->gpu, work.b);
    gpu_free(&bench->gpu, work.c);
    return good;
}

/* R, the rate that ratios refer to; a line says why there is none. */
static void reference_measure(struct bench *bench)
{
    struct cublas cublas;
    if (args_flag(&bench->tool->args, "no-cublas")) {
        return;
    }
    if (!cublas_open(&cublas, args_text(&bench->tool->args, "cublas", NULL), bench->stream)) {
        tool_note(bench->tool, "no ratios: %s", cublas.why);
        return;
    }
    struct measured measured = {.name = "gemm/bf16/8192", .impl = "cublas"};
    measured.flops = 2.0 * REFERENCE_SIZE * REFERENCE_SIZE * REFERENCE_SIZE;
    if (gemm_measure(bench, &cublas, &measured)) {
        bench->reference_tflops = tflops_of(&measured);
        tool_note(bench->tool, "R is the rate of cuBLAS %d (%s), bf16 8192^3", cublas.version, cublas.path);
        report(bench, NULL, &measured);
    } else {
        tool_error(bench->tool, "no ratios: cuBLAS: %s", bench->gpu.why);
    }
    cublas_close(&cublas);
}

struct copy_work {
    struct gpu *gpu;
    void *from, *to;
};

static bool queue_copy(void *user, struct CUstream_st *stream, const char **why)
{
    struct copy_work *work = user;
    *why = work->gpu->why;
    return gpu_copy(work->gpu, work->to, work->from, COPY_BYTES, stream);
}

/* Bytes read and written a second by a copy on the device. */
static void copy_measure(struct bench *bench)
{
    struct copy_work work = {.gpu = &bench->gpu};
    struct steady_result steady;
    if (bench_random(&bench->gpu, GDPA_DTYPE_BF16, COPY_BYTES / 2, 5, bench->stream, &work.from) &&
        gpu_alloc(&bench->gpu, COPY_BYTES, &work.to) &&
        steady_measure(&bench->gpu, NULL, bench->stream, bench->seconds < 0.5 ? bench->seconds : 0.5, queue_copy, &work,
                       &steady)) {
        bench->copy_gbps = 2.0 * COPY_BYTES / steady.ms * 1e-6;
        tool_note(bench->tool, "a copy on the device moves %.0f GB/s (read and written)", bench->copy_gbps);
    } else {
        tool_error(bench->tool, "no copy rate: %s", bench->gpu.why);
    }
    gpu_free(&bench->gpu, work.from);
    gpu_free(&bench->gpu, work.to);
}

struct kernel_work {
    gdpa_kernel *kernel;
    const struct bench_data *data;
};

static bool queue_kernel(void *user, struct CUstream_st *stream, const char **why)
{
    const struct kernel_work *work = user;
    bool good = gdpa_launch(work->kernel, &work->data->args, work->data->buffers[BENCH_BUFFERS - 1],
                            work->data->workspace_bytes, stream) == GDPA_OK;
    if (!good) {
        *why = gdpa_last_error();
    }
    return good;
}

/* False, with the reason in gpu.why. */
static bool case_measure(struct bench *bench, const struct bench_case *one, gdpa_kernel *kernel,
                         struct measured *measured)
{
    struct bench_shape shape;
    struct bench_data data;
    if (!bench_shape_make(one, bench->seed, &shape)) {
        snprintf(bench->gpu.why, sizeof bench->gpu.why, "no host memory for its lengths, or more than 2^31 rows");
        return false;
    }
    measured->flops = shape.flops;
    measured->bytes = shape.bytes;
    bool good = bench_data_make(&bench->gpu, one, &shape, bench->seed, bench->stream, &data);
    if (good) {
        struct kernel_work work = {kernel, &data};
        good = bench_data_workspace(&bench->gpu, kernel, &data) &&
               bench_data_schedule(&bench->gpu, tool_context(bench->tool), &one->spec, bench->stream, &data) &&
               steady_measure(&bench->gpu, &bench->nvml, bench->stream, bench->seconds, queue_kernel, &work,
                              &measured->steady);
        bench_data_free(&bench->gpu, &data);
    }
    bench_shape_free(&shape);
    return good;
}

static void case_bench(struct bench *bench, const struct bench_case *one)
{
    char name[BENCH_NAME];
    bench_case_name(one, name);
    struct measured measured = {.name = name, .impl = "gdpa"};
    gdpa_kernel *kernel = NULL;
    gdpa_status status = gdpa_kernel_get(tool_context(bench->tool), &one->spec, &kernel);
    if (status != GDPA_OK) {
        tool_error(bench->tool, "%s: %s", name, gdpa_last_error());
        bench->failed++;
        return;
    }
    kernel_facts_fill(kernel, &measured.facts);
    if (case_measure(bench, one, kernel, &measured)) {
        bench->done++;
        report(bench, one, &measured);
    } else {
        tool_error(bench->tool, "%s: %s", name, bench->gpu.why);
        bench->failed++;
    }
    gdpa_kernel_release(kernel);
}

/* The last object of the stream; the lines of the text tell all of it. */
static void print_summary(const struct bench *bench)
{
    json_t *summary = json_report("summary");
    json_set_text(summary, "gpu", bench->gpu.name);
    json_set_integer(summary, "cases", (long long)bench->count);
    json_set_integer(summary, "done", (long long)bench->done);
    json_set_integer(summary, "failed", (long long)bench->failed);
    json_set_real(summary, "R", bench->reference_tflops > 0 ? bench->reference_tflops : NAN);
    json_set_real(summary, "copy_gbps", bench->copy_gbps > 0 ? bench->copy_gbps : NAN);
    json_print(stdout, summary);
}

static int run_cases(struct bench *bench)
{
    struct tool *tool = bench->tool;
    bench->seconds = args_number(&tool->args, "seconds", 1.2);
    bench->seed = (uint64_t)args_integer(&tool->args, "seed", LENGTHS_SEED);
    if (!gpu_open(&bench->gpu, NULL, (int)args_integer(&tool->args, "device", 0)) ||
        !gpu_stream_create(&bench->gpu, &bench->stream)) {
        tool_error(tool, "%s", bench->gpu.why);
        return EXIT_NO_DEVICE;
    }
    if (tool_context(tool) == NULL) {
        return tool_fail(tool, tool->ctx_status);
    }
    bool figures = nvml_open(&bench->nvml, NULL, bench->gpu.bus_id);
    snprintf(bench->driver, sizeof bench->driver, "%d.%d", bench->gpu.driver_api / 1000,
             bench->gpu.driver_api % 1000 / 10);
    if (figures) {
        snprintf(bench->driver, sizeof bench->driver, "%s", bench->nvml.driver);
    } else {
        tool_note(tool, "no clocks and no power: %s", bench->nvml.why);
    }
    tool_note(tool, "%s, %d SMs, driver %s; each case alone for %g s, the last half timed", bench->gpu.name,
              bench->gpu.processors, bench->driver, bench->seconds);
    tool_catch_interrupts();
    compile_ahead_cases(tool, bench->cases, bench->count, bench->gpu.capability);
    reference_measure(bench);
    copy_measure(bench);
    for (size_t i = 0; i < bench->count && !tool_interrupted() && !bench->record_failed; i++) {
        case_bench(bench, &bench->cases[i]);
    }
    if (tool->json) {
        print_summary(bench);
    }
    nvml_close(&bench->nvml);
    gpu_stream_destroy(&bench->gpu, bench->stream);
    gdpa_ctx_destroy(tool->ctx); /* its kernels go before the device does */
    tool->ctx = NULL;
    gpu_close(&bench->gpu);
    if (tool_interrupted()) {
        return EXIT_INTERRUPTED;
    }
    return bench->failed > 0 || bench->record_failed ? EXIT_SOME_FAILED : EXIT_DONE;
}

static int run(struct tool *tool)
{
    struct bench bench = {.tool = tool};
    char why[1024] = "";
    int code = EXIT_DONE;
    if (!collect(&bench, why, sizeof why)) {
        code = tool_usage(tool, "%s", why);
    } else if (args_flag(&tool->args, "list")) {
        list_cases(&bench);
    } else {
        code = run_cases(&bench);
    }
    free(bench.cases);
    return code;
}

const struct command command_bench = {
    .name = "bench",
    .summary = "measure kernels on the GPU against cuBLAS in the same process",
    .synopsis = "[OPTIONS] [SPEC...]",
    .details = "Each case runs alone for 1.2 s and the last half is timed: power and clock have settled by then, and\n"
               "ratios repeat to 1 %. Useful FLOPs only: masked pairs do not count. R is cuBLAS bf16 8192^3, measured\n"
               "first; without cuBLAS there are no ratios. A SPEC is measured on 32,768 tokens in sequences of 4096.\n"
               "Without SPEC, --case and --suite the suite `portable` is run.",
    .options = options,
    .takes_specs = true,
    .examples = {"bench --suite portable --record bench/results", "bench head_dim=128 activation=silu,gelu",
                 "bench --case fwd/jagged/d128/q1024/k256/h4/b1152/bf16/fast_gelu/fill0.5 --json"},
    .run = run,
};
