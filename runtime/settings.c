/*
 * Options and environment become the settings of a context; see docs/embedding.md for what wins.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_getaffinity */
#endif
#include "runtime/context.h"
#include "runtime/structs.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_CACHE_LIMIT ((int64_t)1 << 30)
#define DEFAULT_CACHE_WAIT 120 /* seconds */
#define JOBS_LIMIT 1024

static const char *const mode_names[] = {"default", "auto", "readonly", "strict", "off"};

const char *mode_name(int mode)
{
    return mode_names[mode];
}

static gdpa_status mode_set(gdpa_ctx *ctx, int32_t wanted)
{
    const char *text = ctx->env.values[ENV_MODE];
    ctx->mode = wanted;
    ctx->mode_origin = "gdpa_ctx_options.mode";
    if (wanted != GDPA_MODE_DEFAULT) {
        return GDPA_OK;
    }
    ctx->mode = GDPA_MODE_AUTO;
    ctx->mode_origin = "default";
    if (text == NULL) {
        return GDPA_OK;
    }
    ctx->mode_origin = "GDPAJIT_MODE";
    for (int mode = GDPA_MODE_AUTO; mode <= GDPA_MODE_OFF; mode++) {
        if (strcmp(text, mode_names[mode]) == 0) {
            ctx->mode = mode;
            return GDPA_OK;
        }
    }
    FAIL(GDPA_E_ARGUMENT, "GDPAJIT_MODE is \"%s\"; legal are auto, readonly, strict and off", text);
}

static gdpa_status capture_set(gdpa_ctx *ctx, int32_t wanted)
{
    const char *text = ctx->env.values[ENV_CAPTURE];
    ctx->capture = wanted != GDPA_CAPTURE_DEFAULT ? wanted : GDPA_CAPTURE_RELAXED;
    if (wanted != GDPA_CAPTURE_DEFAULT || text == NULL || strcmp(text, "relaxed") == 0) {
        return GDPA_OK;
    }
    FAIL_IF(strcmp(text, "strict") != 0, GDPA_E_ARGUMENT, "GDPAJIT_CAPTURE is \"%s\"; legal are relaxed and strict",
            text);
    ctx->capture = GDPA_CAPTURE_STRICT;
    return GDPA_OK;
}

/* The option, else the variable. */
static gdpa_status path_set(gdpa_ctx *ctx, struct setting *setting, const char *option, const char *option_name,
                            enum env_id variable)
{
    const bool chosen = option != NULL && option[0] != '\0';
    const char *value = chosen ? option : ctx->env.values[variable];
    setting->origin = chosen ? option_name : value != NULL ? env_rows[variable].name : "default";
    if (value != NULL) {
        setting->value = memory_text(&ctx->allocator, value);
        FAIL_IF(setting->value == NULL, GDPA_E_MEMORY, "no memory for the settings of a context");
    }
    return GDPA_OK;
}

static gdpa_status cache_dir_default(gdpa_ctx *ctx)
{
    const char *base = ctx->env.values[ENV_XDG_CACHE_HOME];
    const char *below = "/gdpajit";
    if (base == NULL || base[0] != '/') {
        base = ctx->env.values[ENV_HOME];
        below = "/.cache/gdpajit";
    }
    if (ctx->cache_dir.value != NULL || base == NULL || base[0] != '/') {
        return GDPA_OK;
    }
    const size_t size = strlen(base) + strlen(below) + 1;
    ctx->cache_dir.value = memory_alloc(&ctx->allocator, size);
    FAIL_IF(ctx->cache_dir.value == NULL, GDPA_E_MEMORY, "no memory for the settings of a context");
    snprintf(ctx->cache_dir.value, size, "%s%s", base, below);
    return GDPA_OK;
}

/* NVRTC takes 100 to 200 MB for one of these kernels; the rest is room for growth. Half of the memory is others'. */
static int jobs_default(void)
{
    const long long bytes_per_compile = 400LL << 20;
    const long long memory = (long long)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 2;
    cpu_set_t allowed;
    long long jobs = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
    jobs = memory > 0 && memory / bytes_per_compile < jobs ? memory / bytes_per_compile : jobs;
    return jobs < 1 ? 1 : jobs > JOBS_LIMIT ? JOBS_LIMIT : (int)jobs;
}

