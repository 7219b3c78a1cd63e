/*
 * Get, put and remove. An entry is read inside one read transaction and given out only when its row, its key material,
 * its code and the parts asked for have passed their checks; it is written inside one write transaction, and an entry
 * that is there already stays.
 */
#include "cache/internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- Read -------------------------------------------------------------------------------------------------------- */

struct reading {
    struct cache_row row;
    const char *fault; /* what failed, for the message */
    int error;         /* of SQLite */
};

static enum cache_result bad(struct reading *reading, const char *fault)
{
    reading->fault = fault;
    return CACHE_MISS;
}

static enum cache_result step_failed(struct reading *reading, int error)
{
    reading->error = error;
    return CACHE_MISS;
}

static enum cache_result read_row(struct cache *cache, const struct cache_key *key, struct reading *reading)
{
    int error;
    sqlite3_stmt *statement = cache_database_statement(&cache->database, CACHE_SQL_ENTRY, &error);
    if (!statement) {
        return step_failed(reading, error);
    }
    (void)sqlite3_bind_blob(statement, 1, key->bytes, sizeof key->bytes, SQLITE_STATIC);
    enum cache_result result = CACHE_MISS;
    error = sqlite3_step(statement);
    if (error == SQLITE_ROW) {
        result = cache_row_read(statement, &reading->row);
        if (result == CACHE_MISS || (result == CACHE_OK && memcmp(&reading->row.entry.key, key, sizeof *key) != 0)) {
            result = bad(reading, "its row was changed");
        }
    } else if (error != SQLITE_DONE) {
        result = step_failed(reading, error);
    }
    (void)sqlite3_reset(statement);
    (void)sqlite3_clear_bindings(statement);
    return result;
}

static struct cache_bytes column_bytes(sqlite3_stmt *statement, int column)
{
    const void *data = sqlite3_column_blob(statement, column);
    int size = sqlite3_column_bytes(statement, column);
    return (struct cache_bytes){data, data && size > 0 ? (size_t)size : 0};
}

static enum cache_result read_code(struct cache *cache, struct reading *reading)
{
    int error;
    sqlite3_stmt *statement = cache_database_statement(&cache->database, CACHE_SQL_CODE, &error);
    if (!statement) {
        return step_failed(reading, error);
    }
    (void)sqlite3_bind_int64(statement, 1, reading->row.id);
    enum cache_result result;
    error = sqlite3_step(statement);
    if (error == SQLITE_ROW) {
        struct cache_blob blob = {.codec = CACHE_CODEC_RAW, .raw_size = (int64_t)reading->row.entry.code.size};
        memcpy(blob.hash, reading->row.code_hash, sizeof blob.hash);
        blob.stored = column_bytes(statement, 0);
        result = cache_blob_unpack(&reading->row.entry.key, CACHE_KIND_CODE, &blob, &reading->row.arena,
                                   &reading->row.entry.code);
        if (result == CACHE_MISS) {
            result = bad(reading, "its code was changed");
        }
    } else {
        result = error == SQLITE_DONE ? bad(reading, "its code is missing") : step_failed(reading, error);
    }
    (void)sqlite3_reset(statement);
    return result;
}

static enum cache_result read_part(sqlite3_stmt *statement, struct reading *reading)
{
    int64_t kind = sqlite3_column_int64(statement, 0);
    struct cache_blob blob = {.codec = sqlite3_column_int64(statement, 1),
                              .raw_size = sqlite3_column_int64(statement, 2)};
    struct cache_bytes hash = column_bytes(statement, 3);
    if (kind < 0 || kind >= CACHE_AUX_COUNT || hash.size != sizeof blob.hash) {
        return CACHE_MISS;
    }
    memcpy(blob.hash, hash.data, sizeof blob.hash);
    blob.stored = column_bytes(statement, 4);
    return cache_blob_unpack(&reading->row.entry.key, (int)kind, &blob, &reading->row.arena,
                             &reading->row.entry.aux[kind]);
}

static enum cache_result read_aux(struct cache *cache, struct reading *reading)
{
    int error;
    sqlite3_stmt *statement = cache_database_statement(&cache->database, CACHE_SQL_AUX, &error);
    if (!statement) {
        return step_failed(reading, error);
    }
    (void)sqlite3_bind_int64(statement, 1, reading->row.id);
    enum cache_result result = CACHE_OK;
    while (result == CACHE_OK && (error = sqlite3_step(statement)) == SQLITE_ROW) {
        result = read_part(statement, reading);
    }
    if (result == CACHE_MISS) {
        result = bad(reading, "its source, PTX, log or plan was changed");
    } else if (result == CACHE_OK && error != SQLITE_DONE) {
        result = step_failed(reading, error);
    }
    (void)sqlite3_reset(statement);
    return result;
}

