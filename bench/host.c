/*
 * What the library costs the host: look-ups, launches, cache hits, compiles. No GPU; launches go to the fake driver of
 * the tests, so that what is measured is our own share and the fake's few dozen nanoseconds.
 *
 *     host FOLDER [--json]
 *
 * FOLDER holds libfake_driver.so and libfake_nvrtc.so. Cache hits and compiles use a real NVRTC where one is found and
 * are left out where there is none. --json prints one line a case, as in bench/results/host.jsonl.
 */
#include "include/gdpajit.h"
#include "tests/support/fake_driver.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BATCHES = 101, KERNELS = 8 };

struct bench {
    char driver[4096], nvrtc[4096], cache[4096];
    char machine[256], date[32];
    bool json;
};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void must(gdpa_status status, const char *what)
{
    if (status != GDPA_OK) {
        fprintf(stderr, "host: %s: %s\n", what, gdpa_last_error());
        exit(1);
    }
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    return values[count / 2];
}

static void report(const struct bench *bench, const char *name, double value, const char *unit, long n)
{
    if (bench->json) {
        printf("{\"case\":\"host/%s\",\"value\":%.4g,\"unit\":\"%s\",\"n\":%ld,\"machine\":\"%s\",\"date\":\"%s\"}\n",
               name, value, unit, n, bench->machine, bench->date);
    } else {
        printf("%-34s %10.4g %s\n", name, value, unit);
    }
}

/* ---------------------------------------------------------------------------------------------------------------
 * Nanoseconds a call
 * ------------------------------------------------------------------------------------------------------------- */

/* The fake driver, called past the library. */
struct driver_share {
    int (*launch)(const void *config, void *kernel, void **parameters, void **extra);
    int (*encode)(void *map, int type, unsigned rank, void *data, const uint64_t *extents, const uint64_t *strides,
                  const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int promotion, int fill);
    struct {
        unsigned grid[3], block[3], shared_bytes;
        void *stream, *attributes;
        unsigned attribute_count;
    } config;
    void *kernel, *parameters[1];
};

struct call {
    gdpa_ctx *ctx;
    gdpa_spec spec;
    gdpa_args args;
    gdpa_kernel *kernel;
    long taken; /* references to give back */
    int turn;
    struct driver_share driver;
};

static void call_get(struct call *call)
{
    gdpa_kernel *kernel = NULL;
    must(gdpa_kernel_get(call->ctx, &call->spec, &kernel), "gdpa_kernel_get");
    call->taken++;
}

static void call_get_and_release(struct call *call)
{
    gdpa_kernel *kernel = NULL;
    must(gdpa_kernel_get(call->ctx, &call->spec, &kernel), "gdpa_kernel_get");
    gdpa_kernel_release(kernel);
}

static void call_launch(struct call *call)
{
    must(gdpa_launch(call->kernel, &call->args, NULL, 0, NULL), "gdpa_launch");
}

static void call_forward(struct call *call)
{
    must(gdpa_forward(call->ctx, &call->spec, &call->args, NULL), "gdpa_forward");
}

/* As a caller that cycles through the blocks of an allocator: the addresses differ from one launch to the next. */
static void call_launch_elsewhere(struct call *call)
{
    call->turn = (call->turn + 1) % 64;
    char *const base = (char *)((uintptr_t)0x10000 + 0x10000 * (uintptr_t)call->turn);
    call->args.q.data = base;
    call->args.k.data = base + 0x1000;
    call->args.v.data = base + 0x2000;
    call->args.o.data = base + 0x3000;
    call_launch(call);
}

/* The calls of the driver that a launch makes, alone: what is to be taken off to get our own share. */
static void call_driver_launch(struct call *call)
{
    if (call->driver.launch(&call->driver.config, call->driver.kernel, call->driver.parameters, NULL) != 0) {
        fprintf(stderr, "host: the fake driver does not launch\n");
        exit(1);
    }
}

