/*
 * Verify: every entry is read with all its checks; what fails is removed. Before that the structure of the file is
 * checked and its indexes are made anew, after it what belongs to no entry is swept away, so that a file that passed is
 * as good as new.
 */
#include "cache/internal.h"

#include <stdlib.h>
#include <string.h>

struct candidate {
    int64_t id;
    struct cache_key key;
    bool key_read;
};

struct candidates {
    struct candidate *items;
    size_t count, capacity;
};

static bool writable(const struct cache *cache)
{
    return !cache->database.read_only && !cache->writes_off;
}

static int check_structure(struct cache *cache)
{
    sqlite3_stmt *statement = NULL;
    int error = sqlite3_prepare_v2(cache->database.handle, "PRAGMA quick_check(1)", -1, &statement, NULL);
    if (error == SQLITE_OK) {
        error = sqlite3_step(statement);
        if (error == SQLITE_ROW) {
            const unsigned char *answer = sqlite3_column_text(statement, 0);
            error = answer && strcmp((const char *)answer, "ok") == 0 ? SQLITE_OK : SQLITE_CORRUPT;
        }
    }
    (void)sqlite3_finalize(statement);
    return error;
}

static int run_in_transaction(struct cache *cache, const char *sql)
{
    int error = cache_database_begin_write(&cache->database, CACHE_BUSY_MS);
    if (error == SQLITE_OK) {
        error = cache_database_end(&cache->database, sqlite3_exec(cache->database.handle, sql, NULL, NULL, NULL));
    }
    return error;
}

static struct candidate *add_candidate(struct candidates *all)
{
    if (all->count == all->capacity) {
        size_t capacity = all->capacity ? 2 * all->capacity : 256;
        struct candidate *grown = realloc(all->items, capacity * sizeof *grown);
        if (!grown) {
            return NULL;
        }
        all->items = grown;
        all->capacity = capacity;
    }
    return &all->items[all->count++];
}

static int collect(struct cache *cache, struct candidates *all)
{
    int error;
    sqlite3_stmt *statement = cache_database_statement(&cache->database, CACHE_SQL_KEYS, &error);
    if (!statement) {
        return error;
    }
    while ((error = sqlite3_step(statement)) == SQLITE_ROW) {
        struct candidate *candidate = add_candidate(all);
        if (!candidate) {
            error = SQLITE_NOMEM;
            break;
        }
        const void *key = sqlite3_column_blob(statement, 1);
        candidate->id = sqlite3_column_int64(statement, 0);
        candidate->key_read = key && sqlite3_column_bytes(statement, 1) == sizeof candidate->key.bytes;
        if (candidate->key_read) {
            memcpy(candidate->key.bytes, key, sizeof candidate->key.bytes);
        }
    }
    (void)sqlite3_reset(statement);
    return error == SQLITE_DONE ? SQLITE_OK : error;
}

static int remove_without_key(struct cache *cache, int64_t id)
{
    atomic_fetch_add(&cache->bad, 1);
    if (!writable(cache)) {
        return SQLITE_OK;
    }
    int error = cache_database_begin_write(&cache->database, CACHE_BUSY_MS);
    if (error == SQLITE_OK) {
        error = cache_database_end(&cache->database, cache_database_delete(&cache->database, id));
    }
    return error;
}

struct verdict {
    int64_t good, bad;
    enum cache_result result; /* CACHE_OK: go on */
};