static enum cache_result read_checked(struct cache *cache, const struct cache_key *key,
                                      const struct cache_bytes *material, bool with_aux, struct reading *reading)
{
    enum cache_result result = read_row(cache, key, reading);
    const struct cache_bytes *stored = &reading->row.entry.material;
    if (result == CACHE_OK && material->data &&
        (stored->size != material->size || memcmp(stored->data, material->data, material->size) != 0)) {
        result = bad(reading, "its key material is that of another kernel");
    }
    if (result == CACHE_OK) {
        result = read_code(cache, reading);
    }
    if (result == CACHE_OK && with_aux) {
        result = read_aux(cache, reading);
    }
    return result;
}

/*
 * Reads the entry once more where nobody else can write, and deletes it when it is still bad: another process may have
 * replaced it by a good one meanwhile, even under the same id.
 */
static int delete_if_bad(struct cache *cache, const struct cache_key *key, const struct cache_bytes *material,
                         bool with_aux)
{
    struct reading reading = {.fault = NULL};
    int error = cache_database_begin_write(&cache->database, CACHE_BUSY_MS);
    if (error != SQLITE_OK) {
        return error;
    }
    (void)read_checked(cache, key, material, with_aux, &reading);
    error = reading.error;
    if (error == SQLITE_OK && reading.fault) {
        error = cache_database_delete(&cache->database, reading.row.id);
    }
    cache_arena_free(reading.row.arena);
    return cache_database_end(&cache->database, error);
}

static void discard(struct cache *cache, const struct cache_key *key, const struct cache_bytes *material, bool with_aux,
                    const char *fault)
{
    char hex[33];
    cache_key_hex(key, hex);
    bool first = atomic_fetch_add(&cache->bad, 1) == 0;
    bool removable = !cache->database.read_only && !cache->writes_off;
    cache_say(cache, first ? CACHE_LOG_WARN : CACHE_LOG_INFO, "%s %s: entry %s is not used: %s%s",
              cache->pack ? "pack" : "kernel cache", cache->path, hex, fault, removable ? "; it is removed" : "");
    int error = removable ? delete_if_bad(cache, key, material, with_aux) : SQLITE_OK;
    if (error != SQLITE_OK) {
        (void)cache_failed(cache, error, true, "remove a bad entry");
    }
}

enum cache_result cache_read(struct cache *cache, const struct cache_key *key, const struct cache_bytes *material,
                             bool with_aux, struct cache_entry *out)
{
    struct reading reading = {.fault = NULL};
    enum cache_result result = CACHE_MISS;
    reading.error = cache_database_do(&cache->database, CACHE_SQL_BEGIN_READ, "");
    if (reading.error == SQLITE_OK) {
        result = read_checked(cache, key, material, with_aux, &reading);
        (void)cache_database_end(&cache->database, SQLITE_OK);
    }
    if (result == CACHE_OK) {
        *out = reading.row.entry;
        out->owned = reading.row.arena;
    } else {
        cache_arena_free(reading.row.arena);
        if (reading.error != SQLITE_OK) {
            result = cache_failed(cache, reading.error, false, "read an entry");
        } else if (reading.fault) {
            discard(cache, key, material, with_aux, reading.fault);
        }
    }
    return result;
}

enum cache_result cache_get(struct cache *cache, const struct cache_key *key, const void *material,
                            size_t material_size, bool with_aux, struct cache_entry *out)
{
    if (!cache_enter(cache)) {
        return CACHE_UNUSABLE;
    }
    const struct cache_bytes wanted = {material, material_size};
    enum cache_result result = cache_read(cache, key, &wanted, with_aux, out);
    if (result == CACHE_MISS && cache_reopen_if_moved(cache)) {
        result = cache_read(cache, key, &wanted, with_aux, out);
    }
    if (result == CACHE_OK) {
        cache_note_use(cache, key);
    }
    cache_leave(cache);
    return result;
}

void cache_entry_deinit(struct cache_entry *entry)
{
    cache_arena_free(entry->owned);
    memset(entry, 0, sizeof *entry);
}

