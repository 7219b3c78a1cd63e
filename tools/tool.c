/*
 * What every command shares; see tool.h.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* vasprintf */
#endif
#include "tools/tool.h"

#include "tools/progress.h"
#include "tools/term.h"

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

void tool_catch_interrupts(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_interrupt;
    action.sa_flags = (int)SA_RESETHAND;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool tool_interrupted(void)
{
    return interrupted != 0;
}

void tool_init(struct tool *tool)
{
    memset(tool, 0, sizeof *tool);
    pthread_mutex_init(&tool->stderr_lock, NULL);
}

void tool_start(struct tool *tool)
{
    tool->json = args_flag(&tool->args, "json");
    tool->quiet = args_flag(&tool->args, "quiet");
    tool->verbose = (int)args_count(&tool->args, "verbose");
    tool->color = !tool->json && term_color(args_text(&tool->args, "color", "auto"), stdout);
}

void tool_deinit(struct tool *tool)
{
    gdpa_ctx_destroy(tool->ctx);
    tool->ctx = NULL;
    args_deinit(&tool->args);
    pthread_mutex_destroy(&tool->stderr_lock);
}

/* What a path or a word holds must not steer the terminal: control characters but the ends of lines as '?'. */
__attribute__((format(printf, 1, 0))) static void print_harmlessly(const char *format, va_list arguments)
{
    char *text = NULL;
    if (vasprintf(&text, format, arguments) < 0) {
        return;
    }
    for (char *byte = text; *byte != '\0'; byte++) {
        const bool control = ((unsigned char)*byte < 0x20 && *byte != '\n' && *byte != '\t') || *byte == 0x7f;
        *byte = control ? '?' : *byte;
    }
    fputs(text, stderr);
    free(text);
}

__attribute__((format(printf, 2, 0))) static void print_line(struct tool *tool, const char *format, va_list arguments)
{
    pthread_mutex_lock(&tool->stderr_lock);
    if (tool->progress != NULL) {
        progress_hide(tool->progress);
    }
    fputs("gdpa-jit: ", stderr);
    print_harmlessly(format, arguments);
    fputc('\n', stderr);
    pthread_mutex_unlock(&tool->stderr_lock);
}

void tool_error(struct tool *tool, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_line(tool, format, arguments);
    va_end(arguments);
}

void tool_note(struct tool *tool, const char *format, ...)
{
    if (tool->quiet) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    print_line(tool, format, arguments);
    va_end(arguments);
}

int tool_usage(struct tool *tool, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_line(tool, format, arguments);
    va_end(arguments);
    fprintf(stderr, "`gdpa-jit %s --help` explains it\n", tool->args.command->name);
    return EXIT_USAGE;
}

int tool_exit_code(gdpa_status status)
{
    switch (status) {
    case GDPA_OK:
        return EXIT_DONE;
    case GDPA_E_ARGUMENT:
    case GDPA_E_UNSUPPORTED:
        return EXIT_USAGE;
    case GDPA_E_NO_DRIVER:
    case GDPA_E_NO_COMPILER:
        return EXIT_NO_DEVICE;
    case GDPA_E_CACHE:
        return EXIT_CACHE_TROUBLE;
    default:
        return EXIT_SOME_FAILED;
    }
}

int tool_fail(struct tool *tool, gdpa_status status)
{
    const char *reason = gdpa_last_error();
    tool_error(tool, "%s", *reason != 0 ? reason : gdpa_status_str(status));
    return tool_exit_code(status);
}

static void on_log(gdpa_log_level level, const char *subsystem, const char *line, void *user)
{
    struct tool *tool = user;
    (void)level;
    if (!tool->is_worker || tool->ctx != NULL) {
        tool_error(tool, "[%s] %s", subsystem, line);
    }
}

gdpa_status tool_context_create(struct tool *tool, gdpa_mode mode, gdpa_ctx **ctx)
{
    gdpa_ctx_options options = GDPA_CTX_OPTIONS_INIT;
    options.cache_dir = args_text(&tool->args, "cache-dir", NULL);
    options.log = on_log;
    options.log_user = tool;
    options.mode = (int32_t)mode;
    if (tool->quiet) {
        options.log_level = GDPA_LOG_ERROR;
    } else if (tool->verbose > 0) {
        options.log_level = tool->verbose > 1 ? GDPA_LOG_DEBUG : GDPA_LOG_INFO;
    }
    return gdpa_ctx_create(&options, ctx);
}

gdpa_ctx *tool_context(struct tool *tool)
{
    if (tool->ctx == NULL) {
        gdpa_ctx *made = NULL;
        tool->ctx_status = tool_context_create(tool, GDPA_MODE_DEFAULT, &made);
        tool->ctx = made;
    }
    return tool->ctx;
}

void *tool_realloc(void *memory, size_t bytes)
{
    void *grown = realloc(memory, bytes == 0 ? 1 : bytes);
    if (grown == NULL) {
        fprintf(stderr, "gdpa-jit: out of memory (%zu bytes wanted)\n", bytes);
        exit(EXIT_SOME_FAILED);
    }
    return grown;
}

void *tool_alloc(size_t bytes)
{
    return tool_realloc(NULL, bytes);
}

char *tool_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    return memcpy(tool_alloc(bytes), text, bytes);
}