/* One entry under the lock; the check of the caller runs outside of it. */
static bool read_candidate(struct cache *cache, const struct candidate *candidate, struct verdict *verdict,
                           struct cache_entry *entry)
{
    if (!cache_enter(cache)) {
        verdict->result = CACHE_UNUSABLE;
        return false;
    }
    const struct cache_bytes any = {NULL, 0};
    uint64_t bad_before = cache_bad_entries(cache);
    enum cache_result result = CACHE_MISS;
    if (candidate->key_read) {
        result = cache_read(cache, &candidate->key, &any, true, entry);
    } else {
        int error = remove_without_key(cache, candidate->id);
        if (error != SQLITE_OK) {
            (void)cache_failed(cache, error, true, "remove a bad entry");
        }
    }
    /* Neither good nor bad: another process removed it meanwhile. In a read-only file the index does not lead to it. */
    if (result == CACHE_MISS && (cache_bad_entries(cache) != bad_before || cache->database.read_only)) {
        verdict->bad++;
    } else if (result == CACHE_MEMORY) {
        verdict->result = CACHE_MEMORY;
    }
    cache_leave(cache);
    return result == CACHE_OK;
}

static void check_candidate(struct cache *cache, const struct candidate *candidate,
                            bool (*code_ok)(const struct cache_entry *entry, void *user), void *user,
                            struct verdict *verdict)
{
    struct cache_entry entry;
    if (!read_candidate(cache, candidate, verdict, &entry)) {
        return;
    }
    if (!code_ok || code_ok(&entry, user)) {
        verdict->good++;
    } else {
        verdict->bad++;
        atomic_fetch_add(&cache->bad, 1);
        (void)cache_remove(cache, &candidate->key, NULL);
    }
    cache_entry_deinit(&entry);
}

/* The first steps, under one lock. A structure that is damaged costs all entries. */
static enum cache_result prepare(struct cache *cache, struct candidates *all, int64_t *lost)
{
    (void)cache_reopen_if_moved(cache);
    if (!cache->open) {
        return CACHE_UNUSABLE;
    }
    int64_t entries = 0;
    (void)cache_database_number(&cache->database, CACHE_SQL_COUNT_ENTRIES, &entries);
    int error = check_structure(cache);
    if (error == SQLITE_OK && writable(cache)) {
        error = run_in_transaction(cache, "REINDEX");
    }
    if (error == SQLITE_OK) {
        error = collect(cache, all);
    }
    if (error == SQLITE_OK) {
        return CACHE_OK;
    }
    unsigned generation = cache->generation;
    enum cache_result result = cache_failed(cache, error, false, "verify the database");
    if (cache->open && cache->generation != generation) {
        *lost = entries; /* set aside; the new database has nothing to check */
        all->count = 0;
        return CACHE_OK;
    }
    return result == CACHE_MEMORY ? CACHE_MEMORY : CACHE_UNUSABLE;
}

int cache_sweep(struct cache *cache)
{
    static const char sql[] = "DELETE FROM code WHERE id NOT IN (SELECT id FROM kernel);"
                              "DELETE FROM aux WHERE id NOT IN (SELECT id FROM kernel);"
                              "DELETE FROM use WHERE id NOT IN (SELECT id FROM kernel);"
                              "INSERT OR IGNORE INTO use(id, sequence, hits) SELECT id, 0, 0 FROM kernel";
    return run_in_transaction(cache, sql);
}

static void sweep(struct cache *cache)
{
    if (!cache_enter(cache)) {
        return;
    }
    if (writable(cache)) {
        int error = cache_sweep(cache);
        if (error != SQLITE_OK) {
            (void)cache_failed(cache, error, true, "sweep the database");
        }
    }
    cache_leave(cache);
}

enum cache_result cache_verify(struct cache *cache, bool (*code_ok)(const struct cache_entry *entry, void *user),
                               void *user, int64_t *good, int64_t *bad)
{
    if (!cache_enter(cache)) {
        return CACHE_UNUSABLE;
    }
    struct candidates all = {NULL, 0, 0};
    struct verdict verdict = {0, 0, CACHE_OK};
    verdict.result = prepare(cache, &all, &verdict.bad);
    cache_leave(cache);
    for (size_t i = 0; verdict.result == CACHE_OK && i < all.count; i++) {
        check_candidate(cache, &all.items[i], code_ok, user, &verdict);
    }
    if (verdict.result == CACHE_OK) {
        sweep(cache);
        *good = verdict.good;
        *bad = verdict.bad;
    }
    free(all.items);
    return verdict.result;
}
