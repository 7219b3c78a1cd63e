/*
 * One compile a key among processes: waiting for the one that compiles it already.
 */
#ifndef GDPA_RUNTIME_KERNEL_TURN_H
#define GDPA_RUNTIME_KERNEL_TURN_H

#include "cache/cache.h"
#include "runtime/log.h"

#include <stdatomic.h>

struct kernel_turn {
    struct cache *cache;
    const struct cache_key *key;
    const struct log *log;
    const char *name; /* of the kernel, for messages */
    int64_t wait_ns;  /* at most; then it is compiled here as well */
    atomic_uint_fast64_t *waits;
    /* Looks for the kernel on the disk; GDPA_E_NOT_FOUND: not there. */
    gdpa_status (*look)(void *user);
    void *user;
    struct cache_turn lock; /* of kernel_turn_begin */
};

/*
 * GDPA_E_NOT_FOUND: the caller compiles, and tells the others with kernel_turn_end when the kernel is stored. Anything
 * else is the answer of `look`. kernel_turn_end follows in every case.
 */
gdpa_status kernel_turn_begin(struct kernel_turn *turn);
void kernel_turn_end(struct kernel_turn *turn);

#endif
