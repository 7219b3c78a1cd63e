/*
 * Find, list and totals: what the command line asks. None of it sits on the way to a launch.
 */
#include "cache/internal.h"

#include <stdlib.h>
#include <string.h>

static enum cache_result failed(struct cache *cache, int error, const char *doing)
{
    return cache_failed(cache, error, false, doing) == CACHE_MEMORY ? CACHE_MEMORY : CACHE_UNUSABLE;
}

/* ---- Find -------------------------------------------------------------------------------------------------------- */

/* The smallest and the largest key that start with these hexadecimal digits. */
static bool key_range(const char *prefix, struct cache_key *low, struct cache_key *high)
{
    char digits[33];
    size_t length = strlen(prefix);
    if (length == 0 || length > 32) {
        return false;
    }
    memcpy(digits, prefix, length);
    digits[32] = '\0';
    memset(digits + length, '0', 32 - length);
    if (!cache_key_from_hex(digits, low)) {
        return false;
    }
    memset(digits + length, 'f', 32 - length);
    return cache_key_from_hex(digits, high);
}

struct found {
    struct cache_key any, exact;
    int64_t count, exact_count;
};

static int find_all(struct cache *cache, const char *prefix, struct found *found)
{
    int error;
    sqlite3_stmt *statement = cache_database_statement(&cache->database, CACHE_SQL_FIND, &error);
    if (!statement) {
        return error;
    }
    struct cache_key low, high;
    (void)sqlite3_bind_text(statement, 1, prefix, -1, SQLITE_STATIC);
    if (key_range(prefix, &low, &high)) {
        (void)sqlite3_bind_blob(statement, 2, low.bytes, sizeof low.bytes, SQLITE_STATIC);
        (void)sqlite3_bind_blob(statement, 3, high.bytes, sizeof high.bytes, SQLITE_STATIC);
    }
    while ((error = sqlite3_step(statement)) == SQLITE_ROW) {
        const void *key = sqlite3_column_blob(statement, 0);
        if (!key || sqlite3_column_bytes(statement, 0) != sizeof found->any.bytes) {
            continue; /* damaged; whoever reads the entry finds out */
        }
        memcpy(found->any.bytes, key, sizeof found->any.bytes);
        found->count++;
        if (sqlite3_column_int(statement, 1)) {
            found->exact = found->any;
            found->exact_count++;
        }
    }
    (void)sqlite3_reset(statement);
    (void)sqlite3_clear_bindings(statement);
    return error == SQLITE_DONE ? SQLITE_OK : error;
}

enum cache_result cache_find(struct cache *cache, const char *prefix, struct cache_key *key, int64_t *matches)
{
    if (!cache_enter(cache)) {
        return CACHE_UNUSABLE;
    }
    struct found found = {.count = 0};
    int error = find_all(cache, prefix, &found);
    if (error == SQLITE_OK && found.count == 0 && cache_reopen_if_moved(cache)) {
        error = find_all(cache, prefix, &found);
    }
    enum cache_result result = error == SQLITE_OK ? CACHE_OK : failed(cache, error, "find an entry");
    cache_leave(cache);
    if (error != SQLITE_OK) {
        return result;
    }
    if (matches) {
        *matches = found.count;
    }
    /* A whole name is meant even where a longer one starts with it. */
    if (found.exact_count != 1 && found.count != 1) {
        return CACHE_MISS;
    }
    *key = found.exact_count == 1 ? found.exact : found.any;
    return CACHE_OK;
}

/* ---- List -------------------------------------------------------------------------------------------------------- */

struct row_list {
    struct cache_row *rows;
    size_t count, capacity;
};

static struct cache_row *list_add(struct row_list *list)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 64;
        struct cache_row *grown = realloc(list->rows, capacity * sizeof *grown);
        if (!grown) {
            return NULL;
        }
        list->rows = grown;
        list->capacity = capacity;
    }
    return &list->rows[list->count];
}

static void list_deinit(struct row_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        cache_arena_free(list->rows[i].arena);
    }
    free(list->rows);
}

