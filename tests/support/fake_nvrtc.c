/*
 * libfake_nvrtc.so; see fake_nvrtc.h.
 */
#include "tests/support/fake_nvrtc.h"
#include "tests/support/cubin_maker.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))
#define OPTIONS_MAX 32
#define ARCHS_MAX 32

enum { OK = 0, OUT_OF_MEMORY = 1, INVALID_INPUT = 3, INVALID_PROGRAM = 4, INVALID_OPTION = 5, COMPILATION = 6 };

#define FUNCTIONS(X)                                                                                                   \
    X(nvrtcVersion)                                                                                                    \
    X(nvrtcGetNumSupportedArchs)                                                                                       \
    X(nvrtcGetSupportedArchs)                                                                                          \
    X(nvrtcCreateProgram)                                                                                              \
    X(nvrtcDestroyProgram)                                                                                             \
    X(nvrtcCompileProgram)                                                                                             \
    X(nvrtcGetCUBINSize)                                                                                               \
    X(nvrtcGetCUBIN)                                                                                                   \
    X(nvrtcGetPTXSize)                                                                                                 \
    X(nvrtcGetPTX)                                                                                                     \
    X(nvrtcGetProgramLogSize)                                                                                          \
    X(nvrtcGetProgramLog)                                                                                              \
    X(nvrtcGetErrorString)

enum function {
#define FUNCTION_ENUM(name) F_##name,
    FUNCTIONS(FUNCTION_ENUM)
#undef FUNCTION_ENUM
        FUNCTION_COUNT
};

static const char *const function_names[FUNCTION_COUNT] = {
#define FUNCTION_NAME(name) #name,
    FUNCTIONS(FUNCTION_NAME)
#undef FUNCTION_NAME
};

struct program {
    char name[512];
    char *source;
    unsigned char *cubin;
    size_t cubin_size;
    char *ptx, *log;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
    int major, minor, arch_count, archs[ARCHS_MAX];
    int result[FUNCTION_COUNT];
    long calls[FUNCTION_COUNT], programs;
    enum fake_output output;
    int delay, seed, option_count;
    int at_a_time, most_at_a_time; /* compiles */
    char options[OPTIONS_MAX][128];
} state;

/* ---------------------------------------------------------------------------------------------------------------
 * Control
 * ------------------------------------------------------------------------------------------------------------- */

static int function_find(const char *name)
{
    for (int i = 0; i < FUNCTION_COUNT; i++) {
        if (strcmp(function_names[i], name) == 0) {
            return i;
        }
    }
    fprintf(stderr, "fake_nvrtc: there is no function %s\n", name);
    abort();
}

static void reset_unlocked(void)
{
    static const int archs[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};
    const long programs = state.programs;
    memset(&state, 0, sizeof state);
    state.programs = programs;
    state.major = 13;
    state.arch_count = (int)(sizeof archs / sizeof archs[0]);
    memcpy(state.archs, archs, sizeof archs);
    const char *version = getenv("FAKE_NVRTC_VERSION");
    if (version != NULL) {
        char *end = NULL;
        state.major = (int)strtol(version, &end, 10);
        state.minor = *end == '.' ? (int)strtol(end + 1, NULL, 10) : 0;
    }
    const char *list = getenv("FAKE_NVRTC_ARCHS");
    for (state.arch_count = list != NULL ? 0 : state.arch_count;
         list != NULL && *list != '\0' && state.arch_count < ARCHS_MAX;) {
        char *end = NULL;
        state.archs[state.arch_count++] = (int)strtol(list, &end, 10);
        list = *end == ',' ? end + 1 : end + strlen(end);
    }
    const char *fault = getenv("FAKE_NVRTC_FAIL");
    state.result[F_nvrtcCompileProgram] = fault != NULL ? atoi(fault) : OK;
}

/* The real one can be used in a child although another thread was in it. */
static void in_child(void)
{
    pthread_mutex_init(&lock, NULL);
}

static void __attribute__((constructor)) begin(void)
{
    reset_unlocked();
    pthread_atfork(NULL, NULL, in_child);
}