static void call_driver_launch_with_maps(struct call *call)
{
    static _Alignas(64) char map[128];
    const uint64_t extents[] = {128, 1024, 16, 8}, strides[] = {4096, 256, 4194304};
    const uint32_t box[] = {64, 128, 1, 1}, steps[] = {1, 1, 1, 1};
    for (int i = 0; i < 4; i++) { /* q, k, v, o */
        if (call->driver.encode(map, 9, 4, call->args.q.data, extents, strides, box, steps, 0, 3, 3, 0) != 0) {
            fprintf(stderr, "host: the fake driver does not encode\n");
            exit(1);
        }
    }
    call_driver_launch(call);
}

enum { CALLS = 2000, CALLS_COUNT = BATCHES * CALLS };

/* Median nanoseconds of a call. */
static double time_call(void (*run)(struct call *call), struct call *call)
{
    double nanoseconds[BATCHES];
    for (int batch = 0; batch < BATCHES; batch++) {
        const double start = now();
        for (int i = 0; i < CALLS; i++) {
            run(call);
        }
        nanoseconds[batch] = (now() - start) * 1e9 / CALLS;
    }
    return median(nanoseconds, BATCHES);
}

static void time_calls(const struct bench *bench, const char *name, void (*run)(struct call *call), struct call *call)
{
    report(bench, name, time_call(run, call), "ns", CALLS_COUNT);
}

/* A launch, and what of it is ours. */
static void time_launch(const struct bench *bench, const char *name, void (*run)(struct call *call), struct call *call,
                        double of_driver)
{
    char own[64];
    const double whole = time_call(run, call);
    snprintf(own, sizeof own, "%s/ours", name);
    report(bench, name, whole, "ns", CALLS_COUNT);
    report(bench, own, whole - of_driver, "ns", CALLS_COUNT);
}

static struct call call_make(const struct bench *bench, const char *text)
{
    struct call call;
    memset(&call, 0, sizeof call);
    gdpa_ctx_options options = GDPA_CTX_OPTIONS_INIT;
    options.driver_path = bench->driver;
    options.nvrtc_path = bench->nvrtc;
    options.mode = GDPA_MODE_OFF;
    must(gdpa_ctx_create(&options, &call.ctx), "gdpa_ctx_create");
    must(gdpa_spec_parse(text, &call.spec), text);
    must(gdpa_kernel_get(call.ctx, &call.spec, &call.kernel), text);
    const gdpa_args args = GDPA_ARGS_INIT;
    call.args = args;
    call.args.q.data = call.args.k.data = call.args.v.data = call.args.o.data = (void *)(uintptr_t)0x10000;
    call.args.batch = 8;
    call.args.heads_q = call.args.heads_k = 16;
    call.args.seqlen_q = call.args.seqlen_k = 1024;
    return call;
}

static void call_drop(struct call *call)
{
    for (; call->taken > 0; call->taken--) {
        gdpa_kernel_release(call->kernel);
    }
    gdpa_kernel_release(call->kernel);
    gdpa_ctx_destroy(call->ctx);
}

static void *driver_symbol(const struct bench *bench, const char *name)
{
    void *library = dlopen(bench->driver, RTLD_NOW);
    void *symbol = library == NULL ? NULL : dlsym(library, name);
    if (symbol == NULL) {
        fprintf(stderr, "host: %s: %s\n", bench->driver, dlerror());
        exit(1);
    }
    return symbol;
}

/* The NULL stream needs a context that is current. */
static void device_make_current(const struct bench *bench)
{
    const struct fake_driver *control = driver_symbol(bench, "fake_driver");
    control->current(0);
}

/* A kernel of the call's code that the library knows nothing of. */
static void driver_share_make(const struct bench *bench, struct call *call)
{
    static char code[1 << 20];
    size_t size = 0;
    void *module = NULL;
    int (*load)(void **, const void *, void *, void *, unsigned, void *, void *, unsigned);
    int (*find)(void **, void *, const char *);
    *(void **)&load = driver_symbol(bench, "cuLibraryLoadData");
    *(void **)&find = driver_symbol(bench, "cuLibraryGetKernel");
    *(void **)&call->driver.launch = driver_symbol(bench, "cuLaunchKernelEx");
    *(void **)&call->driver.encode = driver_symbol(bench, "cuTensorMapEncodeTiled");
    must(gdpa_kernel_artifact(call->kernel, GDPA_ARTIFACT_CUBIN, code, sizeof code, &size), "gdpa_kernel_artifact");
    if (load(&module, code, NULL, NULL, 0, NULL, NULL, 0) != 0 || find(&call->driver.kernel, module, "k") != 0) {
        fprintf(stderr, "host: the fake driver does not load\n");
        exit(1);
    }
    static char parameters[1024];
    call->driver.parameters[0] = parameters;
    for (int i = 0; i < 3; i++) {
        call->driver.config.grid[i] = call->driver.config.block[i] = 1;
    }
}

