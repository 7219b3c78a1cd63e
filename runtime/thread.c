/*
 * The blocks of all threads; see thread.h.
 */
#include "runtime/thread.h"
#include "runtime/process.h"

#include <pthread.h>
#include <stdlib.h>

static_assert(sizeof(gdpa_spec) == SPEC_WORDS * sizeof(uint64_t), "specs are compared word by word");
static_assert(1 << FRONT_BITS == FRONT_SIZE, "an index has FRONT_BITS bits");

_Thread_local struct thread_block *thread_own;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct thread_block *blocks;
static pthread_key_t end_key;
static bool end_key_usable;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* With the lock held: what was counted passes to the context, if there still is one. */
static void counts_give(struct thread_counts *counts)
{
    const uint64_t ctx = atomic_load_explicit(&counts->ctx, memory_order_relaxed);
    if (ctx != 0) {
        process_counts_add(ctx, atomic_load_explicit(&counts->memory_hits, memory_order_relaxed),
                           atomic_load_explicit(&counts->launches, memory_order_relaxed));
    }
    atomic_store_explicit(&counts->ctx, 0, memory_order_relaxed);
    atomic_store_explicit(&counts->memory_hits, 0, memory_order_relaxed);
    atomic_store_explicit(&counts->launches, 0, memory_order_relaxed);
}

static void thread_ends(void *memory)
{
    struct thread_block *block = memory;
    pthread_mutex_lock(&lock);
    struct thread_block **link = &blocks;
    while (*link != block) {
        link = &(*link)->next;
    }
    *link = block->next;
    for (int i = 0; i < THREAD_CONTEXTS; i++) {
        counts_give(&block->counts[i]);
    }
    pthread_mutex_unlock(&lock);
    thread_own = NULL;
    free(block);
}

static void key_make(void)
{
    end_key_usable = pthread_key_create(&end_key, thread_ends) == 0;
}

struct thread_block *thread_block_make(void)
{
    void *memory = NULL;
    pthread_once(&once, key_make);
    if (!end_key_usable || posix_memalign(&memory, 64, sizeof(struct thread_block)) != 0) {
        return NULL;
    }
    struct thread_block *block = memory;
    memset(block, 0, sizeof *block);
    if (pthread_setspecific(end_key, block) != 0) {
        free(block);
        return NULL;
    }
    pthread_mutex_lock(&lock);
    block->next = blocks;
    blocks = block;
    pthread_mutex_unlock(&lock);
    thread_own = block;
    return block;
}

/* The context asked for comes to the first place, where thread_counts_get looks without a call. */
struct thread_counts *thread_counts_make(struct thread_block *block, uint64_t ctx)
{
    struct thread_counts *counts = NULL;
    for (int i = 0; i < THREAD_CONTEXTS && counts == NULL; i++) {
        if (atomic_load_explicit(&block->counts[i].ctx, memory_order_relaxed) == ctx) {
            return &block->counts[i];
        }
    }
    pthread_mutex_lock(&lock);
    counts = &block->counts[block->next_counts];
    block->next_counts = (block->next_counts + 1) % THREAD_CONTEXTS;
    counts_give(counts);
    atomic_store_explicit(&counts->ctx, ctx, memory_order_relaxed);
    pthread_mutex_unlock(&lock);
    return counts;
}

void thread_counts_sum(uint64_t ctx, uint64_t *memory_hits, uint64_t *launches)
{
    pthread_mutex_lock(&lock);
    for (const struct thread_block *block = blocks; block != NULL; block = block->next) {
        for (int i = 0; i < THREAD_CONTEXTS; i++) {
            const struct thread_counts *counts = &block->counts[i];
            if (atomic_load_explicit(&counts->ctx, memory_order_relaxed) == ctx) {
                *memory_hits += atomic_load_explicit(&counts->memory_hits, memory_order_relaxed);
                *launches += atomic_load_explicit(&counts->launches, memory_order_relaxed);
            }
        }
    }
    pthread_mutex_unlock(&lock);
}

void thread_fork_prepare(void)
{
    pthread_mutex_lock(&lock);
}

void thread_fork_done(void)
{
    pthread_mutex_unlock(&lock);
}
