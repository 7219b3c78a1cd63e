/*
 * driver-probe: asks the CUDA driver and NVRTC of this machine what their manuals leave open, and what the library
 * relies on. Every experiment runs in a child process, so that a crash or a hang is an answer too.
 *
 *     driver-probe [--nvrtc FILE] [--driver FILE] [--only NAME]
 *
 * A line for each answer, then the same as JSON lines. Needs no toolkit, takes some 40 s, and writes nothing.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#endif
#include "bench/driver_probe.h"

#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TOTAL_LIMIT_S = 58, RECORD_MARK = 1, MOST_CRASHES = 20 };

static struct probe_calls loaded;
struct probe_calls *const calls = &loaded;
struct probe_shared *shared;
const char *nvrtc_path, *driver_path;

static const struct experiment {
    const char *name;
    void (*run)(void);
    int limit_s;
    bool goes_on; /* behind a crash, from shared->position on */
} experiments[] = {
    {"compile", probe_compile, 30, false},
    {"bad_code", probe_bad_code, 20, true},
    {"load_cost", probe_load_cost, 10, false},
    {"launch_cost", probe_launch_cost, 10, false},
    {"capture", probe_capture, 10, false},
    {"nvrtc_and_cuda", probe_nvrtc_and_cuda, 10, false},
    {"reset", probe_reset, 10, false},
    {"second_device", probe_second_device, 10, false},
    {"arch_suffix", probe_arch_suffix, 10, false},
    {"compile_threads", probe_compile_threads, 25, false},
};

static char records[1 << 18];
static size_t records_length;

double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median_of(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    return values[count / 2];
}

/* Texts here hold no quotes; those of the driver might. */
static void record_write(const char *probe, const char *key, const char *text)
{
    char clean[1024];
    size_t length = 0;
    for (; *text != '\0' && length + 1 < sizeof clean; text++) {
        clean[length++] = *text == '"' || *text == '\\' || (unsigned char)*text < 32 ? ' ' : *text;
    }
    clean[length] = '\0';
    printf("%c{\"probe\":\"%s\",\"key\":\"%s\",\"answer\":\"%s\"}\n", RECORD_MARK, probe, key, clean);
}

void answer(const char *probe, const char *key, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    printf("%-16s %-34s %s\n", probe, key, text);
    record_write(probe, key, text);
    fflush(stdout);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Driver and compiler
 * ------------------------------------------------------------------------------------------------------------- */

bool driver_load(void)
{
    void *handle = dlopen(driver_path != NULL ? driver_path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
#define LOAD(name, symbol, parameters) *(void **)&calls->name = handle == NULL ? NULL : dlsym(handle, #symbol);
    PROBE_DRIVER(LOAD)
    if (calls->init == NULL || calls->library_load == NULL || calls->launch_ex == NULL) {
        if (shared->silent) {
            return false;
        }
        shared->silent = true;
        answer("driver", "load", "no usable driver: %s", handle == NULL ? dlerror() : "functions are missing");
        return false;
    }
    return true;
}

static void *nvrtc_open_any(void)
{
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so.13",
                                        "/usr/local/cuda/lib64/libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so"};
    void *handle = nvrtc_path != NULL ? dlopen(nvrtc_path, RTLD_NOW | RTLD_LOCAL) : NULL;
    for (size_t i = 0; handle == NULL && nvrtc_path == NULL && i < sizeof names / sizeof names[0]; i++) {
        handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    }
    return handle;
}

bool nvrtc_load(void)
{
    void *handle = nvrtc_open_any();
    PROBE_NVRTC(LOAD)
#undef LOAD
    if (calls->compile == NULL || calls->cubin == NULL) {
        answer("nvrtc", "load", "no usable NVRTC: %s", handle == NULL ? dlerror() : "functions are missing");
        return false;
    }
    return true;
}

const char *result_name(int result)
{
    static char unknown[32];
    const char *name = NULL;
    if (calls->error_name != NULL && calls->error_name(result, &name) == 0 && name != NULL) {
        return name;
    }
    snprintf(unknown, sizeof unknown, "error %d", result);
    return unknown;
}

bool device_open(const char *probe, void **stream)
{
    void *context = NULL;
    if (shared->capability == 0) {
        return false; /* said once */
    }
    int device = 0, result = driver_load() ? calls->init(0) : -1;
    result = result == 0 ? calls->device_get(&device, 0) : result;
    result = result == 0 ? calls->context_retain(&context, device) : result;
    result = result == 0 ? calls->context_set(context) : result;
    result = result == 0 ? calls->stream_create(stream, 1) : result; /* non-blocking */
    if (result != 0) {
        answer(probe, "device", "cannot be opened: %s", result_name(result));
    }
    return result == 0;
}

char *compile_cubin(const char *source, const char *arch, const char *more, size_t *size)
{
    char arch_option[64];
    void *program = NULL;
    char *cubin = NULL;
    snprintf(arch_option, sizeof arch_option, "-arch=%s", arch);
    const char *const options[] = {arch_option, "--std=c++17", "-default-device", more};
    if (calls->create(&program, source, "probe.cu", 0, NULL, NULL) != 0) {
        return NULL;
    }
    if (calls->compile(program, more == NULL ? 3 : 4, options) == 0 && calls->cubin_size(program, size) == 0 && *size > 0) {
        cubin = malloc(*size);
        if (cubin != NULL && calls->cubin(program, cubin) != 0) {
            free(cubin);
            cubin = NULL;
        }
    }
    calls->destroy(&program);
    return cubin;
}

int code_load(const void *code, void **library, void **kernel)
{
    const int result = calls->library_load(library, code, NULL, NULL, 0, NULL, NULL, 0);
    return result != 0 ? result : calls->library_kernel(kernel, *library, "k");
}

/* ---------------------------------------------------------------------------------------------------------------
 * Children
 * ------------------------------------------------------------------------------------------------------------- */

/* Lines go out at once; records are kept for the end. */
static void lines_take(FILE *from)
{
    char line[4096];
    while (fgets(line, sizeof line, from) != NULL) {
        const size_t length = strlen(line);
        if (line[0] != RECORD_MARK) {
            fputs(line, stdout);
        } else if (records_length + length < sizeof records) {
            memcpy(records + records_length, line + 1, length - 1);
            records_length += length - 1;
        }
    }
    fflush(stdout);
}

/* The wait status of the child. Its output lies in an unnamed file, so that one that hangs blocks nobody. */
static int child_run(const struct experiment *experiment, double limit_s)
{
    FILE *output = tmpfile();
    fflush(stdout);
    const pid_t child = output == NULL ? -1 : fork();
    if (child == 0) {
        dup2(fileno(output), STDOUT_FILENO);
        experiment->run();
        fflush(stdout);
        _exit(0);
    }
    int status = -1;
    const double end = seconds_now() + limit_s;
    while (child > 0 && waitpid(child, &status, WNOHANG) == 0) {
        if (seconds_now() > end) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            break;
        }
        poll(NULL, 0, 5);
    }
    if (output != NULL) {
        rewind(output);
        lines_take(output);
        fclose(output);
    }
    return status;
}

