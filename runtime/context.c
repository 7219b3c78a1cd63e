/*
 * Contexts: made and ended; cache, compiler and driver are opened when first asked for. Settings are in settings.c.
 */
#include "runtime/context.h"
#include "gen/assemble.h"
#include "runtime/cache_place.h"
#include "runtime/kernel.h"
#include "runtime/process.h"
#include "runtime/structs.h"
#include "runtime/thread.h"

#include <string.h>

#define REPORT_LIMIT ((size_t)1 << 16)

/* ---------------------------------------------------------------------------------------------------------------
 * Life
 * ------------------------------------------------------------------------------------------------------------- */

enum { OPENINGS = 6 };

static void openings_of(gdpa_ctx *ctx, struct opening *list[OPENINGS])
{
    list[0] = &ctx->cache_opening;
    list[1] = &ctx->nvrtc_opening;
    list[2] = &ctx->driver_opening;
    list[3] = &ctx->device_opening;
    list[4] = &ctx->packs_opening;
    list[5] = &ctx->older_opening;
}

static void context_free(gdpa_ctx *ctx)
{
    const gdpa_allocator allocator = ctx->allocator;
    process_remove(ctx);
    while (ctx->kernels != NULL) {
        gdpa_kernel *next = ctx->kernels->next;
        kernel_free(ctx->kernels);
        ctx->kernels = next;
    }
    kernel_table_deinit(&ctx->table, &allocator);
    cache_close(ctx->cache);
    packs_close(&ctx->packs_open);
    nvrtc_free(ctx->nvrtc);
    nvrtc_free(ctx->older);
    driver_free(ctx->driver);
    struct opening *list[OPENINGS];
    openings_of(ctx, list);
    for (int i = 0; i < OPENINGS; i++) {
        sbuf_deinit(&list[i]->text);
    }
    pthread_mutex_destroy(&ctx->open_lock);
    pthread_mutex_destroy(&ctx->flight_lock);
    memory_free(&allocator, ctx->cache_local);
    crew_deinit(&ctx->crew);
    trace_deinit(&ctx->trace);
    settings_deinit(ctx);
    memory_free(&allocator, ctx);
}

/* What context_free expects, before anything can fail. */
static bool context_init(gdpa_ctx *ctx)
{
    atomic_init(&ctx->references, 1);
    log_init(&ctx->log);
    if (!kernel_table_init(&ctx->table, &ctx->allocator)) {
        return false;
    }
    struct opening *list[OPENINGS];
    openings_of(ctx, list);
    for (int i = 0; i < OPENINGS; i++) {
        atomic_init(&list[i]->done, false);
        sbuf_init(&list[i]->text, REPORT_LIMIT);
    }
    pthread_mutex_init(&ctx->open_lock, NULL);
    pthread_mutex_init(&ctx->flight_lock, NULL);
    crew_init(&ctx->crew);
    trace_init(&ctx->trace);
    return true;
}

gdpa_status gdpa_ctx_create(const gdpa_ctx_options *options, gdpa_ctx **ctx)
{
    FAIL_IF(ctx == NULL, GDPA_E_ARGUMENT, "ctx is NULL; pass the address of a pointer to the context");
    gdpa_ctx_options own;
    memset(&own, 0, sizeof own);
    if (options != NULL) {
        TRY(struct_check(&rule_ctx_options, options));
        struct_read(&rule_ctx_options, options, &own);
    }
    TRY(settings_check(&own));
    const gdpa_allocator allocator = memory_allocator(&own.allocator);
    gdpa_ctx *made = memory_alloc(&allocator, sizeof *made);
    FAIL_IF(made == NULL, GDPA_E_MEMORY, "no memory for a context (%zu bytes)", sizeof *made);
    made->allocator = allocator;
    if (!context_init(made)) {
        memory_free(&allocator, made);
        FAIL(GDPA_E_MEMORY, "no memory for the kernel table of a context");
    }
    const gdpa_status status = settings_read(made, &own);
    if (status != GDPA_OK) {
        context_free(made);
        return status;
    }
    settings_report_unknown(made);
    process_add(made);
    *ctx = made;
    return GDPA_OK;
}

void context_retain(gdpa_ctx *ctx)
{
    atomic_fetch_add_explicit(&ctx->references, 1, memory_order_relaxed);
}

void context_release(gdpa_ctx *ctx)
{
    if (atomic_fetch_sub_explicit(&ctx->references, 1, memory_order_acq_rel) == 1) {
        context_free(ctx);
    }
}

static gdpa_ctx *default_context;
static pthread_mutex_t default_lock = PTHREAD_MUTEX_INITIALIZER;

