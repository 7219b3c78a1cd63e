/*
 * Which keys this process has used, so that their place in the order of use is written at most once while it runs, and
 * the number of hits once more at the end: a hit must not cost a write each time.
 */
#include "cache/internal.h"

#include <stdlib.h>
#include <string.h>

static size_t slot_of(const struct cache_recency *recency, const struct cache_key *key)
{
    /* The key is a hash already. */
    uint64_t start;
    memcpy(&start, key->bytes, sizeof start);
    size_t slot = (size_t)start & (recency->capacity - 1);
    while (recency->slots[slot].taken && memcmp(&recency->slots[slot].key, key, sizeof *key) != 0) {
        slot = (slot + 1) & (recency->capacity - 1);
    }
    return slot;
}

/* At most three quarters full, so that every search ends. */
static bool make_room(struct cache_recency *recency)
{
    if (recency->capacity > 0 && recency->count < recency->capacity / 4 * 3) {
        return true;
    }
    struct cache_recency grown = {.capacity = recency->capacity ? 2 * recency->capacity : 64,
                                  .count = recency->count,
                                  .waiting = recency->waiting};
    grown.slots = calloc(grown.capacity, sizeof *grown.slots);
    if (!grown.slots) {
        return false;
    }
    for (size_t i = 0; i < recency->capacity; i++) {
        if (recency->slots[i].taken) {
            grown.slots[slot_of(&grown, &recency->slots[i].key)] = recency->slots[i];
        }
    }
    free(recency->slots);
    *recency = grown;
    return true;
}

void cache_recency_note(struct cache_recency *recency, const struct cache_key *key)
{
    if (!make_room(recency)) {
        return;
    }
    struct cache_touch *touch = &recency->slots[slot_of(recency, key)];
    if (!touch->taken) {
        *touch = (struct cache_touch){.key = *key, .taken = true};
        recency->count++;
        recency->waiting++;
    }
    if (touch->hits < UINT32_MAX) {
        touch->hits++;
    }
}

void cache_recency_deinit(struct cache_recency *recency)
{
    free(recency->slots);
    memset(recency, 0, sizeof *recency);
}

static bool is_due(const struct cache_touch *touch, bool all)
{
    return touch->taken && touch->hits > 0 && (all || !touch->written);
}

int cache_recency_write(struct cache_recency *recency, struct cache_database *database, bool all)
{
    int error = cache_database_do(database, CACHE_SQL_TICK, "");
    for (size_t i = 0; error == SQLITE_OK && i < recency->capacity; i++) {
        struct cache_touch *touch = &recency->slots[i];
        if (is_due(touch, all)) {
            const struct cache_bytes key = {touch->key.bytes, sizeof touch->key.bytes};
            error = cache_database_do(database, CACHE_SQL_TOUCH, "bi", &key, (int64_t)touch->hits);
        }
    }
    return error;
}

void cache_recency_written(struct cache_recency *recency, bool all)
{
    for (size_t i = 0; i < recency->capacity; i++) {
        if (is_due(&recency->slots[i], all)) {
            recency->slots[i].hits = 0;
            recency->slots[i].written = true;
        }
    }
    recency->waiting = 0;
}
