/*
 * Compiling a generated source; see compile.h. The options and why each is there: docs/decisions/061-nvrtc-options.md.
 */
#include "runtime/compile.h"
#include "runtime/elf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void __attribute__((format(printf, 2, 3))) option_add(struct compile_options *options, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = options->text[options->count];
    vsnprintf(text, sizeof options->text[0], format, arguments);
    va_end(arguments);
    options->list[options->count++] = text;
}

void compile_options_make(int nvrtc_major, int nvrtc_minor, const char *target, const char *seed,
                          struct compile_options *options)
{
    options->count = 0;
    option_add(options, "-arch=%s", target);
    option_add(options, "--std=c++17");
    option_add(options, "-default-device");
    option_add(options, "--no-source-include");        /* nothing is read from the working folder */
    option_add(options, "--modify-stack-limit=false"); /* it would change RLIMIT_STACK of the whole process */
    if (nvrtc_major > 12 || nvrtc_minor >= 9) {        /* refused by older ones, which have no cache of their own */
        option_add(options, "--no-cache");             /* its cache would initialise the driver */
        option_add(options, "--frandom-seed=%s", seed);
    }
    option_add(options, "-Xptxas=-v");
    option_add(options, "-Xptxas=--warn-on-spills");
    option_add(options, "-Xptxas=--warn-on-local-memory-usage");
}

/* The number in front of `unit` in the first line of [from, end) that has one; false when there is none. */
static bool number_before(const char *from, const char *end, const char *unit, int32_t *value)
{
    const char *at = strstr(from, unit);
    if (at == NULL || at >= end) {
        return false;
    }
    const char *digits = at;
    while (digits > from && digits[-1] >= '0' && digits[-1] <= '9') {
        digits--;
    }
    if (digits == at) {
        return false;
    }
    const long number = strtol(digits, NULL, 10);
    *value = number > INT32_MAX ? INT32_MAX : (int32_t)number;
    return true;
}

/* The log tells the bytes of a function with its properties, and once more in a warning, which does not count. */
static void spills_add(const char *log, const char *unit, int32_t *total)
{
    static const char warning[] = "ptxas warning";
    for (const char *at = strstr(log, unit); at != NULL; at = strstr(at + 1, unit)) {
        int32_t bytes = 0;
        const char *line = at;
        while (line > log && line[-1] != '\n') {
            line--;
        }
        if (strncmp(line, warning, strlen(warning)) != 0 && number_before(line, at + 1, unit, &bytes) &&
            *total <= INT32_MAX - bytes) {
            *total += bytes;
        }
    }
}

bool resources_parse(const char *log, const char *name, struct resources *resources)
{
    char heading[512];
    memset(resources, 0, sizeof *resources);
    if (log == NULL || (size_t)snprintf(heading, sizeof heading, "entry function '%s'", name) >= sizeof heading) {
        return false;
    }
    const char *from = strstr(log, heading);
    if (from == NULL) {
        return false;
    }
    const char *next = strstr(from + 1, "Compiling entry function");
    const char *end = next == NULL ? from + strlen(from) : next;
    if (!number_before(from, end, " registers", &resources->registers)) {
        return false;
    }
    number_before(from, end, " bytes smem", &resources->smem_static);
    char properties[512];
    snprintf(properties, sizeof properties, "Function properties for %s\n", name);
    const char *own = strstr(from, properties);
    if (own != NULL && own < end) {
        number_before(own + strlen(properties), end, " bytes stack frame", &resources->stack_bytes);
    }
    spills_add(log, " bytes spill stores", &resources->spill_bytes);
    spills_add(log, " bytes spill loads", &resources->spill_bytes);
    return true;
}

static double milliseconds_since(const struct timespec *start)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) * 1e3 + (double)(now.tv_nsec - start->tv_nsec) * 1e-6;
}

gdpa_status compile_source(const struct nvrtc *nvrtc, const struct compile_request *request,
                           struct compile_result *result, struct sbuf *why)
{
    memset(result, 0, sizeof *result);
    TRY(nvrtc_supports(nvrtc, request->arch, why));
    struct compile_options options;
    compile_options_make(nvrtc->major, nvrtc->minor, request->target, request->source_hash, &options);
    char file_name[512];
    snprintf(file_name, sizeof file_name, "%s.cu", request->name);
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    TRY(nvrtc_compile(nvrtc, request->source, file_name, options.list, options.count, &result->output, why));
    result->milliseconds = milliseconds_since(&start);
    const struct cubin_expectation expected = {
        .arch = request->arch, .target = request->target, .entry = request->name};
    struct sbuf wrong;
    sbuf_init(&wrong, 1024);
    const bool good = cubin_check(result->output.cubin, result->output.cubin_size, &expected, &wrong) == GDPA_OK;
    if (!good) {
        fail(why, GDPA_E_COMPILE, "NVRTC %s (%s) made code of %s that is not what was asked for: %s", nvrtc->version,
             nvrtc->path, request->name, wrong.text);
    }
    sbuf_deinit(&wrong);
    if (!good) {
        return GDPA_E_COMPILE;
    }
    if (!resources_parse(result->output.log, request->name, &result->resources)) {
        return fail(why, GDPA_E_COMPILE, "the log of NVRTC %s does not state the resources of %s:\n%s", nvrtc->version,
                    request->name, result->output.log == NULL ? "" : result->output.log);
    }
    return GDPA_OK;
}

void compile_result_deinit(struct compile_result *result)
{
    nvrtc_output_deinit(&result->output);
}
