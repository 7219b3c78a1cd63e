/*
 * Kernels in memory: spec -> kernel. Looking up takes no lock; adding does. Entries stay until the table goes.
 *
 * A key is the bytes of a whole gdpa_spec with its arch. The normalised spec of each kernel is one; specs as callers
 * wrote them are others, so that a repeated request needs no normalising.
 */
#ifndef GDPA_RUNTIME_KERNEL_TABLE_H
#define GDPA_RUNTIME_KERNEL_TABLE_H

#include "runtime/memory.h"

#include <pthread.h>
#include <stdatomic.h>

struct table_slots;

struct kernel_table {
    _Atomic(struct table_slots *) slots;
    pthread_mutex_t lock;
    size_t count;   /* entries */
    size_t aliases; /* of these, specs as callers wrote them */
};

bool kernel_table_init(struct kernel_table *table, const gdpa_allocator *allocator);
void kernel_table_deinit(struct kernel_table *table, const gdpa_allocator *allocator);

uint64_t kernel_table_hash(const gdpa_spec *spec);
gdpa_kernel *kernel_table_find(const struct kernel_table *table, uint64_t hash, const gdpa_spec *spec);

/*
 * Adds an entry; one that is there already stays. False for lack of memory. An alias is not added, without harm, when
 * there are very many: callers may put anything into fields that have no effect.
 */
bool kernel_table_add(struct kernel_table *table, const gdpa_allocator *allocator, uint64_t hash, const gdpa_spec *spec,
                      gdpa_kernel *kernel, bool alias);

#endif