/* ---- Write ------------------------------------------------------------------------------------------------------- */

struct packed {
    uint8_t code_hash[CACHE_HASH_SIZE];
    struct cache_blob aux[CACHE_AUX_COUNT];
};

static void packed_deinit(struct packed *packed)
{
    for (int i = 0; i < CACHE_AUX_COUNT; i++) {
        cache_blob_deinit(&packed->aux[i]);
    }
}

/* Before the lock is taken: compression takes longer than the write. */
static enum cache_result pack(const struct cache_entry *entry, struct packed *packed)
{
    memset(packed, 0, sizeof *packed);
    cache_blob_hash(&entry->key, CACHE_KIND_CODE, &entry->code, packed->code_hash);
    enum cache_result result = CACHE_OK;
    for (int i = 0; result == CACHE_OK && i < CACHE_AUX_COUNT; i++) {
        if (entry->aux[i].data) {
            result = cache_blob_pack(&entry->key, i, &entry->aux[i], &packed->aux[i]);
        }
    }
    return result;
}

static int insert_row(struct cache *cache, const struct cache_entry *entry, const struct packed *packed, int64_t *id)
{
    int error;
    sqlite3_stmt *statement = cache_database_statement(&cache->database, CACHE_SQL_INSERT_ENTRY, &error);
    if (!statement) {
        return error;
    }
    error = cache_row_bind(statement, entry, packed->code_hash);
    if (error == SQLITE_OK) {
        error = sqlite3_step(statement);
        error = error == SQLITE_DONE ? SQLITE_OK : error;
    }
    (void)sqlite3_reset(statement);
    (void)sqlite3_clear_bindings(statement);
    if (error == SQLITE_OK) {
        *id = sqlite3_changes(cache->database.handle) > 0 ? sqlite3_last_insert_rowid(cache->database.handle) : 0;
    }
    return error;
}

static int insert_rest(struct cache *cache, const struct cache_entry *entry, const struct packed *packed, int64_t id)
{
    struct cache_database *database = &cache->database;
    int error = cache_database_do(database, CACHE_SQL_INSERT_CODE, "ib", id, &entry->code);
    if (error == SQLITE_OK) {
        /* Parts left over from an entry that had this id would not pass the checks of this one. */
        error = cache_database_do(database, CACHE_SQL_DELETE_AUX, "i", id);
    }
    for (int i = 0; error == SQLITE_OK && i < CACHE_AUX_COUNT; i++) {
        const struct cache_blob *blob = &packed->aux[i];
        const struct cache_bytes hash = {blob->hash, sizeof blob->hash};
        if (blob->stored.data) {
            error = cache_database_do(database, CACHE_SQL_INSERT_AUX, "iiiibb", id, (int64_t)i, blob->codec,
                                      blob->raw_size, &hash, &blob->stored);
        }
    }
    return error;
}

/* One transaction. *id is that of the new entry, 0 when it was there already. */
static int insert(struct cache *cache, const struct cache_entry *entry, const struct packed *packed, int64_t *id)
{
    struct cache_database *database = &cache->database;
    int error = cache_database_begin_write(database, CACHE_BUSY_MS);
    if (error != SQLITE_OK) {
        return error;
    }
    error = insert_row(cache, entry, packed, id);
    if (error == SQLITE_OK && (*id != 0 || cache->recency.waiting > 0)) {
        error = cache_recency_write(&cache->recency, database, false);
    }
    if (error == SQLITE_OK && *id != 0) {
        error = insert_rest(cache, entry, packed, *id);
        if (error == SQLITE_OK) {
            error = cache_database_do(database, CACHE_SQL_INSERT_USE, "i", *id);
        }
    }
    return cache_database_end(database, error);
}

static enum cache_result put_once(struct cache *cache, const struct cache_entry *entry, const struct packed *packed)
{
    if (!cache_may_write(cache)) {
        return CACHE_UNUSABLE;
    }
    int64_t id = 0;
    int error = insert(cache, entry, packed, &id);
    if ((error & 0xff) == SQLITE_FULL && cache_make_room(cache)) {
        error = insert(cache, entry, packed, &id);
    }
    if (error != SQLITE_OK) {
        return cache_failed(cache, error, true, "store a kernel");
    }
    cache_recency_written(&cache->recency, false);
    if (id != 0) {
        cache_evict(cache, id);
    }
    return CACHE_OK;
}

