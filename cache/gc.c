/*
 * Upkeep at one go, and what there is to keep up: what `gdpa-jit cache gc` and `stats` ask. A store does the same in
 * small steps (evict.c); none of this sits on the way to a launch.
 */
#include "cache/internal.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define VACUUM_STEP "PRAGMA incremental_vacuum(1024)"

static int count_foreign(struct cache *cache, int64_t *count)
{
    *count = 0;
    if (!cache->version.data) {
        return SQLITE_OK;
    }
    int error;
    sqlite3_stmt *statement = cache_database_statement(&cache->database, CACHE_SQL_COUNT_FOREIGN, &error);
    if (!statement) {
        return error;
    }
    (void)sqlite3_bind_blob64(statement, 1, cache->version.data, cache->version.size, SQLITE_STATIC);
    error = sqlite3_step(statement);
    if (error == SQLITE_ROW) {
        *count = sqlite3_column_int64(statement, 0);
        error = SQLITE_OK;
    }
    (void)sqlite3_reset(statement);
    (void)sqlite3_clear_bindings(statement);
    return error;
}

static int try_lock(const struct cache_folder *folder)
{
    char why[CACHE_WHY_SIZE];
    int fd = cache_lock_open(folder, why);
    int error = fd >= 0 ? cache_lock_try(fd, CACHE_LOCK_TRIAL) : ENOLCK;
    if (fd >= 0) {
        (void)close(fd);
    }
    return error == 0 || error == EAGAIN; /* another process may be trying */
}

static void look_at_place(struct cache *cache, struct cache_details *details)
{
    char why[CACHE_WHY_SIZE];
    struct cache_folder folder;
    details->network = cache->database.network;
    details->locks = -1;
    if (!cache->database.read_only && !cache->writes_off &&
        cache_folder_open_as(cache->dir, false, cache->shared, &folder, why)) {
        details->locks = try_lock(&folder);
        cache_folder_close(&folder);
    }
}

static void look_at_folder(struct cache *cache, bool remove, int64_t *bytes, int64_t *set_aside)
{
    char why[CACHE_WHY_SIZE];
    struct cache_folder folder;
    *bytes = 0;
    *set_aside = 0;
    if (cache_folder_open_as(cache->dir, false, cache->shared, &folder, why)) {
        *bytes = cache_folder_bytes(&folder);
        *set_aside = cache_aside_count(&folder, remove);
        cache_folder_close(&folder);
    }
}

enum cache_result cache_describe(struct cache *cache, struct cache_details *details)
{
    if (!cache_enter(cache)) {
        return CACHE_UNUSABLE;
    }
    struct cache_details found = {.part_bytes = 0};
    int error = count_foreign(cache, &found.foreign_entries);
    if (error == SQLITE_OK) {
        error = cache_database_number(&cache->database, CACHE_SQL_PART_BYTES, &found.part_bytes);
    }
    look_at_folder(cache, false, &found.file_bytes, &found.set_aside);
    look_at_place(cache, &found);
    enum cache_result result = CACHE_OK;
    if (error != SQLITE_OK) {
        result =
            cache_failed(cache, error, false, "describe the database") == CACHE_MEMORY ? CACHE_MEMORY : CACHE_UNUSABLE;
    } else {
        *details = found;
    }
    cache_leave(cache);
    return result;
}

/* Frees what can be freed; a reader elsewhere may put the end of it off, which is no failure. */
static int shrink(struct cache *cache)
{
    int64_t unused = 0, before = -1;
    int error = cache_database_number(&cache->database, CACHE_SQL_FREE_PAGES, &unused);
    while (error == SQLITE_OK && unused > 0 && unused != before) {
        before = unused;
        error = sqlite3_exec(cache->database.handle, VACUUM_STEP, NULL, NULL, NULL);
        if (error == SQLITE_OK) {
            error = cache_database_number(&cache->database, CACHE_SQL_FREE_PAGES, &unused);
        }
    }
    (void)sqlite3_wal_checkpoint_v2(cache->database.handle, "main", SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    return error;
}

static int counts(struct cache *cache, int64_t *entries, int64_t *parts)
{
    int error = cache_database_number(&cache->database, CACHE_SQL_COUNT_ENTRIES, entries);
    return error == SQLITE_OK ? cache_database_number(&cache->database, CACHE_SQL_COUNT_PARTS, parts) : error;
}

static int clean(struct cache *cache, int64_t limit, struct cache_gc *report)
{
    int64_t entries = 0, parts = 0;
    int error = counts(cache, &report->entries, &report->parts);
    if (error == SQLITE_OK) {
        error = cache_sweep(cache);
    }
    if (error == SQLITE_OK && limit > 0) {
        error = cache_evict_fully(cache, limit);
    }
    if (error == SQLITE_OK) {
        error = shrink(cache);
    }
    if (error == SQLITE_OK) {
        error = counts(cache, &entries, &parts);
    }
    report->entries -= entries;
    report->parts -= parts;
    return error;
}

enum cache_result cache_gc(struct cache *cache, int64_t limit_bytes, struct cache_gc *report)
{
    if (!cache_enter(cache)) {
        return CACHE_UNUSABLE;
    }
    enum cache_result result = CACHE_UNUSABLE;
    struct cache_gc done = {.entries = 0};
    int64_t none;
    if (cache_may_write(cache)) {
        /* First what needs no room on the disk. */
        look_at_folder(cache, true, &done.bytes_before, &done.set_aside);
        int error = clean(cache, limit_bytes > 0 ? limit_bytes : cache->limit, &done);
        look_at_folder(cache, false, &done.bytes_after, &none);
        result = error == SQLITE_OK ? CACHE_OK : cache_failed(cache, error, true, "clean up");
    }
    if (result == CACHE_OK) {
        *report = done;
    }
    cache_leave(cache);
    return result;
}
