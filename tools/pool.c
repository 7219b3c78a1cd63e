/*
 * Many items of work on several threads; see pool.h.
 */
#include "tools/pool.h"

#include "tools/progress.h"
#include "tools/tool.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Shared by the caller and its threads; freed by whoever leaves last. */
struct pool {
    struct pool_work work;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* an item is over */
    enum pool_state *states;
    double *started;  /* seconds, of each item */
    size_t next;      /* first item not begun */
    size_t done;      /* items over */
    size_t running;   /* threads whose item is in time */
    size_t threads;   /* threads alive, late ones too */
    size_t able;      /* of them, those that take more items */
    bool stop;        /* begin no more */
    bool caller_left; /* pool_run has returned: drop results */
};

static void pool_free(struct pool *pool)
{
    pthread_cond_destroy(&pool->changed);
    pthread_mutex_destroy(&pool->lock);
    free(pool->states);
    free(pool->started);
    free(pool);
}

/* Runs one item with the lock given up meanwhile. False when the item was given up: the thread's place is taken. */
static bool run_item(struct pool *pool, size_t item)
{
    void *result = tool_alloc(pool->work.result_size);
    memset(result, 0, pool->work.result_size);
    pool->states[item] = POOL_RUNNING;
    pool->started[item] = clock_seconds();
    pool->running++;
    pthread_mutex_unlock(&pool->lock);
    pool->work.run(item, result, pool->work.user);
    pthread_mutex_lock(&pool->lock);
    bool in_time = pool->states[item] == POOL_RUNNING;
    if (in_time) {
        pool->states[item] = POOL_DONE;
        pool->running--;
        pool->done++;
        if (!pool->work.over(item, result, pool->work.user)) {
            pool->stop = true;
        }
    }
    free(result);
    return in_time;
}

static void *worker(void *argument)
{
    struct pool *pool = argument;
    pthread_mutex_lock(&pool->lock);
    bool in_time = true;
    while (in_time && !pool->stop && pool->next < pool->work.count) {
        in_time = run_item(pool, pool->next++);
        pthread_cond_signal(&pool->changed);
    }
    pool->threads--;
    pool->able -= in_time ? 1U : 0U;
    bool last = pool->threads == 0 && pool->caller_left;
    pthread_cond_signal(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
    if (last) {
        pool_free(pool);
    }
    return NULL;
}

/* With the lock held. False when the system gives no thread. */
static bool start_worker(struct pool *pool)
{
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    bool started = pthread_create(&thread, &attributes, worker, pool) == 0;
    pthread_attr_destroy(&attributes);
    pool->threads += started ? 1U : 0U;
    pool->able += started ? 1U : 0U;
    return started;
}

/* Gives up what is late, with the lock held. */
static void give_up_late(struct pool *pool)
{
    if (pool->work.timeout <= 0) {
        return;
    }
    double now = clock_seconds();
    for (size_t item = 0; item < pool->next; item++) {
        if (pool->states[item] != POOL_RUNNING || now - pool->started[item] < pool->work.timeout) {
            continue;
        }
        pool->states[item] = POOL_TIMED_OUT;
        pool->running--;
        pool->able--;
        pool->done++;
        if (!pool->work.over(item, NULL, pool->work.user)) {
            pool->stop = true;
        }
        if (!pool->stop && pool->next < pool->work.count) {
            start_worker(pool);
        }
    }
}

/* The item that was begun last of those in work; count when there is none. */
static size_t running_item(const struct pool *pool)
{
    for (size_t item = pool->next; item-- > 0;) {
        if (pool->states[item] == POOL_RUNNING) {
            return item;
        }
    }
    return pool->work.count;
}

static void wait_a_little(struct pool *pool)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += 100000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_cond_timedwait(&pool->changed, &pool->lock, &until);
}

static struct pool *pool_create(const struct pool_work *work)
{
    struct pool *pool = tool_alloc(sizeof *pool);
    memset(pool, 0, sizeof *pool);
    pool->work = *work;
    pool->states = tool_alloc(work->count * sizeof *pool->states);
    pool->started = tool_alloc(work->count * sizeof *pool->started);
    for (size_t i = 0; i < work->count; i++) {
        pool->states[i] = POOL_WAITING;
        pool->started[i] = 0;
    }
    pthread_mutex_init(&pool->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&pool->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    return pool;
}

/* The system gives no thread: the caller does the work, one item after another. */
static void run_here(struct pool *pool)
{
    while (!pool->stop && pool->next < pool->work.count) {
        run_item(pool, pool->next++);
        if (!pool->work.tick(pool->done, running_item(pool), pool->work.user)) {
            pool->stop = true;
        }
    }
}

size_t pool_run(const struct pool_work *work, enum pool_state *states)
{
    struct pool *pool = pool_create(work);
    pthread_mutex_lock(&pool->lock);
    for (int i = 0; i < work->threads && (size_t)i < work->count; i++) {
        start_worker(pool);
    }
    while (pool->running > 0 || (!pool->stop && pool->next < work->count)) {
        if (pool->able == 0) {
            run_here(pool);
            continue;
        }
        wait_a_little(pool);
        give_up_late(pool);
        if (!work->tick(pool->done, running_item(pool), work->user)) {
            pool->stop = true;
        }
    }
    for (size_t i = 0; i < work->count; i++) {
        states[i] = pool->states[i];
    }
    /* The threads that are done leave at once; late ones hold on to the pool. */
    size_t late = 0;
    for (size_t i = 0; i < work->count; i++) {
        late += states[i] == POOL_TIMED_OUT ? 1U : 0U;
    }
    while (pool->threads > late) {
        wait_a_little(pool);
    }
    late = pool->threads;
    pool->caller_left = true;
    pthread_mutex_unlock(&pool->lock);
    if (late == 0) {
        pool_free(pool);
    }
    return late;
}