static bool too_large(const struct cache_entry *entry)
{
    bool large = entry->code.size > (size_t)CACHE_VALUE_MAX || entry->material.size > (size_t)CACHE_VALUE_MAX;
    for (int i = 0; i < CACHE_AUX_COUNT; i++) {
        large = large || entry->aux[i].size > (size_t)CACHE_VALUE_MAX;
    }
    return large;
}

enum cache_result cache_put(struct cache *cache, const struct cache_entry *entry)
{
    if (!entry->code.data || entry->code.size == 0 || !entry->material.data || too_large(entry)) {
        cache_say(cache, CACHE_LOG_WARN,
                  "kernel cache %s: %s is not stored: it has no code, no key material or a part "
                  "larger than %lld MiB",
                  cache->path, entry->name ? entry->name : "an entry", (long long)(CACHE_VALUE_MAX >> 20));
        return CACHE_UNUSABLE;
    }
    struct packed packed;
    enum cache_result result = pack(entry, &packed);
    if (result != CACHE_OK) {
        packed_deinit(&packed);
        return result;
    }
    result = CACHE_UNUSABLE;
    if (cache_enter(cache)) {
        unsigned generation = cache->generation;
        result = put_once(cache, entry, &packed);
        if (result == CACHE_UNUSABLE && cache->open && cache->generation != generation) {
            result = put_once(cache, entry, &packed);
        }
        cache_leave(cache);
    }
    packed_deinit(&packed);
    return result;
}

/* ---- Remove ------------------------------------------------------------------------------------------------------ */

static int remove_one(struct cache *cache, const struct cache_key *key, int64_t *removed)
{
    int error;
    sqlite3_stmt *statement = cache_database_statement(&cache->database, CACHE_SQL_ID_OF_KEY, &error);
    if (!statement) {
        return error;
    }
    int64_t id = 0;
    (void)sqlite3_bind_blob(statement, 1, key->bytes, sizeof key->bytes, SQLITE_STATIC);
    error = sqlite3_step(statement);
    if (error == SQLITE_ROW) {
        id = sqlite3_column_int64(statement, 0);
        *removed = 1;
    }
    (void)sqlite3_reset(statement);
    (void)sqlite3_clear_bindings(statement);
    if (error == SQLITE_ROW) {
        return cache_database_delete(&cache->database, id);
    }
    return error == SQLITE_DONE ? SQLITE_OK : error;
}

static int remove_all(struct cache *cache, int64_t *removed)
{
    int error = cache_database_number(&cache->database, CACHE_SQL_COUNT_ENTRIES, removed);
    return error != SQLITE_OK ? error
                              : sqlite3_exec(cache->database.handle,
                                             "DELETE FROM kernel; DELETE FROM code; DELETE FROM aux; DELETE FROM use",
                                             NULL, NULL, NULL);
}

static enum cache_result remove_once(struct cache *cache, const struct cache_key *key, int64_t *removed)
{
    *removed = 0;
    if (!cache_may_write(cache)) {
        return CACHE_UNUSABLE;
    }
    int error = cache_database_begin_write(&cache->database, CACHE_BUSY_MS);
    if (error == SQLITE_OK) {
        error = key ? remove_one(cache, key, removed) : remove_all(cache, removed);
        error = cache_database_end(&cache->database, error);
    }
    if (error != SQLITE_OK) {
        return cache_failed(cache, error, true, "remove entries");
    }
    if (!key) {
        /* Gives the space back to the file system; a reader elsewhere may put that off, which is no failure. */
        (void)sqlite3_exec(cache->database.handle, "PRAGMA incremental_vacuum", NULL, NULL, NULL);
        (void)sqlite3_wal_checkpoint_v2(cache->database.handle, "main", SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
        return CACHE_OK;
    }
    return *removed > 0 ? CACHE_OK : CACHE_MISS;
}

enum cache_result cache_remove(struct cache *cache, const struct cache_key *key, int64_t *removed)
{
    if (!cache_enter(cache)) {
        return CACHE_UNUSABLE;
    }
    int64_t count = 0;
    unsigned generation = cache->generation;
    enum cache_result result = remove_once(cache, key, &count);
    if (result == CACHE_UNUSABLE && cache->open && cache->generation != generation) {
        result = remove_once(cache, key, &count);
    }
    cache_leave(cache);
    if (removed && (result == CACHE_OK || result == CACHE_MISS)) {
        *removed = count;
    }
    return result;
}