char *tool_format(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = tool_alloc((size_t)(length > 0 ? length : 0) + 1);
    va_start(arguments, format);
    vsnprintf(text, (size_t)(length > 0 ? length : 0) + 1, format, arguments);
    va_end(arguments);
    return text;
}

/* The calls that fill a caller's buffer, in one shape. */
struct source {
    gdpa_kernel *kernel;
    const gdpa_spec *spec;
    gdpa_ctx *ctx;
    const char *key;
    gdpa_artifact what;
    gdpa_status (*fill)(const struct source *source, void *data, size_t capacity, size_t *length);
};

/* Asks for the length, allocates, and asks again; once more when it grew in between. */
static gdpa_status fetch(const struct source *source, char **data, size_t *length)
{
    char *buffer = NULL;
    size_t capacity = 0;
    size_t size = 0;
    gdpa_status status = source->fill(source, NULL, 0, &size);
    for (int attempt = 0; attempt < 8 && (status == GDPA_E_BUFFER || (status == GDPA_OK && size >= capacity));
         attempt++) {
        capacity = size + 1;
        buffer = tool_realloc(buffer, capacity);
        status = source->fill(source, buffer, capacity, &size);
    }
    if (status != GDPA_OK) {
        free(buffer);
        return status;
    }
    buffer[size] = 0;
    *data = buffer;
    if (length != NULL) {
        *length = size;
    }
    return GDPA_OK;
}

static gdpa_status fill_kernel_artifact(const struct source *source, void *data, size_t capacity, size_t *length)
{
    return gdpa_kernel_artifact(source->kernel, source->what, data, capacity, length);
}

static gdpa_status fill_generated(const struct source *source, void *data, size_t capacity, size_t *length)
{
    return gdpa_generate(source->spec, source->what, data, capacity, length);
}

static gdpa_status fill_cache_artifact(const struct source *source, void *data, size_t capacity, size_t *length)
{
    return gdpa_cache_artifact(source->ctx, source->key, source->what, data, capacity, length);
}

static gdpa_status fill_description(const struct source *source, void *data, size_t capacity, size_t *length)
{
    return gdpa_ctx_describe(source->ctx, data, capacity, length);
}

static gdpa_status fill_spec_text(const struct source *source, void *data, size_t capacity, size_t *length)
{
    return gdpa_spec_format(source->spec, data, capacity, length);
}

gdpa_status tool_kernel_artifact(gdpa_kernel *kernel, gdpa_artifact what, char **data, size_t *length)
{
    struct source source = {.kernel = kernel, .what = what, .fill = fill_kernel_artifact};
    return fetch(&source, data, length);
}

gdpa_status tool_generate(const gdpa_spec *spec, gdpa_artifact what, char **data, size_t *length)
{
    struct source source = {.spec = spec, .what = what, .fill = fill_generated};
    return fetch(&source, data, length);
}

gdpa_status tool_cache_artifact(gdpa_ctx *ctx, const char *key, gdpa_artifact what, char **data, size_t *length)
{
    struct source source = {.ctx = ctx, .key = key, .what = what, .fill = fill_cache_artifact};
    return fetch(&source, data, length);
}

gdpa_status tool_describe(gdpa_ctx *ctx, char **text)
{
    struct source source = {.ctx = ctx, .fill = fill_description};
    return fetch(&source, text, NULL);
}

gdpa_status tool_spec_text(const gdpa_spec *spec, char **text)
{
    struct source source = {.spec = spec, .fill = fill_spec_text};
    return fetch(&source, text, NULL);
}