static gdpa_status jobs_set(gdpa_ctx *ctx, int32_t wanted)
{
    const char *text = ctx->env.values[ENV_JOBS];
    char *end = NULL;
    ctx->jobs = wanted != 0 ? wanted : jobs_default();
    if (wanted != 0 || text == NULL) {
        return GDPA_OK;
    }
    const long number = strtol(text, &end, 10);
    FAIL_IF(end == text || *end != '\0' || number < 1 || number > JOBS_LIMIT, GDPA_E_ARGUMENT,
            "GDPAJIT_JOBS is \"%s\"; it must be a number from 1 to %d", text, JOBS_LIMIT);
    ctx->jobs = (int)number;
    return GDPA_OK;
}

static gdpa_status cache_limit_set(gdpa_ctx *ctx, int64_t wanted)
{
    const char *text = ctx->env.values[ENV_CACHE_LIMIT];
    ctx->cache_limit = DEFAULT_CACHE_LIMIT;
    if (wanted != 0) {
        ctx->cache_limit = wanted > 0 ? wanted : 0;
        return GDPA_OK;
    }
    FAIL_IF(text != NULL && !env_parse_size(text, &ctx->cache_limit), GDPA_E_ARGUMENT,
            "GDPAJIT_CACHE_LIMIT is \"%s\"; it must be a number of bytes such as 500M or 2G, or 0 for no limit", text);
    return GDPA_OK;
}

static gdpa_status cache_wait_set(gdpa_ctx *ctx, int32_t wanted)
{
    const char *text = ctx->env.values[ENV_CACHE_WAIT];
    int32_t seconds = wanted != 0 ? wanted : DEFAULT_CACHE_WAIT;
    FAIL_IF(wanted == 0 && text != NULL && !env_parse_seconds(text, &seconds), GDPA_E_ARGUMENT,
            "GDPAJIT_CACHE_WAIT is \"%s\"; it must be a number of seconds such as 120, or 0 not to wait", text);
    ctx->cache_wait_ns = seconds > 0 ? (int64_t)seconds * 1000000000 : 0;
    return GDPA_OK;
}

static gdpa_status cache_shared_set(gdpa_ctx *ctx)
{
    const char *text = ctx->env.values[ENV_CACHE_SHARED];
    ctx->cache_shared = text != NULL && strcmp(text, "yes") == 0;
    FAIL_IF(text != NULL && !ctx->cache_shared && strcmp(text, "no") != 0, GDPA_E_ARGUMENT,
            "GDPAJIT_CACHE_SHARED is \"%s\"; legal are yes and no", text);
    return GDPA_OK;
}

static gdpa_status log_set(gdpa_ctx *ctx, const gdpa_ctx_options *options)
{
    log_init(&ctx->log);
    ctx->log.function = options->log;
    ctx->log.user = options->log_user;
    const char *levels = ctx->env.values[ENV_LOG];
    if (options->log_level != GDPA_LOG_DEFAULT) {
        log_level_all(&ctx->log, options->log_level);
    } else if (levels != NULL) {
        struct sbuf why;
        sbuf_init(&why, 1024);
        gdpa_status status = log_parse(&ctx->log, levels, &why);
        if (status != GDPA_OK) {
            status = error_set(status, "GDPAJIT_LOG is \"%s\": %s", levels, why.text);
        }
        sbuf_deinit(&why);
        TRY(status);
    }
    const char *file = ctx->env.values[ENV_LOG_FILE];
    if (options->log == NULL && file != NULL && !log_open_file(&ctx->log, file)) {
        log_write(&ctx->log, GDPA_LOG_WARN, LOG_CONTEXT, "the log file %s cannot be opened (%s); lines go to stderr",
                  file, strerror(errno));
    }
    return GDPA_OK;
}