static void control_reset(void)
{
    pthread_mutex_lock(&lock);
    reset_unlocked();
    pthread_mutex_unlock(&lock);
}

static void control_version(int major, int minor)
{
    pthread_mutex_lock(&lock);
    state.major = major;
    state.minor = minor;
    pthread_mutex_unlock(&lock);
}

static void control_archs(int count, const int *archs)
{
    pthread_mutex_lock(&lock);
    state.arch_count = count;
    for (int i = 0; i < count && i < ARCHS_MAX; i++) {
        state.archs[i] = archs[i];
    }
    pthread_mutex_unlock(&lock);
}

static void control_fail(const char *name, int result)
{
    const int function = function_find(name);
    pthread_mutex_lock(&lock);
    state.result[function] = result;
    pthread_mutex_unlock(&lock);
}

static void control_output(enum fake_output output)
{
    pthread_mutex_lock(&lock);
    state.output = output;
    pthread_mutex_unlock(&lock);
}

static int control_most_at_a_time(void)
{
    pthread_mutex_lock(&lock);
    const int most = state.most_at_a_time;
    pthread_mutex_unlock(&lock);
    return most;
}

static void control_delay(int milliseconds)
{
    pthread_mutex_lock(&lock);
    state.delay = milliseconds;
    pthread_mutex_unlock(&lock);
}

static long control_calls(const char *name)
{
    const int function = function_find(name);
    pthread_mutex_lock(&lock);
    const long calls = state.calls[function];
    pthread_mutex_unlock(&lock);
    return calls;
}

static long control_programs(void)
{
    pthread_mutex_lock(&lock);
    const long programs = state.programs;
    pthread_mutex_unlock(&lock);
    return programs;
}

static bool control_option_seen(const char *option)
{
    bool seen = false;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < state.option_count; i++) {
        seen = seen || strcmp(state.options[i], option) == 0;
    }
    pthread_mutex_unlock(&lock);
    return seen;
}

static void control_seed(int seed)
{
    pthread_mutex_lock(&lock);
    state.seed = seed;
    pthread_mutex_unlock(&lock);
}

extern const struct fake_nvrtc fake_nvrtc;
EXPORT const struct fake_nvrtc fake_nvrtc = {
    control_reset, control_version,  control_archs,       control_fail, control_output,        control_delay,
    control_calls, control_programs, control_option_seen, control_seed, control_most_at_a_time};

/* ---------------------------------------------------------------------------------------------------------------
 * NVRTC
 * ------------------------------------------------------------------------------------------------------------- */

static int enter(enum function function)
{
    pthread_mutex_lock(&lock);
    state.calls[function]++;
    return state.result[function];
}

static int leave(int result)
{
    pthread_mutex_unlock(&lock);
    return result;
}

/* What is exported has a prototype, though nothing includes one. */
#define NVRTC(type, name, parameters)                                                                                  \
    type name parameters;                                                                                              \
    EXPORT type name parameters

NVRTC(int, nvrtcVersion, (int *major, int *minor))
{
    const int result = enter(F_nvrtcVersion);
    *major = state.major;
    *minor = state.minor;
    return leave(result);
}

NVRTC(int, nvrtcGetNumSupportedArchs, (int *count))
{
    const int result = enter(F_nvrtcGetNumSupportedArchs);
    *count = state.arch_count;
    return leave(result);
}

NVRTC(int, nvrtcGetSupportedArchs, (int *archs))
{
    const int result = enter(F_nvrtcGetSupportedArchs);
    for (int i = 0; i < state.arch_count && i < ARCHS_MAX; i++) {
        archs[i] = state.archs[i];
    }
    return leave(result);
}

NVRTC(int, nvrtcCreateProgram,
      (void **program, const char *source, const char *name, int header_count, const char *const *headers,
       const char *const *include_names))
{
    int result = enter(F_nvrtcCreateProgram);
    if (result == OK && (source == NULL || header_count != 0 || headers != NULL || include_names != NULL)) {
        result = INVALID_INPUT;
    }
    struct program *made = result == OK ? calloc(1, sizeof *made) : NULL;
    if (made != NULL) {
        snprintf(made->name, sizeof made->name, "%s", name);
        made->source = strdup(source);
        state.programs++;
        *program = made;
    }
    return leave(result);
}

