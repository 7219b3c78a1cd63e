/*
 * One run of gdpa-jit: what every command shares. Results go to stdout, everything else to stderr.
 */
#ifndef GDPA_TOOLS_TOOL_H
#define GDPA_TOOLS_TOOL_H

#include "include/gdpajit.h"
#include "tools/args.h"

#include <pthread.h>

struct progress;

struct tool {
    struct args args;
    bool json;                   /* --json */
    bool quiet;                  /* --quiet: errors only */
    int verbose;                 /* how often --verbose was given */
    bool color;                  /* of stdout */
    bool left_behind;            /* threads still run inside the library: end without closing anything */
    gdpa_ctx *ctx;               /* made by tool_context */
    gdpa_status ctx_status;      /* of that; for tool_fail */
    bool is_worker;              /* of warm, which has said what there is to say about the settings */
    pthread_mutex_t stderr_lock; /* held while a line or the progress bar is written */
    struct progress *progress;   /* the bar on the screen, or NULL */
};

void tool_init(struct tool *tool);
/* Reads the common options out of tool->args. */
void tool_start(struct tool *tool);
void tool_deinit(struct tool *tool);

/* The run's context, made on first use with --cache-dir and the log level of --quiet and --verbose. NULL: see tool_fail. */
gdpa_ctx *tool_context(struct tool *tool);
/* Another context with the same options but this gdpa_mode; the caller destroys it. */
gdpa_status tool_context_create(struct tool *tool, gdpa_mode mode, gdpa_ctx **ctx);

/* A line to stderr, "gdpa-jit: ..."; notes are left out by --quiet. */
void tool_error(struct tool *tool, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tool_note(struct tool *tool, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints gdpa_last_error() and gives the exit code of the status. */
int tool_fail(struct tool *tool, gdpa_status status);
/* Prints the reason and where help is; gives EXIT_USAGE. */
int tool_usage(struct tool *tool, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Of a failing status: EXIT_NO_DEVICE, EXIT_CACHE_TROUBLE, EXIT_USAGE for what was asked wrongly, else EXIT_SOME_FAILED. */
int tool_exit_code(gdpa_status status);

/* From here on SIGINT and SIGTERM only set a flag (a second one ends the program at once). */
void tool_catch_interrupts(void);
bool tool_interrupted(void);

/* Artifact of a kernel, a spec or a cached key as malloced bytes with a final 0. Free with free(). */
gdpa_status tool_kernel_artifact(gdpa_kernel *kernel, gdpa_artifact what, char **data, size_t *length);
gdpa_status tool_generate(const gdpa_spec *spec, gdpa_artifact what, char **data, size_t *length);
gdpa_status tool_cache_artifact(gdpa_ctx *ctx, const char *key, gdpa_artifact what, char **data, size_t *length);
gdpa_status tool_describe(gdpa_ctx *ctx, char **text);
/* Canonical text of a spec, malloced. */
gdpa_status tool_spec_text(const gdpa_spec *spec, char **text);

/* malloc, realloc and strdup that end the program with a message when there is no memory. */
void *tool_alloc(size_t bytes);
void *tool_realloc(void *memory, size_t bytes);
char *tool_strdup(const char *text);
char *tool_format(const char *format, ...) __attribute__((format(printf, 1, 2), nonnull(1)));

#endif