/* The parent's own answers come out as those of a child do. */
static void parent_answer(const char *probe, const char *key, const char *text)
{
    printf("%-16s %-34s %s\n", probe, key, text);
    records_length += (size_t)snprintf(records + records_length, sizeof records - records_length,
                                       "{\"probe\":\"%s\",\"key\":\"%s\",\"answer\":\"%s\"}\n", probe, key, text);
}

static void experiment_run(const struct experiment *experiment, double end)
{
    shared->position = 0;
    shared->crashes = 0;
    for (bool again = true; again;) {
        const double left = end - seconds_now();
        if (left < 1) {
            parent_answer(experiment->name, "end", "left out: the time is over");
            return;
        }
        snprintf(shared->doing, sizeof shared->doing, "begin");
        const int status = child_run(experiment, left < experiment->limit_s ? left : experiment->limit_s);
        again = false;
        if (WIFSIGNALED(status)) {
            char text[256];
            const int signal_number = WTERMSIG(status);
            snprintf(text, sizeof text, "%s (signal %d) in: %s",
                     signal_number == SIGKILL ? "hung and was killed" : "CRASHED", signal_number, shared->doing);
            parent_answer(experiment->name, "end", text);
            shared->crashes++;
            shared->position++;
            if (shared->crashes == MOST_CRASHES) {
                snprintf(text, sizeof text, "%d crashes are enough, in %d attempts", shared->crashes, shared->position);
                parent_answer(experiment->name, "end", text);
            }
            again = experiment->goes_on && signal_number != SIGKILL && shared->crashes < MOST_CRASHES;
        }
    }
}

int main(int argc, char **argv)
{
    const char *only = NULL;
    const double end = seconds_now() + TOTAL_LIMIT_S;
    for (int i = 1; i + 1 < argc; i += 2) {
        const char **option = strcmp(argv[i], "--nvrtc") == 0    ? &nvrtc_path
                              : strcmp(argv[i], "--driver") == 0 ? &driver_path
                              : strcmp(argv[i], "--only") == 0   ? &only
                                                                 : NULL;
        if (option == NULL) {
            argc = 0;
            break;
        }
        *option = argv[i + 1];
    }
    if (argc % 2 == 0) {
        fprintf(stderr, "usage: driver-probe [--nvrtc FILE] [--driver FILE] [--only NAME]\n");
        return 2;
    }
    nvrtc_path = nvrtc_path != NULL ? nvrtc_path : getenv("GDPAJIT_NVRTC");
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        perror("driver-probe: no memory");
        return 1;
    }
    for (size_t i = 0; i < sizeof experiments / sizeof experiments[0]; i++) {
        if (only == NULL || i == 0 || strcmp(only, experiments[i].name) == 0) {
            experiment_run(&experiments[i], end);
        }
    }
    fwrite(records, 1, records_length, stdout);
    return 0;
}