NVRTC(int, nvrtcDestroyProgram, (void **handle))
{
    const int result = enter(F_nvrtcDestroyProgram);
    struct program *program = *handle;
    free(program->source);
    free(program->cubin);
    free(program->ptx);
    free(program->log);
    free(program);
    *handle = NULL;
    state.programs--;
    return leave(result);
}

/* As old versions do: options that came with 12.9 are refused before. */
static const char *option_refused(int option_count, const char *const *options)
{
    const bool old = state.major == 12 && state.minor < 9;
    for (int i = 0; i < option_count; i++) {
        if (old && (strcmp(options[i], "--no-cache") == 0 || strncmp(options[i], "--frandom-seed", 14) == 0)) {
            return options[i];
        }
    }
    return NULL;
}

static void __attribute__((format(printf, 2, 3))) log_set(struct program *program, const char *format, ...)
{
    enum { LOG_SIZE = 2048 };
    program->log = malloc(LOG_SIZE);
    if (program->log != NULL) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(program->log, LOG_SIZE, format, arguments);
        va_end(arguments);
    }
}

/* As `ptxas -v` writes it. */
static void resources_log(struct program *program, const char *entry, int spill_stores, int spill_loads, int registers)
{
    log_set(program,
            "ptxas info    : 0 bytes gmem\n"
            "ptxas info    : Compiling entry function '%s' for 'sm_fake'\n"
            "ptxas info    : Function properties for %s\n"
            "    8 bytes stack frame, %d bytes spill stores, %d bytes spill loads\n"
            "ptxas info    : Used %d registers, used 1 barriers, 16 bytes smem\n",
            entry, entry, spill_stores, spill_loads, registers);
}

static const char *target_of(int option_count, const char *const *options)
{
    for (int i = 0; i < option_count; i++) {
        if (strncmp(options[i], "-arch=", 6) == 0) {
            return options[i] + 6;
        }
    }
    return "sm_00";
}

/* The result of a compile that does not fail. */
static void outputs_make(struct program *program, const char *target, const char *entry)
{
    const struct cubin_recipe recipe = {.entry = state.output == FAKE_OUTPUT_WRONG_ENTRY ? "another_kernel" : entry,
                                        .target = state.output == FAKE_OUTPUT_WRONG_TARGET ? "sm_75" : target,
                                        .abi = state.major >= 13 ? 8 : 7,
                                        .text_size = 4096,
                                        .fill = (uint8_t)state.seed};
    if (state.output != FAKE_OUTPUT_NO_CUBIN) {
        program->cubin = cubin_make(&recipe, &program->cubin_size);
        program->cubin_size -= state.output == FAKE_OUTPUT_TRUNCATED ? 100 : 0;
    }
    program->ptx = malloc(256);
    if (program->ptx != NULL) {
        snprintf(program->ptx, 256, "// fake PTX\n.target %.32s\n", target);
    }
    if (state.output == FAKE_OUTPUT_NO_RESOURCES) {
        log_set(program, "nothing to say about %s\n", entry);
    } else if (state.output == FAKE_OUTPUT_SPILLS) {
        resources_log(program, entry, 24, 40, 255);
    } else {
        resources_log(program, entry, 0, 0, 42);
    }
}

static int compile(struct program *program, int result, int option_count, const char *const *options)
{
    state.option_count = option_count < OPTIONS_MAX ? option_count : OPTIONS_MAX;
    for (int i = 0; i < state.option_count; i++) {
        snprintf(state.options[i], sizeof state.options[i], "%s", options[i]);
    }
    const char *refused = option_refused(option_count, options);
    if (refused != NULL) {
        log_set(program, "nvrtc: error: unrecognized option %s found\n", refused);
        return INVALID_OPTION;
    }
    if (result != OK) {
        log_set(program, "%s(7): error: identifier \"mistake\" is undefined\n\n1 error detected in %s.\n",
                program->name, program->name);
        return result;
    }
    char entry[512];
    snprintf(entry, sizeof entry, "%s", program->name);
    char *ending = strrchr(entry, '.');
    if (ending != NULL) {
        *ending = '\0';
    }
    outputs_make(program, target_of(option_count, options), entry);
    return OK;
}

