/*
 * The context: what all kernels of one gdpa_ctx share. Cache, compiler and driver are opened when first needed.
 */
#ifndef GDPA_RUNTIME_CONTEXT_H
#define GDPA_RUNTIME_CONTEXT_H

#include "cache/cache.h"
#include "runtime/driver.h"
#include "runtime/env.h"
#include "runtime/kernel_table.h"
#include "runtime/log.h"
#include "runtime/nvrtc.h"
#include "runtime/packs.h"
#include "runtime/request.h"
#include "runtime/trace.h"

#include <stdatomic.h>

struct flight;

struct counters {
    atomic_uint_fast64_t memory_hits, disk_hits, compiles, compile_failures, waits, bad_entries, launches,
        process_waits;
    atomic_uint_fast64_t generate_ns, compile_ns, load_ns;
};

/* A choice, and who made it: an option, a variable or the default. */
struct setting {
    char *value; /* NULL: none */
    const char *origin;
};

/* The outcome of opening something, for every later call and for gdpa_ctx_describe. */
struct opening {
    atomic_bool done;
    gdpa_status status;
    struct sbuf text; /* why it failed, or what was tried */
};

struct gdpa_ctx {
    gdpa_allocator allocator;
    uint64_t number;       /* of no other context of this process, ever */
    atomic_int references; /* 1 for the caller, 1 for every kernel that somebody holds */
    int mode;              /* gdpa_mode, never DEFAULT */
    const char *mode_origin;
    char *cache_local; /* the folder in place of cache_dir; NULL: that itself, or cache_placed is not set */
    bool cache_placed; /* when packs or cache are opened */
    int capture;       /* gdpa_capture, never DEFAULT */
    int jobs;          /* compiles at a time, at least 1 */
    struct setting cache_dir, nvrtc_path, driver_path, packs, trace_path;
    struct trace trace;
    bool cache_shared;
    int64_t cache_limit, cache_wait_ns;
    struct env env;
    struct log log;
    struct counters counters;

    pthread_mutex_t open_lock;
    struct opening cache_opening, packs_opening, nvrtc_opening, older_opening, driver_opening, device_opening;
    struct cache *cache;
    struct packs packs_open;
    struct nvrtc *nvrtc;
    struct nvrtc *older; /* in its place where it can, once the driver has refused what the other made */
    struct driver *driver;

    struct kernel_table table;
    gdpa_kernel *kernels; /* all, linked; changed under flight_lock */
    pthread_mutex_t flight_lock;
    struct flight *flights; /* being made */

    struct crew crew;

    gdpa_ctx *next;       /* of this process; under the lock of process.c */
    bool open_lock_taken; /* between the two ends of a fork */
};

/* Each opens at the first call; later ones give the same answer. `why` gets the reason of a failure. */
struct cache *context_cache(gdpa_ctx *ctx);       /* NULL: there is none, or the mode is off */
const struct packs *context_packs(gdpa_ctx *ctx); /* none in mode off */
gdpa_status context_nvrtc(gdpa_ctx *ctx, const struct nvrtc **nvrtc, struct sbuf *why);
gdpa_status context_older_nvrtc(gdpa_ctx *ctx, const struct nvrtc **nvrtc, struct sbuf *why); /* than the driver */
const struct nvrtc *context_older_known(gdpa_ctx *ctx); /* of an earlier call of that; NULL: none */
gdpa_status context_driver(gdpa_ctx *ctx, struct driver **driver, struct sbuf *why);  /* loaded */
gdpa_status context_devices(gdpa_ctx *ctx, struct driver **driver, struct sbuf *why); /* and started */

/* Why there is no cache: for messages. */
const char *context_cache_absence(const gdpa_ctx *ctx);

void context_retain(gdpa_ctx *ctx);
void context_release(gdpa_ctx *ctx);

/* Around a fork, called by process.c: the lock of the default context; and what a child must not keep of the parent. */
void context_fork_prepare(void);
void context_fork_done(void);
void context_in_child(gdpa_ctx *ctx);

/* settings.c: what the options say is legal; they and the environment become the settings; these are freed. */
gdpa_status settings_check(const gdpa_ctx_options *options);
gdpa_status settings_read(gdpa_ctx *ctx, const gdpa_ctx_options *options);
void settings_deinit(gdpa_ctx *ctx);
/* A warning for each variable that looks like ours and is not. */
void settings_report_unknown(gdpa_ctx *ctx);

const char *mode_name(int mode);

static inline void counter_add(atomic_uint_fast64_t *counter, uint64_t amount)
{
    atomic_fetch_add_explicit(counter, amount, memory_order_relaxed);
}

#endif
