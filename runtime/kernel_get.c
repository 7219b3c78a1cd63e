/*
 * Finding or making the kernel of a spec. One compile a key, however many threads ask.
 *
 *     spec ── as written ──> table ── normalised ──> table ──> flight ──> kernel_job.c
 *
 * A flight is one kernel being made: the thread that starts it does the work, later ones wait and get the same result.
 */
#include "runtime/kernel_job.h"
#include "runtime/thread.h"

#include <errno.h>
#include <string.h>

struct flight {
    gdpa_spec spec;
    pthread_cond_t landed;
    int crew; /* the leader and those who wait: the last one frees it */
    bool done;
    gdpa_status status;
    gdpa_kernel *kernel;
    char *text; /* the error, or NULL */
    struct flight *next;
};

/* ---------------------------------------------------------------------------------------------------------------
 * Flights
 * ------------------------------------------------------------------------------------------------------------- */

/* The leader's work: a kernel in the table, or the last error of this thread. */
static gdpa_status kernel_into_table(gdpa_ctx *ctx, const gdpa_spec *spec, uint64_t hash, gdpa_kernel **kernel)
{
    struct sbuf why;
    gdpa_kernel *made = NULL;
    sbuf_init(&why, WHY_LIMIT);
    gdpa_status status = kernel_produce(ctx, spec, &made, &why);
    if (ctx->trace_path.value != NULL && !trace_spec(&ctx->trace, ctx->trace_path.value, spec)) {
        log_write(&ctx->log, GDPA_LOG_WARN, LOG_CONTEXT, "the trace %s (%s) is not written any more: %s",
                  ctx->trace_path.value, ctx->trace_path.origin, strerror(errno));
    }
    if (status == GDPA_OK && !kernel_table_add(&ctx->table, &ctx->allocator, hash, spec, made, false)) {
        kernel_free(made);
        status = fail(&why, GDPA_E_MEMORY, "no memory for the table of kernels");
    }
    if (status == GDPA_OK) {
        *kernel = made;
    } else {
        error_set_why(status, &why);
    }
    sbuf_deinit(&why);
    return status;
}

static void flight_free(gdpa_ctx *ctx, struct flight *flight)
{
    pthread_cond_destroy(&flight->landed);
    memory_free(&ctx->allocator, flight->text);
    memory_free(&ctx->allocator, flight);
}

/* With the lock held. */
static void flight_leave(gdpa_ctx *ctx, struct flight *flight)
{
    if (--flight->crew == 0) {
        flight_free(ctx, flight);
    }
}

static struct flight *flight_find(const gdpa_ctx *ctx, const gdpa_spec *spec)
{
    struct flight *flight = ctx->flights;
    while (flight != NULL && memcmp(&flight->spec, spec, sizeof *spec) != 0) {
        flight = flight->next;
    }
    return flight;
}

/* With the lock held; gives it up while waiting. */
static gdpa_status flight_follow(gdpa_ctx *ctx, struct flight *flight, gdpa_kernel **kernel)
{
    flight->crew++;
    counter_add(&ctx->counters.waits, 1);
    while (!flight->done) {
        pthread_cond_wait(&flight->landed, &ctx->flight_lock);
    }
    const gdpa_status status = flight->status;
    *kernel = flight->kernel;
    if (status != GDPA_OK) {
        error_set(status, "%s", flight->text != NULL ? flight->text : gdpa_status_str(status));
    }
    flight_leave(ctx, flight);
    return status;
}

/* With the lock held; gives it up while working. */
static gdpa_status flight_lead(gdpa_ctx *ctx, const gdpa_spec *spec, uint64_t hash, gdpa_kernel **kernel)
{
    struct flight *flight = memory_alloc(&ctx->allocator, sizeof *flight);
    FAIL_IF(flight == NULL, GDPA_E_MEMORY, "no memory for making a kernel");
    flight->spec = *spec;
    flight->crew = 1;
    flight->next = ctx->flights;
    pthread_cond_init(&flight->landed, NULL);
    ctx->flights = flight;
    pthread_mutex_unlock(&ctx->flight_lock);
    gdpa_kernel *made = NULL;
    const gdpa_status status = kernel_into_table(ctx, spec, hash, &made);
    pthread_mutex_lock(&ctx->flight_lock);
    flight->status = status;
    flight->kernel = made;
    flight->done = true;
    if (status == GDPA_OK) {
        made->next = ctx->kernels;
        ctx->kernels = made;
        *kernel = made;
    } else {
        flight->text = memory_text(&ctx->allocator, gdpa_last_error());
    }
    struct flight **link = &ctx->flights;
    while (*link != flight) {
        link = &(*link)->next;
    }
    *link = flight->next;
    pthread_cond_broadcast(&flight->landed);
    flight_leave(ctx, flight);
    return status;
}