gdpa_status gdpa_ctx_default(gdpa_ctx **ctx)
{
    FAIL_IF(ctx == NULL, GDPA_E_ARGUMENT, "ctx is NULL; pass the address of a pointer to the context");
    pthread_mutex_lock(&default_lock);
    const gdpa_status status = default_context != NULL ? GDPA_OK : gdpa_ctx_create(NULL, &default_context);
    if (status == GDPA_OK) {
        *ctx = default_context;
    }
    pthread_mutex_unlock(&default_lock);
    return status;
}

void gdpa_ctx_destroy(gdpa_ctx *ctx)
{
    pthread_mutex_lock(&default_lock);
    const bool kept = ctx == NULL || ctx == default_context;
    pthread_mutex_unlock(&default_lock);
    if (!kept) {
        crew_stop(ctx);
        context_release(ctx);
    }
}

void context_fork_prepare(void)
{
    pthread_mutex_lock(&default_lock);
}

void context_fork_done(void)
{
    pthread_mutex_unlock(&default_lock);
}

/*
 * Flights are led by threads that are not here, and kernels are loaded in a CUDA that is not here. Their memory is left
 * alone: somebody may have been in the middle of it.
 */
void context_in_child(gdpa_ctx *ctx)
{
    ctx->flights = NULL;
    crew_in_child(ctx);
    pthread_mutex_init(&ctx->trace.lock, NULL);
    for (gdpa_kernel *kernel = ctx->kernels; kernel != NULL; kernel = kernel->next) {
        kernel_in_child(kernel);
    }
    atomic_store(&ctx->device_opening.done, false);
}

static uint64_t packs_bad_entries(gdpa_ctx *ctx)
{
    uint64_t bad = 0;
    for (int i = 0; atomic_load(&ctx->packs_opening.done) && i < ctx->packs_open.count; i++) {
        bad += cache_bad_entries(ctx->packs_open.list[i]);
    }
    return bad;
}

gdpa_status gdpa_ctx_stats(gdpa_ctx *ctx, gdpa_stats *stats)
{
    FAIL_IF(ctx == NULL || stats == NULL, GDPA_E_ARGUMENT, "%s is NULL", ctx == NULL ? "ctx" : "stats");
    const struct counters *from = &ctx->counters;
    uint64_t memory_hits = 0, launches = 0;
    thread_counts_sum(ctx->number, &memory_hits, &launches);
    const struct cache *cache = atomic_load(&ctx->cache_opening.done) ? ctx->cache : NULL;
    const gdpa_stats own = {.size = sizeof own,
                            .memory_hits = memory_hits + atomic_load(&from->memory_hits),
                            .disk_hits = atomic_load(&from->disk_hits),
                            .compiles = atomic_load(&from->compiles),
                            .compile_failures = atomic_load(&from->compile_failures),
                            .waits = atomic_load(&from->waits),
                            .bad_entries = atomic_load(&from->bad_entries) + packs_bad_entries(ctx) +
                                           (cache != NULL ? cache_bad_entries(cache) : 0),
                            .launches = launches + atomic_load(&from->launches),
                            .generate_ns = atomic_load(&from->generate_ns),
                            .compile_ns = atomic_load(&from->compile_ns),
                            .load_ns = atomic_load(&from->load_ns),
                            .process_waits = atomic_load(&from->process_waits),
                            .evictions = cache != NULL ? cache_evicted(cache) : 0};
    return struct_write(&rule_stats, &own, stats);
}

gdpa_status gdpa_ctx_trim(gdpa_ctx *ctx, int64_t *unloaded)
{
    FAIL_IF(ctx == NULL, GDPA_E_ARGUMENT, "ctx is NULL");
    int64_t count = 0;
    pthread_mutex_lock(&ctx->flight_lock);
    for (gdpa_kernel *kernel = ctx->kernels; kernel != NULL; kernel = kernel->next) {
        count += atomic_load(&kernel->references) == 0 && kernel_unload(kernel, true);
    }
    pthread_mutex_unlock(&ctx->flight_lock);
    if (unloaded != NULL) {
        *unloaded = count;
    }
    return GDPA_OK;
}

