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

struct call {
    gdpa_ctx *ctx;
    gdpa_spec spec;
    gdpa_args args;
    gdpa_kernel *kernel;
};

static void call_get(struct call *call)
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

static void time_calls(const struct bench *bench, const char *name, void (*run)(struct call *call), struct call *call)
{
    enum { CALLS = 2000 };
    double nanoseconds[BATCHES];
    for (int batch = 0; batch < BATCHES; batch++) {
        const double start = now();
        for (int i = 0; i < CALLS; i++) {
            run(call);
        }
        nanoseconds[batch] = (now() - start) * 1e9 / CALLS;
    }
    report(bench, name, median(nanoseconds, BATCHES), "ns", (long)BATCHES * CALLS);
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
    gdpa_kernel_release(call->kernel);
    gdpa_ctx_destroy(call->ctx);
}

/* The NULL stream needs a context that is current. */
static void device_make_current(const struct bench *bench)
{
    void *library = dlopen(bench->driver, RTLD_NOW);
    const struct fake_driver *control = library == NULL ? NULL : dlsym(library, "fake_driver");
    if (control == NULL) {
        fprintf(stderr, "host: %s: %s\n", bench->driver, dlerror());
        exit(1);
    }
    control->current(0);
}

static void time_hot_paths(const struct bench *bench)
{
    device_make_current(bench);
    struct call call = call_make(bench, "fwd head_dim=128 activation=silu arch=sm_90a family=portable");
    time_calls(bench, "kernel_get/hit", call_get, &call);
    time_calls(bench, "launch/portable", call_launch, &call);
    time_calls(bench, "forward/portable", call_forward, &call);
    call_drop(&call);
    call = call_make(bench, "fwd head_dim=128 activation=silu");
    time_calls(bench, "kernel_get/hit_arch_of_device", call_get, &call);
    call_drop(&call);
    call = call_make(bench, "fwd head_dim=128 activation=silu arch=sm_90a family=sm90");
    time_calls(bench, "launch/sm90", call_launch, &call);
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
