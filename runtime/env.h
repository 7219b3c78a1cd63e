/*
 * The environment as it was when the context was made: GDPAJIT_ variables (env.def) and the few of others that the
 * searches for cache and compiler follow.
 */
#ifndef GDPA_RUNTIME_ENV_H
#define GDPA_RUNTIME_ENV_H

#include "runtime/memory.h"

enum env_id {
#define ENV(suffix, name, fallback, doc) ENV_##suffix,
#include "runtime/env.def"
#undef ENV
    ENV_OWN_COUNT,
    ENV_XDG_CACHE_HOME = ENV_OWN_COUNT,
    ENV_HOME,
    ENV_TMPDIR,
    ENV_CUDA_HOME,
    ENV_CUDA_PATH,
    ENV_COUNT
};

struct env_row {
    const char *name, *fallback, *doc;
};
extern const struct env_row env_rows[ENV_COUNT];

struct env {
    char *values[ENV_COUNT]; /* NULL: not set, or empty */
    bool ignored;            /* the process has raised privileges: nothing was read */
};

/* False: no memory. */
bool env_read(struct env *env, const gdpa_allocator *allocator);
void env_deinit(struct env *env, const gdpa_allocator *allocator);

/*
 * Calls `say` for each variable whose name starts with GDPAJIT_ but is not in env.def, with the nearest one that is, or
 * NULL. Only on the first call in a process.
 */
void env_report_unknown(const struct env *env, void (*say)(const char *name, const char *nearest, void *user),
                        void *user);

/* "512M" -> bytes; k, M, G, T are powers of 1024. False when it is no size. */
bool env_parse_size(const char *text, int64_t *bytes);

/* "90" -> seconds, up to a year. False when it is no such number. */
bool env_parse_seconds(const char *text, int32_t *seconds);

#endif