static int fill_sizes(struct cache *cache, struct cache_row *row)
{
    int error;
    sqlite3_stmt *statement = cache_database_statement(&cache->database, CACHE_SQL_AUX_SIZES, &error);
    if (!statement) {
        return error;
    }
    row->entry.stored_bytes = (int64_t)(row->entry.code.size + row->entry.material.size);
    (void)sqlite3_bind_int64(statement, 1, row->id);
    while ((error = sqlite3_step(statement)) == SQLITE_ROW) {
        int64_t kind = sqlite3_column_int64(statement, 0);
        int64_t raw_size = sqlite3_column_int64(statement, 1);
        if (kind >= 0 && kind < CACHE_AUX_COUNT && raw_size >= 0 && raw_size <= CACHE_VALUE_MAX) {
            row->entry.aux[kind].size = (size_t)raw_size;
            row->entry.stored_bytes += sqlite3_column_int64(statement, 2);
        }
    }
    (void)sqlite3_reset(statement);
    return error == SQLITE_DONE ? SQLITE_OK : error;
}

/* Rows that fail their check are left out here; verify and get remove them. */
static enum cache_result read_rows(struct cache *cache, struct row_list *list, int *error)
{
    sqlite3_stmt *statement = cache_database_statement(&cache->database, CACHE_SQL_LIST, error);
    if (!statement) {
        return CACHE_MISS;
    }
    enum cache_result result = CACHE_OK;
    while (result != CACHE_MEMORY && (*error = sqlite3_step(statement)) == SQLITE_ROW) {
        struct cache_row *row = list_add(list);
        result = row ? cache_row_read(statement, row) : CACHE_MEMORY;
        if (result == CACHE_OK) {
            list->count++;
        }
    }
    (void)sqlite3_reset(statement);
    *error = *error == SQLITE_DONE || *error == SQLITE_ROW ? SQLITE_OK : *error;
    for (size_t i = 0; *error == SQLITE_OK && i < list->count; i++) {
        *error = fill_sizes(cache, &list->rows[i]);
    }
    return result == CACHE_MEMORY ? CACHE_MEMORY : CACHE_OK;
}

enum cache_result cache_list(struct cache *cache, int (*visit)(const struct cache_entry *entry, void *user), void *user)
{
    if (!cache_enter(cache)) {
        return CACHE_UNUSABLE;
    }
    (void)cache_reopen_if_moved(cache);
    struct row_list list = {NULL, 0, 0};
    int error = SQLITE_OK;
    enum cache_result result = CACHE_UNUSABLE;
    if (cache->open) {
        result = read_rows(cache, &list, &error);
        if (error != SQLITE_OK) {
            result = failed(cache, error, "list the entries");
        }
    }
    cache_leave(cache);
    /* Outside the lock, so that visit may use the cache. */
    for (size_t i = 0; result == CACHE_OK && i < list.count; i++) {
        if (visit(&list.rows[i].entry, user) != 0) {
            break;
        }
    }
    list_deinit(&list);
    return result;
}

/* ---- Totals ------------------------------------------------------------------------------------------------------- */

enum cache_result cache_totals(struct cache *cache, int64_t *entries, int64_t *bytes, int64_t *limit)
{
    if (!cache_enter(cache)) {
        return CACHE_UNUSABLE;
    }
    enum cache_result result = CACHE_UNUSABLE;
    int64_t count = 0, used = 0;
    (void)cache_reopen_if_moved(cache);
    if (cache->open) {
        int error = cache_database_number(&cache->database, CACHE_SQL_COUNT_ENTRIES, &count);
        if (error == SQLITE_OK) {
            error = cache_used_bytes(&cache->database, &used);
        }
        result = error == SQLITE_OK ? CACHE_OK : failed(cache, error, "count the entries");
    }
    cache_leave(cache);
    if (result == CACHE_OK) {
        *entries = count;
        *bytes = used;
        *limit = cache->limit;
    }
    return result;
}
