/*
 * Contexts by number, and the handlers of pthread_atfork; see process.h.
 *
 * Before a fork the short locks are taken, in the order default, threads, contexts, then those of each context, so that
 * the child finds every list whole. The lock for opening may be held for seconds, by a thread that waits for something
 * the forking one holds (the interpreter lock of Python, say): it is waited for only so long, and made anew in the child.
 */
#include "runtime/process.h"
#include "runtime/kernel.h"
#include "runtime/thread.h"

#include <stdlib.h>
#include <time.h>

#define OPEN_WAIT_MS 500

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static gdpa_ctx *contexts;
static atomic_uint_fast64_t last_number;
static pthread_once_t once = PTHREAD_ONCE_INIT;

uint64_t process_number(void)
{
    return atomic_fetch_add_explicit(&last_number, 1, memory_order_relaxed) + 1;
}

static void fork_prepare(void)
{
    struct timespec until;
    context_fork_prepare();
    thread_fork_prepare();
    pthread_mutex_lock(&lock);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += OPEN_WAIT_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    for (gdpa_ctx *ctx = contexts; ctx != NULL; ctx = ctx->next) {
        pthread_mutex_lock(&ctx->crew.lock);
        pthread_mutex_lock(&ctx->flight_lock);
        pthread_mutex_lock(&ctx->table.lock);
        ctx->open_lock_taken = pthread_mutex_timedlock(&ctx->open_lock, &until) == 0;
    }
}

static void context_unlock(gdpa_ctx *ctx)
{
    if (ctx->open_lock_taken) {
        pthread_mutex_unlock(&ctx->open_lock);
    }
    pthread_mutex_unlock(&ctx->table.lock);
    pthread_mutex_unlock(&ctx->flight_lock);
    pthread_mutex_unlock(&ctx->crew.lock);
}

static void lists_unlock(void)
{
    pthread_mutex_unlock(&lock);
    thread_fork_done();
    context_fork_done();
}

static void fork_done(void)
{
    for (gdpa_ctx *ctx = contexts; ctx != NULL; ctx = ctx->next) {
        context_unlock(ctx);
    }
    lists_unlock();
}

static void fork_child(void)
{
    for (gdpa_ctx *ctx = contexts; ctx != NULL; ctx = ctx->next) {
        if (!ctx->open_lock_taken) {
            pthread_mutex_init(&ctx->open_lock, NULL);
            ctx->open_lock_taken = false;
        }
        context_unlock(ctx);
        context_in_child(ctx);
    }
    lists_unlock();
}

static void handlers_install(void)
{
    pthread_atfork(fork_prepare, fork_done, fork_child);
}

void process_add(gdpa_ctx *ctx)
{
    pthread_once(&once, handlers_install);
    ctx->number = process_number();
    pthread_mutex_lock(&lock);
    ctx->next = contexts;
    contexts = ctx;
    pthread_mutex_unlock(&lock);
}

void process_remove(gdpa_ctx *ctx)
{
    pthread_mutex_lock(&lock);
    gdpa_ctx **link = &contexts;
    while (*link != NULL && *link != ctx) {
        link = &(*link)->next;
    }
    if (*link != NULL) {
        *link = ctx->next;
    }
    pthread_mutex_unlock(&lock);
}

/* False for a context that is on its way out. With the lock held, without which its memory does not go. */
static bool context_try_retain(gdpa_ctx *ctx)
{
    int references = atomic_load(&ctx->references);
    while (references > 0 && !atomic_compare_exchange_weak(&ctx->references, &references, references + 1)) {
    }
    return references > 0;
}

/* One context after the other, without the lock: workers that end need it. */
static void workers_wait(void)
{
    uint64_t done = UINT64_MAX;
    for (;;) {
        pthread_mutex_lock(&lock);
        gdpa_ctx *ctx = contexts;
        while (ctx != NULL && (ctx->number >= done || !context_try_retain(ctx))) {
            ctx = ctx->next;
        }
        done = ctx != NULL ? ctx->number : 0;
        pthread_mutex_unlock(&lock);
        if (ctx == NULL) {
            return;
        }
        crew_stop(ctx);
        context_release(ctx);
    }
}

static void exit_handler_install(void)
{
    atexit(workers_wait);
}

void process_wait_at_exit(void)
{
    static pthread_once_t exit_once = PTHREAD_ONCE_INIT;
    pthread_once(&exit_once, exit_handler_install);
}

void process_counts_add(uint64_t ctx, uint64_t memory_hits, uint64_t launches)
{
    pthread_mutex_lock(&lock);
    gdpa_ctx *found = contexts;
    while (found != NULL && found->number != ctx) {
        found = found->next;
    }
    if (found != NULL) {
        counter_add(&found->counters.memory_hits, memory_hits);
        counter_add(&found->counters.launches, launches);
    }
    pthread_mutex_unlock(&lock);
}
