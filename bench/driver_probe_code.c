/*
 * driver-probe: experiments on code. What the driver does with bad cubins, what loading costs, what the suffix of an
 * architecture changes, what the compiler does to a process and how it scales.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#endif
#include "bench/driver_probe.h"
#include "include/gdpajit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COMPUTE_MAJOR = 75, COMPUTE_MINOR = 76, FLIPS = 300, LOADS = 15 };

/* A kernel "k" of about `steps` instructions. */
static char *source_of(int steps)
{
    char *source = malloc(1024);
    if (source != NULL) {
        snprintf(source, 1024,
                 "extern \"C\" __global__ void k(float *p, int n)\n{\n    float x = n, y = n * 0.5f;\n"
                 "    if (n >= 0) { return; }\n#pragma unroll\n"
                 "    for (int i = 0; i < %d; i++) { x = x * y + (float)(i * 7 + 3); }\n    p[threadIdx.x] = x;\n}\n",
                 steps);
    }
    return source;
}

static int capability_read(void)
{
    int device = 0, major = 0, minor = 0;
    if (!driver_load() || calls->init(0) != 0 || calls->device_get(&device, 0) != 0) {
        return 0;
    }
    calls->device_attribute(&major, COMPUTE_MAJOR, device);
    calls->device_attribute(&minor, COMPUTE_MINOR, device);
    char name[128] = "";
    int version = 0;
    calls->device_name(name, sizeof name, device);
    calls->version(&version);
    answer("machine", "device", "%s, compute capability %d.%d", name, major, minor);
    answer("machine", "driver", "CUDA %d.%d", version / 1000, version % 1000 / 10);
    return major * 10 + minor;
}

static void code_make(int which, int steps, const char *arch)
{
    size_t size = 0;
    char *source = source_of(steps);
    char *cubin = source == NULL ? NULL : compile_cubin(source, arch, "--no-cache", &size);
    if (cubin != NULL && size <= sizeof shared->code[which].bytes) {
        memcpy(shared->code[which].bytes, cubin, size);
        shared->code[which].size = size;
    } else {
        answer("compile", arch, "%s", cubin == NULL ? "does not compile" : "too large");
    }
    free(cubin);
    free(source);
}

void probe_compile(void)
{
    char own[16], plain[16];
    int major = 0, minor = 0;
    shared->capability = capability_read();
    const int capability = shared->capability != 0 ? shared->capability : 90;
    if (!nvrtc_load()) {
        return;
    }
    calls->nvrtc_version(&major, &minor);
    answer("machine", "nvrtc", "%d.%d", major, minor);
    snprintf(own, sizeof own, "sm_%d%s", capability, capability >= 90 ? "a" : "");
    snprintf(plain, sizeof plain, "sm_%d", capability);
    code_make(CODE_SMALL, 8, own);
    code_make(CODE_MIDDLE, 3000, own);
    code_make(CODE_LARGE, 12000, own);
    code_make(CODE_PLAIN_ARCH, 8, plain);
    code_make(CODE_OLDER_ARCH, 8, "sm_80");
    code_make(CODE_NEWER_ARCH, 8, capability >= 120 ? "sm_90a" : "sm_120");
}

/* ---------------------------------------------------------------------------------------------------------------
 * 1: bad code
 * ------------------------------------------------------------------------------------------------------------- */

/* A copy that ends where a page ends, behind which nothing can be read: a look beyond the end is a crash. */
static char *at_the_edge(const void *bytes, size_t size)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (size + page - 1) / page * page;
    char *memory = mmap(NULL, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        abort();
    }
    mprotect(memory + whole, page, PROT_NONE);
    memcpy(memory + whole - size, bytes, size);
    return memory + whole - size;
}

/* Loads as the library does, without a launch: code that was damaged must not run. */
static int load_all(const void *code)
{
    void *library = NULL, *kernel = NULL, *function = NULL;
    int result = code_load(code, &library, &kernel);
    if (result == 0) {
        result = calls->kernel_function(&function, kernel);
    }
    if (result == 0 && calls->function_load != NULL) {
        result = calls->function_load(function);
    }
    if (library != NULL) {
        calls->library_unload(library);
    }
    return result;
}

static void try_truncated(int part)
{
    static const char *const keys[] = {"16 bytes",       "64 bytes",       "a quarter", "half",
                                       "three quarters", "all but 1 byte", "whole"};
    const struct probe_code *code = &shared->code[CODE_SMALL];
    const size_t sizes[] = {16, 64, code->size / 4, code->size / 2, code->size / 4 * 3, code->size - 1, code->size};
    char key[64];
    snprintf(key, sizeof key, "truncated to %s", keys[part]);
    snprintf(shared->doing, sizeof shared->doing, "%s", key);
    answer("bad_code", key, "%s", result_name(load_all(at_the_edge(code->bytes, sizes[part]))));
}