static void time_hot_paths(const struct bench *bench)
{
    device_make_current(bench);
    struct call call = call_make(bench, "fwd head_dim=128 activation=silu arch=sm_90a family=portable");
    time_calls(bench, "kernel_get/hit", call_get, &call);
    time_calls(bench, "kernel_get/hit_and_release", call_get_and_release, &call);
    must(gdpa_kernel_prepare(call.kernel), "gdpa_kernel_prepare");
    driver_share_make(bench, &call);
    const double of_driver = time_call(call_driver_launch, &call);
    const double of_driver_with_maps = time_call(call_driver_launch_with_maps, &call);
    report(bench, "launch/fake_driver_alone", of_driver, "ns", CALLS_COUNT);
    report(bench, "launch/fake_driver_alone_with_maps", of_driver_with_maps, "ns", CALLS_COUNT);
    time_launch(bench, "launch/portable", call_launch, &call, of_driver);
    time_launch(bench, "launch/portable_elsewhere", call_launch_elsewhere, &call, of_driver);
    time_launch(bench, "forward/portable", call_forward, &call, of_driver);
    call_drop(&call);
    call = call_make(bench, "fwd head_dim=128 activation=silu");
    time_calls(bench, "kernel_get/hit_arch_of_device", call_get, &call);
    call_drop(&call);
    call = call_make(bench, "fwd head_dim=128 activation=silu arch=sm_90a family=sm90");
    time_launch(bench, "launch/sm90", call_launch, &call, of_driver);
    time_launch(bench, "launch/sm90_elsewhere", call_launch_elsewhere, &call, of_driver_with_maps);
    call_drop(&call);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Milliseconds a kernel
 * ------------------------------------------------------------------------------------------------------------- */

static const char *const texts[KERNELS] = {
    "fwd head_dim=128 activation=fast_gelu arch=sm_90a family=portable",
    "fwd head_dim=128 activation=silu arch=sm_90a family=portable",
    "fwd head_dim=128 activation=relu causal arch=sm_90a family=portable",
    "fwd head_dim=64 activation=gelu arch=sm_90a family=portable",
    "fwd head_dim=64 activation=silu causal layout_q=jagged layout_k=jagged arch=sm_90a family=portable",
    "fwd head_dim=96 activation=relu arch=sm_90a family=portable",
    "fwd head_dim=192 head_dim_v=128 activation=silu arch=sm_90a family=portable",
    "fwd head_dim=256 activation=relu arch=sm_90a family=portable",
};

static gdpa_ctx *context_on_disk(const struct bench *bench)
{
    gdpa_ctx *ctx = NULL;
    gdpa_ctx_options options = GDPA_CTX_OPTIONS_INIT;
    options.driver_path = bench->driver;
    options.cache_dir = bench->cache;
    options.mode = GDPA_MODE_AUTO;
    must(gdpa_ctx_create(&options, &ctx), "gdpa_ctx_create");
    return ctx;
}

/* Milliseconds from the call to a kernel that is loaded; negative when there is no compiler. */
static double time_kernel(gdpa_ctx *ctx, const char *text)
{
    gdpa_spec spec = GDPA_SPEC_INIT;
    gdpa_kernel *kernel = NULL;
    must(gdpa_spec_parse(text, &spec), text);
    const double start = now();
    const gdpa_status status = gdpa_kernel_get(ctx, &spec, &kernel);
    if (status == GDPA_E_NO_COMPILER) {
        return -1.0;
    }
    must(status, text);
    must(gdpa_kernel_prepare(kernel), text);
    const double milliseconds = (now() - start) * 1e3;
    gdpa_kernel_release(kernel);
    return milliseconds;
}

static void time_cache_and_compiler(const struct bench *bench)
{
    double values[KERNELS];
    gdpa_ctx *ctx = context_on_disk(bench);
    for (int i = 0; i < KERNELS; i++) {
        values[i] = time_kernel(ctx, texts[i]);
        if (values[i] < 0.0) {
            fprintf(stderr, "host: no compile and cache cases: %s\n", gdpa_last_error());
            gdpa_ctx_destroy(ctx);
            return;
        }
    }
    gdpa_ctx_destroy(ctx);
    report(bench, "compile/portable", median(values, KERNELS), "ms", KERNELS);
    double first[9], later[9 * (KERNELS - 1)];
    for (int round = 0; round < 9; round++) {
        ctx = context_on_disk(bench);
        first[round] = time_kernel(ctx, texts[0]);
        for (int i = 1; i < KERNELS; i++) {
            later[round * (KERNELS - 1) + i - 1] = time_kernel(ctx, texts[i]);
        }
        gdpa_ctx_destroy(ctx);
    }
    report(bench, "disk_hit/first_of_a_context", median(first, 9), "ms", 9);
    report(bench, "disk_hit/later", median(later, 9 * (KERNELS - 1)), "ms", 9L * (KERNELS - 1));
}

static void time_generator(const struct bench *bench)
{
    enum { ROUNDS = 201 };
    static char source[1 << 20];
    double values[ROUNDS];
    gdpa_spec spec = GDPA_SPEC_INIT;
    must(gdpa_spec_parse(texts[0], &spec), texts[0]);
    for (int i = 0; i < ROUNDS; i++) {
        size_t length = 0;
        const double start = now();
        must(gdpa_generate(&spec, GDPA_ARTIFACT_SOURCE, source, sizeof source, &length), "gdpa_generate");
        values[i] = (now() - start) * 1e3;
    }
    report(bench, "generate/source", median(values, ROUNDS), "ms", ROUNDS);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Surroundings
 * ------------------------------------------------------------------------------------------------------------- */

static void machine_name(char *name, size_t size)
{
    char line[512];
    snprintf(name, size, "unknown CPU, %ld CPUs", sysconf(_SC_NPROCESSORS_ONLN));
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon != NULL) {
            line[strcspn(line, "\n\"\\")] = '\0';
            snprintf(name, size, "%s, %ld CPUs", colon + 2, sysconf(_SC_NPROCESSORS_ONLN));
            break;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
}

static void folder_remove(const char *folder)
{
    DIR *directory = opendir(folder);
    for (struct dirent *entry = NULL; directory != NULL && (entry = readdir(directory)) != NULL;) {
        char path[8192];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.') {
            unlink(path);
        }
    }
    if (directory != NULL) {
        closedir(directory);
    }
    rmdir(folder);
}

int main(int argc, char **argv)
{
    static struct bench bench;
    if (argc < 2 || argc > 3 || (argc == 3 && strcmp(argv[2], "--json") != 0)) {
        fprintf(stderr, "usage: host FOLDER [--json]\n");
        return 2;
    }
    bench.json = argc == 3;
    snprintf(bench.driver, sizeof bench.driver, "%s/libfake_driver.so", argv[1]);
    snprintf(bench.nvrtc, sizeof bench.nvrtc, "%s/libfake_nvrtc.so", argv[1]);
    snprintf(bench.cache, sizeof bench.cache, "%s/gdpa-bench-XXXXXX",
             getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    if (mkdtemp(bench.cache) == NULL) {
        perror("host: no folder for a cache");
        return 1;
    }
    machine_name(bench.machine, sizeof bench.machine);
    const time_t seconds = time(NULL);
    struct tm utc;
    strftime(bench.date, sizeof bench.date, "%Y-%m-%d", gmtime_r(&seconds, &utc));
    time_hot_paths(&bench);
    time_generator(&bench);
    time_cache_and_compiler(&bench);
    folder_remove(bench.cache);
    return 0;
}