static gdpa_status kernel_find_or_make(gdpa_ctx *ctx, const gdpa_spec *spec, gdpa_kernel **kernel)
{
    const uint64_t hash = kernel_table_hash(spec);
    gdpa_kernel *found = kernel_table_find(&ctx->table, hash, spec);
    if (found != NULL) {
        counter_add(&ctx->counters.memory_hits, 1);
        *kernel = found;
        return GDPA_OK;
    }
    gdpa_status status = GDPA_OK;
    bool led = false;
    pthread_mutex_lock(&ctx->flight_lock);
    found = kernel_table_find(&ctx->table, hash, spec); /* may have landed in between */
    struct flight *flight = found == NULL ? flight_find(ctx, spec) : NULL;
    if (flight != NULL) {
        status = flight_follow(ctx, flight, &found);
    } else if (found == NULL) {
        led = true;
        status = flight_lead(ctx, spec, hash, &found);
    } else {
        counter_add(&ctx->counters.memory_hits, 1);
    }
    pthread_mutex_unlock(&ctx->flight_lock);
    TRY(status);
    if (led && ctx->env.values[ENV_DUMP] != NULL) {
        kernel_dump(found, ctx->env.values[ENV_DUMP]);
    }
    *kernel = found;
    return GDPA_OK;
}

/* ---------------------------------------------------------------------------------------------------------------
 * The call
 * ------------------------------------------------------------------------------------------------------------- */

/* The arch of the device in use, once devices are known to this context. */
static bool arch_at_hand(gdpa_ctx *ctx, struct CUstream_st *stream, int *arch)
{
    return atomic_load_explicit(&ctx->device_opening.done, memory_order_acquire) &&
           ctx->device_opening.status == GDPA_OK && driver_arch(ctx->driver, stream, arch, NULL) == GDPA_OK;
}

int kernel_arch(gdpa_ctx *ctx, const gdpa_spec *spec, struct CUstream_st *stream)
{
    struct driver *driver = NULL;
    int arch = spec->arch;
    const bool known =
        arch != 0 || arch_at_hand(ctx, stream, &arch) ||
        (context_devices(ctx, &driver, NULL) == GDPA_OK && driver_arch(driver, stream, &arch, NULL) == GDPA_OK);
    return known ? arch : 0;
}

static gdpa_status spec_complete(gdpa_ctx *ctx, const gdpa_spec *spec, struct CUstream_st *stream, gdpa_spec *complete,
                                 struct sbuf *why)
{
    TRY(spec_normalise(spec, true, complete, why));
    if (complete->arch == 0) {
        struct driver *driver = NULL;
        gdpa_spec with_arch = *complete;
        int arch = 0;
        const gdpa_status status = context_devices(ctx, &driver, why);
        if (status == GDPA_E_NO_DRIVER) {
            sbuf_addstr(why, "; with spec.arch set kernels are made without a GPU");
        }
        TRY(status);
        TRY(driver_arch(driver, stream, &arch, why));
        with_arch.arch = arch;
        return spec_normalise(&with_arch, false, complete, why);
    }
    return GDPA_OK;
}

gdpa_status kernel_spec_complete(gdpa_ctx *ctx, const gdpa_spec *spec, struct CUstream_st *stream, gdpa_spec *complete)
{
    struct sbuf why;
    sbuf_init(&why, WHY_LIMIT);
    const gdpa_status status = spec_complete(ctx, spec, stream, complete, &why);
    if (status != GDPA_OK) {
        error_set_why(status, &why);
    }
    sbuf_deinit(&why);
    return status;
}

gdpa_kernel *kernel_in_memory(gdpa_ctx *ctx, const gdpa_spec *complete)
{
    gdpa_kernel *found = kernel_table_find(&ctx->table, kernel_table_hash(complete), complete);
    if (found != NULL) {
        counter_add(&ctx->counters.memory_hits, 1);
    }
    return found;
}