static void try_other(int which)
{
    static const char zeros[4096], text[4096] = "This is no code at all, but it is long enough to look at.";
    static const char *const keys[] = {"zeros", "text", "plain arch", "sm_80", "sm_120 (or sm_90a)"};
    const void *const codes[] = {zeros, text, shared->code[CODE_PLAIN_ARCH].bytes, shared->code[CODE_OLDER_ARCH].bytes,
                                 shared->code[CODE_NEWER_ARCH].bytes};
    snprintf(shared->doing, sizeof shared->doing, "%s", keys[which]);
    answer("bad_code", keys[which], "%s", result_name(load_all(codes[which])));
}

struct flip_tally {
    int loaded, refused, results[1024];
};

static void try_flip(int number, struct flip_tally *tally)
{
    const struct probe_code *code = &shared->code[CODE_SMALL];
    const size_t bit = (size_t)number * 2654435761u % (code->size * 8);
    char *copy = at_the_edge(code->bytes, code->size);
    copy[bit / 8] ^= (char)(1 << bit % 8);
    snprintf(shared->doing, sizeof shared->doing, "bit %zu of byte %zu of %zu flipped", bit % 8, bit / 8, code->size);
    const int result = load_all(copy);
    tally->loaded += result == 0;
    tally->refused += result != 0;
    if (result > 0 && result < 1024) {
        tally->results[result]++;
    }
}

void probe_bad_code(void)
{
    enum { TRUNCATED = 7, OTHER = 5 };
    static struct flip_tally tally;
    void *stream = NULL;
    if (shared->code[CODE_SMALL].size == 0 || !device_open("bad_code", &stream)) {
        return;
    }
    for (; shared->position < TRUNCATED + OTHER + FLIPS; shared->position++) {
        if (shared->position < TRUNCATED) {
            try_truncated(shared->position);
        } else if (shared->position < TRUNCATED + OTHER) {
            try_other(shared->position - TRUNCATED);
        } else {
            try_flip(shared->position - TRUNCATED - OTHER, &tally);
        }
    }
    answer("bad_code", "flips since the last crash", "%d loaded without an error, %d refused", tally.loaded,
           tally.refused);
    for (int i = 0; i < 1024; i++) {
        if (tally.results[i] > 0) {
            answer("bad_code", result_name(i), "%d flips", tally.results[i]);
        }
    }
    answer("bad_code", "crashes in all", "%d", shared->crashes);
}

/* ---------------------------------------------------------------------------------------------------------------
 * 2: what loading costs
 * ------------------------------------------------------------------------------------------------------------- */

struct load_times {
    double load[LOADS], find[LOADS], function[LOADS];
};

static bool load_timed(const void *code, int round, struct load_times *times, void **library)
{
    void *kernel = NULL, *function = NULL;
    const double start = seconds_now();
    bool good = calls->library_load(library, code, NULL, NULL, 0, NULL, NULL, 0) == 0;
    const double loaded = seconds_now();
    good = good && calls->library_kernel(&kernel, *library, "k") == 0;
    const double found = seconds_now();
    good = good && calls->kernel_function(&function, kernel) == 0 &&
           (calls->function_load == NULL || calls->function_load(function) == 0);
    times->load[round] = loaded - start;
    times->find[round] = found - loaded;
    times->function[round] = seconds_now() - found;
    return good;
}

static void load_cost(const struct probe_code *code)
{
    static struct load_times times;
    void *libraries[LOADS] = {NULL};
    size_t before = 0, after = 0, total = 0;
    char key[64];
    calls->memory_info(&before, &total);
    bool good = true;
    for (int i = 0; i < LOADS && good; i++) {
        good = load_timed(code->bytes, i, &times, &libraries[i]);
    }
    calls->memory_info(&after, &total);
    snprintf(key, sizeof key, "code of %zu bytes", code->size);
    if (good) {
        answer("load_cost", key, "load %.1f us, find %.1f us, function %.1f us, %.1f KiB of device memory each",
               median_of(times.load, LOADS) * 1e6, median_of(times.find, LOADS) * 1e6,
               median_of(times.function, LOADS) * 1e6, (double)(before - after) / 1024.0 / LOADS);
    }
    for (int i = 0; i < LOADS; i++) {
        if (libraries[i] != NULL) {
            calls->library_unload(libraries[i]);
        }
    }
}