gdpa_status gdpa_ctx_reset(gdpa_ctx *ctx)
{
    FAIL_IF(ctx == NULL, GDPA_E_ARGUMENT, "ctx is NULL");
    pthread_mutex_lock(&ctx->flight_lock);
    for (gdpa_kernel *kernel = ctx->kernels; kernel != NULL; kernel = kernel->next) {
        kernel_unload(kernel, false);
    }
    pthread_mutex_unlock(&ctx->flight_lock);
    return GDPA_OK;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Opening
 * ------------------------------------------------------------------------------------------------------------- */

/* Runs `open` once; its status and text stay. */
static gdpa_status open_once(gdpa_ctx *ctx, struct opening *opening,
                             gdpa_status (*open)(gdpa_ctx *ctx, struct sbuf *text), struct sbuf *why)
{
    if (!atomic_load_explicit(&opening->done, memory_order_acquire)) {
        pthread_mutex_lock(&ctx->open_lock);
        if (!atomic_load_explicit(&opening->done, memory_order_relaxed)) {
            opening->status = open(ctx, &opening->text);
            atomic_store_explicit(&opening->done, true, memory_order_release);
        }
        pthread_mutex_unlock(&ctx->open_lock);
    }
    if (opening->status != GDPA_OK && why != NULL) {
        sbuf_reset(why);
        sbuf_add(why, opening->text.text, opening->text.length);
    }
    return opening->status;
}

static void cache_line(int level, const char *line, void *user)
{
    const gdpa_ctx *ctx = user;
    log_write(&ctx->log, (gdpa_log_level)level, LOG_CACHE, "%s", line);
}

/* A folder that somebody named is used; the one that nobody named only where that is wise. Holds open_lock. */
static void cache_place(gdpa_ctx *ctx)
{
    if (!ctx->cache_placed && ctx->cache_dir.value != NULL && strcmp(ctx->cache_dir.origin, "default") == 0) {
        ctx->cache_local = cache_place_local(ctx->cache_dir.value, &ctx->env, &ctx->allocator);
    }
    ctx->cache_placed = true;
}

static const char *cache_folder(gdpa_ctx *ctx)
{
    cache_place(ctx);
    if (ctx->cache_local == NULL) {
        return ctx->cache_dir.value;
    }
    log_write(&ctx->log, GDPA_LOG_INFO, LOG_CACHE,
              "%s is on a network file system: kernels are kept in %s on this machine instead. Name a folder with "
              "GDPAJIT_CACHE_DIR to have them there whatever it is on",
              ctx->cache_dir.value, ctx->cache_local);
    return ctx->cache_local;
}

static gdpa_status cache_begin(gdpa_ctx *ctx, struct sbuf *text)
{
    if (ctx->mode == GDPA_MODE_OFF) {
        return fail(text, GDPA_E_CACHE, "the mode is off (%s): there is no disk cache", ctx->mode_origin);
    }
    if (ctx->cache_dir.value == NULL) {
        fail(text, GDPA_E_CACHE, "neither XDG_CACHE_HOME nor HOME is set; name a folder with GDPAJIT_CACHE_DIR");
        log_write(&ctx->log, GDPA_LOG_WARN, LOG_CACHE, "kernels are kept in memory only: %s", text->text);
        return GDPA_E_CACHE;
    }
    const struct cache_options options = {
        .dir = cache_folder(ctx),
        .read_only = ctx->mode == GDPA_MODE_READONLY,
        .shared = ctx->cache_shared,
        .limit_bytes = ctx->cache_limit,
        .version = {.label = "generator", .data = generator_id(), .size = strlen(generator_id())},
        .log = cache_line,
        .log_user = ctx};
    ctx->cache = cache_open(&options);
    return ctx->cache != NULL ? GDPA_OK : fail(text, GDPA_E_MEMORY, "no memory for the cache");
}

struct cache *context_cache(gdpa_ctx *ctx)
{
    open_once(ctx, &ctx->cache_opening, cache_begin, NULL);
    return ctx->cache;
}

/* The packs that are named, and those in the user's folder where that is on a network, and so holds no cache. */
static gdpa_status packs_begin(gdpa_ctx *ctx, struct sbuf *text)
{
    if (ctx->mode == GDPA_MODE_OFF) {
        return GDPA_OK;
    }
    cache_place(ctx);
    const char *folder = ctx->cache_local != NULL ? ctx->cache_dir.value : NULL;
    const gdpa_status status = packs_open(ctx->packs.value, folder, cache_line, ctx, &ctx->packs_open, text);
    if (status != GDPA_OK) {
        log_write(&ctx->log, GDPA_LOG_WARN, LOG_CACHE, "packs (%s) are not used from here on: %s", ctx->packs.origin,
                  text->text);
    }
    return GDPA_OK;
}

const struct packs *context_packs(gdpa_ctx *ctx)
{
    open_once(ctx, &ctx->packs_opening, packs_begin, NULL);
    return &ctx->packs_open;
}

const char *context_cache_absence(const gdpa_ctx *ctx)
{
    return ctx->cache != NULL ? cache_state(ctx->cache) : ctx->cache_opening.text.text;
}

static gdpa_status driver_begin(gdpa_ctx *ctx, struct sbuf *text)
{
    return driver_open(ctx->driver_path.value, &ctx->driver, text);
}

gdpa_status context_driver(gdpa_ctx *ctx, struct driver **driver, struct sbuf *why)
{
    TRY(open_once(ctx, &ctx->driver_opening, driver_begin, why));
    *driver = ctx->driver;
    return GDPA_OK;
}

static gdpa_status devices_begin(gdpa_ctx *ctx, struct sbuf *text)
{
    return driver_start(ctx->driver, text);
}

gdpa_status context_devices(gdpa_ctx *ctx, struct driver **driver, struct sbuf *why)
{
    TRY(context_driver(ctx, driver, why));
    return open_once(ctx, &ctx->device_opening, devices_begin, why);
}

/* The text is what was tried; a failure explains itself around it. */
static gdpa_status nvrtc_search_run(gdpa_ctx *ctx, const struct nvrtc_search *search, struct sbuf *text)
{
    struct sbuf tried;
    sbuf_init(&tried, REPORT_LIMIT / 2);
    const gdpa_status status = nvrtc_open(search, &ctx->nvrtc, &tried);
    if (status == GDPA_OK) {
        sbuf_add(text, tried.text, tried.length);
    } else {
        fail(text, status,
             "no usable NVRTC library (libnvrtc.so of CUDA 12 or later); tried:\n%s"
             "install a CUDA toolkit or the package nvidia-cuda-nvrtc, or set GDPAJIT_NVRTC",
             tried.text);
    }
    sbuf_deinit(&tried);
    return status;
}

static gdpa_status nvrtc_begin(gdpa_ctx *ctx, struct sbuf *text)
{
    const struct nvrtc_search search = {.path = ctx->nvrtc_path.value,
                                        .path_origin = ctx->nvrtc_path.origin,
                                        .cuda_home = ctx->env.values[ENV_CUDA_HOME],
                                        .cuda_path = ctx->env.values[ENV_CUDA_PATH],
                                        .driver_major = ctx->driver != NULL ? ctx->driver->version / 1000 : 0};
    TRY(nvrtc_search_run(ctx, &search, text));
    log_write(&ctx->log, GDPA_LOG_INFO, LOG_COMPILE, "NVRTC %s: %s", ctx->nvrtc->version, ctx->nvrtc->path);
    if (search.driver_major != 0 && ctx->nvrtc->major > search.driver_major) {
        log_write(
            &ctx->log, GDPA_LOG_WARN, LOG_COMPILE,
            "NVRTC %s (%s) is newer than the driver (CUDA %d.%d), which may refuse its code; an NVRTC %d would be "
            "safe",
            ctx->nvrtc->version, ctx->nvrtc->path, ctx->driver->version / 1000, ctx->driver->version % 1000 / 10,
            search.driver_major);
    }
    return GDPA_OK;
}

gdpa_status context_nvrtc(gdpa_ctx *ctx, const struct nvrtc **nvrtc, struct sbuf *why)
{
    struct driver *driver = NULL;
    context_driver(ctx, &driver, NULL); /* its version, if there is one, guides the choice */
    TRY(open_once(ctx, &ctx->nvrtc_opening, nvrtc_begin, why));
    *nvrtc = ctx->nvrtc;
    return GDPA_OK;
}

/* Only after the driver is open. */
static gdpa_status older_begin(gdpa_ctx *ctx, struct sbuf *text)
{
    const struct driver *driver = ctx->driver;
    const struct nvrtc_search search = {.path = ctx->nvrtc_path.value,
                                        .path_origin = ctx->nvrtc_path.origin,
                                        .cuda_home = ctx->env.values[ENV_CUDA_HOME],
                                        .cuda_path = ctx->env.values[ENV_CUDA_PATH],
                                        .newest = driver->version};
    struct sbuf tried;
    sbuf_init(&tried, REPORT_LIMIT / 2);
    gdpa_status status = nvrtc_open(&search, &ctx->older, &tried);
    if (status == GDPA_OK) {
        log_write(
            &ctx->log, GDPA_LOG_WARN, LOG_COMPILE,
            "the driver (CUDA %d.%d) refuses what NVRTC %s makes: NVRTC %s (%s) compiles from here on. Name it with "
            "GDPAJIT_NVRTC, so that nothing is compiled in vain",
            driver->version / 1000, driver->version % 1000 / 10, ctx->nvrtc->version, ctx->older->version,
            ctx->older->path);
    } else {
        fail(text, status, "no NVRTC of CUDA %d.%d or older was found; tried:\n%s", driver->version / 1000,
             driver->version % 1000 / 10, tried.text);
    }
    sbuf_deinit(&tried);
    return status;
}

gdpa_status context_older_nvrtc(gdpa_ctx *ctx, const struct nvrtc **nvrtc, struct sbuf *why)
{
    TRY(open_once(ctx, &ctx->older_opening, older_begin, why));
    *nvrtc = ctx->older;
    return GDPA_OK;
}

const struct nvrtc *context_older_known(gdpa_ctx *ctx)
{
    return atomic_load_explicit(&ctx->older_opening.done, memory_order_acquire) ? ctx->older : NULL;
}