static gdpa_status kernel_get_slowly(gdpa_ctx *ctx, const gdpa_spec *spec, struct CUstream_st *stream,
                                     gdpa_kernel **kernel)
{
    gdpa_spec complete;
    TRY(kernel_spec_complete(ctx, spec, stream, &complete));
    gdpa_kernel *found = NULL;
    TRY(kernel_find_or_make(ctx, &complete, &found));
    if (spec->size == sizeof *spec) {
        gdpa_spec alias = *spec;
        alias.arch = complete.arch;
        kernel_table_add(&ctx->table, &ctx->allocator, kernel_table_hash(&alias), &alias, found, true);
    }
    *kernel = found;
    return GDPA_OK;
}

/* A hit is counted by its thread, so that threads do not wait for each other's counting. */
static inline void hit_count(gdpa_ctx *ctx, struct thread_block *own)
{
    if (own != NULL) {
        thread_count(&thread_counts_get(own, ctx->number)->memory_hits);
    } else {
        counter_add(&ctx->counters.memory_hits, 1);
    }
}

/*
 * What the front keeps must hold whatever device is in use: a spec without an arch only while all devices are of one.
 */
static void front_keep(const gdpa_ctx *ctx, struct thread_block *own, const gdpa_spec *spec, gdpa_kernel *kernel)
{
    if (own == NULL || (spec->arch == 0 && ctx->driver->common_arch == 0)) {
        return;
    }
    own->front[front_index(spec)] = (struct front_entry){.spec = *spec, .ctx = ctx->number, .kernel = kernel};
}

/* The table, for a spec that is not in the front. Not inlined: a hit in the front shall save no registers for it. */
static __attribute__((noinline)) gdpa_status kernel_borrow_table(gdpa_ctx *ctx, const gdpa_spec *spec,
                                                                 struct CUstream_st *stream, gdpa_kernel **kernel)
{
    if (spec->size != sizeof *spec) {
        return kernel_get_slowly(ctx, spec, stream, kernel);
    }
    gdpa_spec key = *spec;
    int arch = key.arch;
    if (arch != 0 || arch_at_hand(ctx, stream, &arch)) {
        key.arch = arch;
        gdpa_kernel *found = kernel_table_find(&ctx->table, kernel_table_hash(&key), &key);
        if (found != NULL) {
            struct thread_block *own = thread_block_get();
            hit_count(ctx, own);
            front_keep(ctx, own, spec, found);
            *kernel = found;
            return GDPA_OK;
        }
    }
    return kernel_get_slowly(ctx, spec, stream, kernel);
}

static inline gdpa_kernel *front_find(const struct thread_block *own, const gdpa_ctx *ctx, const gdpa_spec *spec)
{
    if (__builtin_expect(own == NULL || spec->size != sizeof *spec, 0)) {
        return NULL;
    }
    const struct front_entry *entry = &own->front[front_index(spec)];
    return __builtin_expect(front_matches(entry, ctx->number, spec), 1) ? entry->kernel : NULL;
}

gdpa_kernel *kernel_at_hand(const gdpa_ctx *ctx, const gdpa_spec *spec)
{
    return front_find(thread_own, ctx, spec);
}

void kernel_hit(gdpa_ctx *ctx)
{
    hit_count(ctx, thread_own);
}

gdpa_status kernel_borrow(gdpa_ctx *ctx, const gdpa_spec *spec, struct CUstream_st *stream, gdpa_kernel **kernel)
{
    gdpa_kernel *found = kernel_at_hand(ctx, spec);
    if (found == NULL) {
        return kernel_borrow_table(ctx, spec, stream, kernel);
    }
    kernel_hit(ctx);
    *kernel = found;
    return GDPA_OK;
}

gdpa_status gdpa_kernel_get(gdpa_ctx *ctx, const gdpa_spec *spec, gdpa_kernel **kernel)
{
    FAIL_IF(ctx == NULL || spec == NULL || kernel == NULL, GDPA_E_ARGUMENT, "%s is NULL",
            ctx == NULL    ? "ctx"
            : spec == NULL ? "spec"
                           : "kernel");
    struct thread_block *own = thread_own;
    gdpa_kernel *found = front_find(own, ctx, spec);
    if (__builtin_expect(found != NULL, 1)) {
        hit_count(ctx, own);
    } else {
        TRY(kernel_borrow_table(ctx, spec, NULL, &found));
    }
    *kernel = gdpa_kernel_retain(found);
    return GDPA_OK;
}