void probe_load_cost(void)
{
    void *stream = NULL;
    if (!device_open("load_cost", &stream)) {
        return;
    }
    for (int i = CODE_SMALL; i <= CODE_LARGE; i++) {
        if (shared->code[i].size > 0) {
            load_cost(&shared->code[i]);
        }
    }
}

/* ---------------------------------------------------------------------------------------------------------------
 * 5: does compiling start CUDA
 * ------------------------------------------------------------------------------------------------------------- */

static bool maps_name(const char *part)
{
    char line[4096];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && !found && fgets(line, sizeof line, maps) != NULL) {
        found = strstr(line, part) != NULL;
    }
    if (maps != NULL) {
        fclose(maps);
    }
    return found;
}

static int devices_open(void)
{
    int count = 0;
    for (int i = 3; i < 256; i++) {
        char path[64], target[256];
        snprintf(path, sizeof path, "/proc/self/fd/%d", i);
        const ssize_t length = readlink(path, target, sizeof target - 1);
        if (length > 0) {
            target[length] = '\0';
            count += strncmp(target, "/dev/nvidia", 11) == 0;
        }
    }
    return count;
}

/* cuInit in a child of a process that has compiled: what a program sees that forks workers. */
static int init_after_fork(void)
{
    const pid_t child = fork();
    if (child == 0) {
        _exit(driver_load() ? calls->init(0) & 0x7f : 0x7f);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void compile_and_look(const char *key, const char *option)
{
    size_t size = 0;
    char text[32];
    char *source = source_of(40 + (int)strlen(key)); /* not in any cache */
    snprintf(text, sizeof text, "%d", (int)getpid());
    if (source == NULL) {
        return;
    }
    char *cubin = compile_cubin(source, "sm_90a", option, &size);
    const bool loaded = maps_name("libcuda.so");
    const int devices = devices_open(), init = init_after_fork();
    answer("nvrtc_and_cuda", key, "%s; libcuda %s, %d device files open, cuInit in a fork afterwards: %d",
           cubin == NULL ? "does not compile" : "compiled", loaded ? "loaded" : "not loaded", devices, init);
    free(cubin);
    free(source);
}

void probe_nvrtc_and_cuda(void)
{
    if (!nvrtc_load()) {
        return;
    }
    compile_and_look("with --no-cache", "--no-cache");
    compile_and_look("without --no-cache", NULL);
}

/* ---------------------------------------------------------------------------------------------------------------
 * 8: compiles side by side
 * ------------------------------------------------------------------------------------------------------------- */

static char real_source[1 << 20];

static void *compile_thread(void *user)
{
    size_t size = 0;
    char *cubin = compile_cubin(real_source, "sm_90a", "--no-cache", &size);
    (void)user;
    void *good = cubin == NULL ? NULL : real_source;
    free(cubin);
    return good;
}

static void compile_side_by_side(int threads)
{
    pthread_t handles[16];
    char key[32];
    int good = 0, started = 0;
    const double start = seconds_now();
    for (; started < threads; started++) {
        if (pthread_create(&handles[started], NULL, compile_thread, NULL) != 0) {
            break;
        }
    }
    for (int i = 0; i < started; i++) {
        void *result = NULL;
        pthread_join(handles[i], &result);
        good += result != NULL;
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    snprintf(key, sizeof key, "%d threads", threads);
    answer("compile_threads", key, "%.2f s, %d of %d compiled, %.2f s of processors, peak of the process %.0f MiB",
           seconds_now() - start, good, threads, (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec * 1e-6,
           (double)usage.ru_maxrss / 1024.0);
}

/* One process for each number, so that each has its own peak. */
void probe_compile_threads(void)
{
    gdpa_spec spec = GDPA_SPEC_INIT;
    size_t length = 0;
    if (!nvrtc_load() ||
        gdpa_spec_parse("fwd head_dim=128 activation=silu arch=sm_90a family=sm90", &spec) != GDPA_OK ||
        gdpa_generate(&spec, GDPA_ARTIFACT_SOURCE, real_source, sizeof real_source, &length) != GDPA_OK) {
        return;
    }
    for (int threads = 1; threads <= 16; threads *= 2) {
        snprintf(shared->doing, sizeof shared->doing, "%d threads", threads);
        fflush(stdout);
        const pid_t child = fork();
        if (child == 0) {
            compile_side_by_side(threads);
            fflush(stdout);
            _exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (WIFSIGNALED(status)) {
            answer("compile_threads", shared->doing, "CRASHED (signal %d)", WTERMSIG(status));
        }
    }
}
