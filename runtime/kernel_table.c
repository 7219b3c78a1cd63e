/*
 * An open-addressing table that readers walk without a lock; see kernel_table.h.
 *
 * A writer fills an entry completely before it stores its pointer with release order. When the table is half full a
 * larger array takes over; the old one is kept, because readers may still be in it, and holds the same entries.
 */
#include "runtime/kernel_table.h"

#include <assert.h>
#include <string.h>
#include <xxhash.h>

#define FIRST_CAPACITY 64
#define ALIAS_LIMIT 4096

static_assert(sizeof(gdpa_spec) == sizeof(size_t) + 18 * sizeof(int32_t), "specs are compared as bytes: no padding");

struct table_entry {
    uint64_t hash;
    gdpa_spec spec;
    gdpa_kernel *kernel;
};

struct table_slots {
    struct table_slots *previous; /* the smaller array before this one */
    size_t mask;                  /* capacity - 1 */
    _Atomic(struct table_entry *) at[];
};

uint64_t kernel_table_hash(const gdpa_spec *spec)
{
    return XXH3_64bits(spec, sizeof *spec);
}

static struct table_slots *slots_make(const gdpa_allocator *allocator, size_t capacity)
{
    struct table_slots *slots = memory_alloc(allocator, sizeof *slots + capacity * sizeof slots->at[0]);
    if (slots == NULL) {
        return NULL;
    }
    slots->mask = capacity - 1;
    for (size_t i = 0; i < capacity; i++) {
        atomic_init(&slots->at[i], NULL);
    }
    return slots;
}

bool kernel_table_init(struct kernel_table *table, const gdpa_allocator *allocator)
{
    struct table_slots *slots = slots_make(allocator, FIRST_CAPACITY);
    if (slots == NULL || pthread_mutex_init(&table->lock, NULL) != 0) {
        memory_free(allocator, slots);
        return false;
    }
    atomic_init(&table->slots, slots);
    table->count = 0;
    table->aliases = 0;
    return true;
}

void kernel_table_deinit(struct kernel_table *table, const gdpa_allocator *allocator)
{
    struct table_slots *slots = atomic_load(&table->slots);
    for (size_t i = 0; i <= slots->mask; i++) {
        memory_free(allocator, atomic_load(&slots->at[i]));
    }
    while (slots != NULL) {
        struct table_slots *previous = slots->previous;
        memory_free(allocator, slots);
        slots = previous;
    }
    pthread_mutex_destroy(&table->lock);
}

gdpa_kernel *kernel_table_find(const struct kernel_table *table, uint64_t hash, const gdpa_spec *spec)
{
    const struct table_slots *slots = atomic_load_explicit(&table->slots, memory_order_acquire);
    for (size_t i = (size_t)hash & slots->mask;; i = (i + 1) & slots->mask) {
        const struct table_entry *entry = atomic_load_explicit(&slots->at[i], memory_order_acquire);
        if (entry == NULL) {
            return NULL;
        }
        if (entry->hash == hash && memcmp(&entry->spec, spec, sizeof *spec) == 0) {
            return entry->kernel;
        }
    }
}

static void slots_put(struct table_slots *slots, struct table_entry *entry)
{
    size_t i = (size_t)entry->hash & slots->mask;
    while (atomic_load_explicit(&slots->at[i], memory_order_relaxed) != NULL) {
        i = (i + 1) & slots->mask;
    }
    atomic_store_explicit(&slots->at[i], entry, memory_order_release);
}

static bool slots_grow(struct kernel_table *table, const gdpa_allocator *allocator)
{
    struct table_slots *old = atomic_load_explicit(&table->slots, memory_order_relaxed);
    struct table_slots *slots = slots_make(allocator, 2 * (old->mask + 1));
    if (slots == NULL) {
        return false;
    }
    for (size_t i = 0; i <= old->mask; i++) {
        struct table_entry *entry = atomic_load_explicit(&old->at[i], memory_order_relaxed);
        if (entry != NULL) {
            slots_put(slots, entry);
        }
    }
    slots->previous = old;
    atomic_store_explicit(&table->slots, slots, memory_order_release);
    return true;
}

/* With the lock held. */
static bool entry_add(struct kernel_table *table, const gdpa_allocator *allocator, uint64_t hash, const gdpa_spec *spec,
                      gdpa_kernel *kernel)
{
    struct table_slots *slots = atomic_load_explicit(&table->slots, memory_order_relaxed);
    if (2 * (table->count + 1) > slots->mask + 1) {
        if (!slots_grow(table, allocator)) {
            return false;
        }
        slots = atomic_load_explicit(&table->slots, memory_order_relaxed);
    }
    struct table_entry *entry = memory_alloc(allocator, sizeof *entry);
    if (entry == NULL) {
        return false;
    }
    entry->hash = hash;
    entry->spec = *spec;
    entry->kernel = kernel;
    slots_put(slots, entry);
    table->count++;
    return true;
}

bool kernel_table_add(struct kernel_table *table, const gdpa_allocator *allocator, uint64_t hash, const gdpa_spec *spec,
                      gdpa_kernel *kernel, bool alias)
{
    pthread_mutex_lock(&table->lock);
    bool good = true;
    if (kernel_table_find(table, hash, spec) == NULL && !(alias && table->aliases >= ALIAS_LIMIT)) {
        good = entry_add(table, allocator, hash, spec, kernel);
        table->aliases += good && alias;
    }
    pthread_mutex_unlock(&table->lock);
    return good;
}