static void unknown_variable(const char *name, const char *nearest, void *user)
{
    const gdpa_ctx *ctx = user;
    log_write(&ctx->log, GDPA_LOG_WARN, LOG_CONTEXT, "the environment variable %s is not one of this library%s%s%s",
              name, nearest != NULL ? "; did you mean " : "", nearest != NULL ? nearest : "",
              nearest != NULL ? "?" : "");
}

gdpa_status settings_check(const gdpa_ctx_options *options)
{
    FAIL_IF((options->allocator.alloc == NULL) != (options->allocator.free == NULL), GDPA_E_ARGUMENT,
            "allocator.%s is NULL, but allocator.%s is not; give both, or neither",
            options->allocator.alloc == NULL ? "alloc" : "free", options->allocator.alloc == NULL ? "free" : "alloc");
    FAIL_IF(options->log_level < GDPA_LOG_DEFAULT || options->log_level > GDPA_LOG_DEBUG, GDPA_E_ARGUMENT,
            "log_level is %d; legal are GDPA_LOG_DEFAULT (%d) to GDPA_LOG_DEBUG (%d)", options->log_level,
            GDPA_LOG_DEFAULT, GDPA_LOG_DEBUG);
    FAIL_IF(options->capture < GDPA_CAPTURE_DEFAULT || options->capture > GDPA_CAPTURE_STRICT, GDPA_E_ARGUMENT,
            "capture is %d; legal are GDPA_CAPTURE_DEFAULT (%d) to GDPA_CAPTURE_STRICT (%d)", options->capture,
            GDPA_CAPTURE_DEFAULT, GDPA_CAPTURE_STRICT);
    FAIL_IF(options->jobs < 0 || options->jobs > JOBS_LIMIT, GDPA_E_ARGUMENT, "jobs is %d; legal are 0 to %d",
            options->jobs, JOBS_LIMIT);
    FAIL_IF(options->mode < GDPA_MODE_DEFAULT || options->mode > GDPA_MODE_OFF, GDPA_E_ARGUMENT,
            "mode is %d; legal are GDPA_MODE_DEFAULT (%d) to GDPA_MODE_OFF (%d)", options->mode, GDPA_MODE_DEFAULT,
            GDPA_MODE_OFF);
    return GDPA_OK;
}

gdpa_status settings_read(gdpa_ctx *ctx, const gdpa_ctx_options *options)
{
    FAIL_IF(!env_read(&ctx->env, &ctx->allocator), GDPA_E_MEMORY, "no memory for the environment of a context");
    TRY(log_set(ctx, options));
    TRY(mode_set(ctx, options->mode));
    TRY(capture_set(ctx, options->capture));
    TRY(jobs_set(ctx, options->jobs));
    TRY(path_set(ctx, &ctx->packs, options->packs, "gdpa_ctx_options.packs", ENV_PACKS));
    TRY(path_set(ctx, &ctx->trace_path, options->trace, "gdpa_ctx_options.trace", ENV_TRACE));
    TRY(cache_limit_set(ctx, options->cache_limit_bytes));
    TRY(cache_wait_set(ctx, options->cache_wait_s));
    TRY(cache_shared_set(ctx));
    TRY(path_set(ctx, &ctx->cache_dir, options->cache_dir, "gdpa_ctx_options.cache_dir", ENV_CACHE_DIR));
    TRY(cache_dir_default(ctx));
    TRY(path_set(ctx, &ctx->nvrtc_path, options->nvrtc_path, "gdpa_ctx_options.nvrtc_path", ENV_NVRTC));
    return path_set(ctx, &ctx->driver_path, options->driver_path, "gdpa_ctx_options.driver_path", ENV_LIBCUDA);
}

void settings_report_unknown(gdpa_ctx *ctx)
{
    env_report_unknown(&ctx->env, unknown_variable, ctx);
}

void settings_deinit(gdpa_ctx *ctx)
{
    struct setting *const all[] = {&ctx->cache_dir, &ctx->nvrtc_path, &ctx->driver_path, &ctx->packs, &ctx->trace_path};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        memory_free(&ctx->allocator, all[i]->value);
    }
    env_deinit(&ctx->env, &ctx->allocator);
    log_deinit(&ctx->log);
}
