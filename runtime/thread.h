/*
 * What each thread keeps for itself, so that look-ups and launches share nothing that is written: the kernels it asked
 * for last, its counts, the tensor maps it encoded last.
 *
 * A block is made at the first call of a thread that can use one, and lives until the thread ends. A thread that gets
 * none for lack of memory does without, through the shared table and counters.
 *
 * Contexts and kernels are named by numbers that are never used again, so that what is kept of one that is gone can
 * never be taken for another at the same address.
 */
#ifndef GDPA_RUNTIME_THREAD_H
#define GDPA_RUNTIME_THREAD_H

#include "include/gdpajit.h"
#include "templates/params.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

enum {
    FRONT_SIZE = 16,
    FRONT_BITS = 4,
    THREAD_CONTEXTS = 4,
    THREAD_MAPS_BITS = 3,
    THREAD_MAPS = 1 << THREAD_MAPS_BITS
};

/* A spec as a caller wrote it, and its kernel in a context. */
struct front_entry {
    gdpa_spec spec;
    uint64_t ctx; /* 0: free */
    gdpa_kernel *kernel;
};

/* Written by their thread alone, read by gdpa_ctx_stats: plain adds, but no torn reads. */
struct thread_counts {
    atomic_uint_fast64_t ctx; /* 0: free */
    atomic_uint_fast64_t memory_hits, launches;
};

/* All that the maps of a kernel are made of, but what is of o alone: callers often have a new o for the same inputs. */
struct thread_maps_key {
    uint64_t kernel; /* 0: free */
    const void *data[3];
    int64_t strides[9];
    int64_t rows_q, rows_k;
    int32_t batch, heads_q, heads_per_group, unused;
};

struct thread_maps {
    struct gdpa_fwd_sm90_params params; /* its maps; `common` is written by each launch */
    struct thread_maps_key key;
    const void *output;
    int64_t output_strides[3]; /* batch, row, head */
};

struct thread_block {
    struct front_entry front[FRONT_SIZE];
    struct thread_counts counts[THREAD_CONTEXTS];
    int next_counts; /* the one to give up next */
    struct thread_maps maps[THREAD_MAPS];
    struct thread_block *next; /* of all threads; under the lock of thread.c */
};

/* NULL until thread_block_get has made it. A pointer alone, so that it fits where a library loaded late finds room. */
extern _Thread_local struct thread_block *thread_own __attribute__((tls_model("initial-exec"), visibility("hidden")));

struct thread_block *thread_block_make(void);

/* NULL for lack of memory. */
static inline struct thread_block *thread_block_get(void)
{
    struct thread_block *block = thread_own;
    return block != NULL ? block : thread_block_make();
}

/* Ten words: no call of memcmp, no hash of every byte. */
enum { SPEC_WORDS = 10 };

/* One by one: a copy of the whole spec would go through the stack. */
static inline uint64_t word_of(const void *words, size_t index)
{
    uint64_t word;
    memcpy(&word, (const char *)words + index * sizeof word, sizeof word);
    return word;
}

static inline uint64_t word_rotated(const void *words, size_t index, int bits)
{
    const uint64_t word = word_of(words, index);
    return word << bits | word >> (64 - bits);
}

/* Two fields a word, small numbers: rotated apart, mixed side by side and not one after the other, which takes longer. */
static inline size_t front_index(const gdpa_spec *spec)
{
    const uint64_t low =
        (word_of(spec, 1) ^ word_rotated(spec, 2, 7)) ^ (word_rotated(spec, 3, 13) ^ word_rotated(spec, 4, 19));
    const uint64_t high = (word_rotated(spec, 5, 29) ^ word_rotated(spec, 6, 37)) ^
                          (word_rotated(spec, 7, 43) ^ word_rotated(spec, 8, 51));
    const uint64_t mixed = low ^ high ^ word_rotated(spec, 9, 59);
    return (mixed ^ mixed >> 32) * UINT64_C(0x9e3779b97f4a7c15) >> (64 - FRONT_BITS);
}

static inline uint64_t words_differ(const void *a, const void *b, size_t first)
{
    return (word_of(a, first) ^ word_of(b, first)) | (word_of(a, first + 1) ^ word_of(b, first + 1));
}

static inline bool front_matches(const struct front_entry *entry, uint64_t ctx, const gdpa_spec *spec)
{
    const gdpa_spec *kept = &entry->spec;
    const uint64_t low = words_differ(kept, spec, 0) | words_differ(kept, spec, 2);
    const uint64_t high = words_differ(kept, spec, 4) | words_differ(kept, spec, 6);
    return (low | high | words_differ(kept, spec, 8) | (entry->ctx ^ ctx)) == 0;
}

/* The counts of this thread for a context; gives up those of another where there are too many. */
struct thread_counts *thread_counts_make(struct thread_block *block, uint64_t ctx);

static inline struct thread_counts *thread_counts_get(struct thread_block *block, uint64_t ctx)
{
    struct thread_counts *first = &block->counts[0];
    return atomic_load_explicit(&first->ctx, memory_order_relaxed) == ctx ? first : thread_counts_make(block, ctx);
}

static inline void thread_count(atomic_uint_fast64_t *own)
{
    const uint_fast64_t value = atomic_load_explicit(own, memory_order_relaxed);
    atomic_store_explicit(own, value + 1, memory_order_relaxed);
}

/* Adds what the threads of now have counted for a context. */
void thread_counts_sum(uint64_t ctx, uint64_t *memory_hits, uint64_t *launches);

/*
 * Around a fork: no other thread changes the list of blocks meanwhile. In the child the blocks of the threads that it
 * does not have stay, with their counts.
 */
void thread_fork_prepare(void);
void thread_fork_done(void);

#endif