/* Programs under test run in processes of their own: what takes one down is asked for by a part of a kernel's name. */
static void misfortune(const struct program *program)
{
    const char *crash = getenv("FAKE_NVRTC_CRASH"), *hang = getenv("FAKE_NVRTC_HANG");
    if (crash != NULL && strstr(program->name, crash) != NULL) {
        raise(SIGKILL);
    }
    while (hang != NULL && strstr(program->name, hang) != NULL) {
        const struct timespec second = {1, 0};
        nanosleep(&second, NULL);
    }
}

NVRTC(int, nvrtcCompileProgram, (void *program, int option_count, const char *const *options))
{
    misfortune(program);
    const int result = compile(program, enter(F_nvrtcCompileProgram), option_count, options);
    const struct timespec delay = {state.delay / 1000, (long)(state.delay % 1000) * 1000000};
    state.at_a_time++;
    state.most_at_a_time = state.at_a_time > state.most_at_a_time ? state.at_a_time : state.most_at_a_time;
    leave(OK);
    nanosleep(&delay, NULL);
    pthread_mutex_lock(&lock);
    state.at_a_time--;
    pthread_mutex_unlock(&lock);
    return result;
}

static int size_give(enum function function, size_t value, size_t *size)
{
    const int result = enter(function);
    *size = value;
    return leave(result);
}

static int bytes_give(enum function function, const void *bytes, size_t size, char *to)
{
    const int result = enter(function);
    if (result == OK && size > 0) {
        memcpy(to, bytes, size);
    }
    return leave(result);
}

static size_t text_size(const char *text)
{
    return text == NULL ? 1 : strlen(text) + 1;
}

NVRTC(int, nvrtcGetCUBINSize, (void *handle, size_t *size))
{
    const struct program *program = handle;
    return size_give(F_nvrtcGetCUBINSize, program->cubin_size, size);
}

NVRTC(int, nvrtcGetCUBIN, (void *handle, char *cubin))
{
    const struct program *program = handle;
    return bytes_give(F_nvrtcGetCUBIN, program->cubin, program->cubin_size, cubin);
}

NVRTC(int, nvrtcGetPTXSize, (void *handle, size_t *size))
{
    const struct program *program = handle;
    return size_give(F_nvrtcGetPTXSize, text_size(program->ptx), size);
}

NVRTC(int, nvrtcGetPTX, (void *handle, char *ptx))
{
    const struct program *program = handle;
    return bytes_give(F_nvrtcGetPTX, program->ptx == NULL ? "" : program->ptx, text_size(program->ptx), ptx);
}

NVRTC(int, nvrtcGetProgramLogSize, (void *handle, size_t *size))
{
    const struct program *program = handle;
    return size_give(F_nvrtcGetProgramLogSize, text_size(program->log), size);
}

NVRTC(int, nvrtcGetProgramLog, (void *handle, char *log))
{
    const struct program *program = handle;
    return bytes_give(F_nvrtcGetProgramLog, program->log == NULL ? "" : program->log, text_size(program->log), log);
}

NVRTC(const char *, nvrtcGetErrorString, (int result))
{
    enter(F_nvrtcGetErrorString);
    leave(OK);
    switch (result) {
    case OUT_OF_MEMORY:
        return "NVRTC_ERROR_OUT_OF_MEMORY";
    case INVALID_INPUT:
        return "NVRTC_ERROR_INVALID_INPUT";
    case INVALID_PROGRAM:
        return "NVRTC_ERROR_INVALID_PROGRAM";
    case INVALID_OPTION:
        return "NVRTC_ERROR_INVALID_OPTION";
    case COMPILATION:
        return "NVRTC_ERROR_COMPILATION";
    case 7:
        return "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE";
    default:
        return "NVRTC_ERROR unknown";
    }
}
