/*
 * One row of the kernel table <-> struct cache_entry. The row carries a hash of all its columns: SQLite itself does not
 * notice a flipped bit in a value, and a wrong size of shared memory is as bad as a wrong instruction.
 */
#include "cache/internal.h"

#include <math.h>
#include <string.h>

static const uint64_t row_seed = UINT64_C(0x6764706a69740402);

enum { NUMBERS = 8, TEXTS = 5 }; /* NUMBERS: code_size to threads */

/* Everything the row hash covers, in its order. */
struct row_parts {
    int64_t numbers[NUMBERS];
    double times[2];
    struct cache_bytes texts[TEXTS];
    struct cache_bytes material;
};

/* Column numbers of CACHE_ROW_COLUMNS. The parameters of CACHE_SQL_INSERT_ENTRY have the same numbers. */
enum column {
    COLUMN_ID,
    COLUMN_KEY,
    COLUMN_ROW_HASH,
    COLUMN_CODE_HASH,
    COLUMN_NUMBERS,
    COLUMN_TIMES = COLUMN_NUMBERS + NUMBERS,
    COLUMN_TEXTS = COLUMN_TIMES + 2,
    COLUMN_MATERIAL = COLUMN_TEXTS + TEXTS,
    COLUMN_SEQUENCE,
    COLUMN_HITS
};

static void row_hash(const uint8_t key[16], const uint8_t code_hash[CACHE_HASH_SIZE], const struct row_parts *parts,
                     uint8_t hash[CACHE_HASH_SIZE])
{
    /* All sizes come before all bytes, so that no two rows spell the same sequence. */
    uint8_t fixed[16 + CACHE_HASH_SIZE + 8 * (NUMBERS + 2 + TEXTS + 1)];
    uint8_t *at = fixed;
    memcpy(at, key, 16);
    memcpy(at + 16, code_hash, CACHE_HASH_SIZE);
    at += 16 + CACHE_HASH_SIZE;
    for (size_t i = 0; i < NUMBERS; i++, at += 8) {
        cache_store_u64(at, (uint64_t)parts->numbers[i]);
    }
    for (size_t i = 0; i < 2; i++, at += 8) {
        uint64_t bits;
        memcpy(&bits, &parts->times[i], sizeof bits);
        cache_store_u64(at, bits);
    }
    struct cache_bytes pieces[1 + TEXTS + 1];
    for (size_t i = 0; i < TEXTS; i++, at += 8) {
        cache_store_u64(at, parts->texts[i].size);
        pieces[1 + i] = parts->texts[i];
    }
    cache_store_u64(at, parts->material.size);
    pieces[0] = (struct cache_bytes){fixed, sizeof fixed};
    pieces[1 + TEXTS] = parts->material;
    cache_hash(row_seed, pieces, 1 + TEXTS + 1, hash);
}

/* SQLite stores NaN as NULL and -0.0 as 0. */
static double storable(double time)
{
    return isfinite(time) ? time + 0.0 : 0.0;
}

static struct cache_bytes text_bytes(const char *text)
{
    return (struct cache_bytes){text ? text : "", text ? strlen(text) : 0};
}

static void parts_from_entry(const struct cache_entry *entry, struct row_parts *parts)
{
    *parts = (struct row_parts){
        .numbers = {(int64_t)entry->code.size, entry->arch, entry->registers, entry->spill_bytes, entry->stack_bytes,
                    entry->smem_static, entry->smem_dynamic, entry->threads},
        .times = {storable(entry->generate_ms), storable(entry->compile_ms)},
        .texts = {text_bytes(entry->name), text_bytes(entry->spec), text_bytes(entry->target), text_bytes(entry->nvrtc),
                  text_bytes(entry->source_hash)},
        .material = entry->material,
    };
}

int cache_row_bind(sqlite3_stmt *statement, const struct cache_entry *entry, const uint8_t code_hash[CACHE_HASH_SIZE])
{
    struct row_parts parts;
    parts_from_entry(entry, &parts);
    uint8_t hash[CACHE_HASH_SIZE];
    row_hash(entry->key.bytes, code_hash, &parts, hash);
    int error = sqlite3_bind_blob(statement, COLUMN_KEY, entry->key.bytes, 16, SQLITE_STATIC);
    error |= sqlite3_bind_blob(statement, COLUMN_ROW_HASH, hash, CACHE_HASH_SIZE, SQLITE_TRANSIENT);
    error |= sqlite3_bind_blob(statement, COLUMN_CODE_HASH, code_hash, CACHE_HASH_SIZE, SQLITE_STATIC);
    for (int i = 0; i < NUMBERS; i++) {
        error |= sqlite3_bind_int64(statement, COLUMN_NUMBERS + i, parts.numbers[i]);
    }
    for (int i = 0; i < 2; i++) {
        error |= sqlite3_bind_double(statement, COLUMN_TIMES + i, parts.times[i]);
    }
    for (int i = 0; i < TEXTS; i++) {
        error |= sqlite3_bind_text64(statement, COLUMN_TEXTS + i, parts.texts[i].data, parts.texts[i].size,
                                     SQLITE_STATIC, SQLITE_UTF8);
    }
    error |= sqlite3_bind_blob64(statement, COLUMN_MATERIAL, parts.material.data, parts.material.size, SQLITE_STATIC);
    /* Several codes in one: only whether there was one counts, and lack of memory is the one that may pass. */
    if (error == SQLITE_OK) {
        return SQLITE_OK;
    }
    return sqlite3_errcode(sqlite3_db_handle(statement)) == SQLITE_NOMEM ? SQLITE_NOMEM : SQLITE_TOOBIG;
}

/* A copy with a 0 behind it; false on lack of memory. */
static bool copy_column(sqlite3_stmt *statement, int column, struct cache_arena **arena, struct cache_bytes *out)
{
    const void *data = sqlite3_column_blob(statement, column);
    int size = sqlite3_column_bytes(statement, column);
    if (!data && sqlite3_errcode(sqlite3_db_handle(statement)) == SQLITE_NOMEM) {
        return false;
    }
    size_t length = data && size > 0 ? (size_t)size : 0;
    char *copy = cache_arena_take(arena, length + 1);
    if (!copy) {
        return false;
    }
    if (length > 0) {
        memcpy(copy, data, length);
    }
    copy[length] = '\0';
    *out = (struct cache_bytes){copy, length};
    return true;
}

static bool read_hash(sqlite3_stmt *statement, int column, uint8_t hash[16])
{
    const void *data = sqlite3_column_blob(statement, column);
    if (!data || sqlite3_column_bytes(statement, column) != 16) {
        return false;
    }
    memcpy(hash, data, 16);
    return true;
}

static bool read_parts(sqlite3_stmt *statement, struct cache_arena **arena, struct row_parts *parts)
{
    for (int i = 0; i < NUMBERS; i++) {
        parts->numbers[i] = sqlite3_column_int64(statement, COLUMN_NUMBERS + i);
    }
    for (int i = 0; i < 2; i++) {
        parts->times[i] = sqlite3_column_double(statement, COLUMN_TIMES + i);
    }
    for (int i = 0; i < TEXTS; i++) {
        if (!copy_column(statement, COLUMN_TEXTS + i, arena, &parts->texts[i])) {
            return false;
        }
    }
    return copy_column(statement, COLUMN_MATERIAL, arena, &parts->material);
}

static void entry_from_parts(const struct row_parts *parts, struct cache_entry *entry)
{
    entry->code = (struct cache_bytes){NULL, (size_t)parts->numbers[0]};
    entry->arch = (int32_t)parts->numbers[1];
    entry->registers = (int32_t)parts->numbers[2];
    entry->spill_bytes = (int32_t)parts->numbers[3];
    entry->stack_bytes = (int32_t)parts->numbers[4];
    entry->smem_static = (int32_t)parts->numbers[5];
    entry->smem_dynamic = (int32_t)parts->numbers[6];
    entry->threads = (int32_t)parts->numbers[7];
    entry->generate_ms = parts->times[0];
    entry->compile_ms = parts->times[1];
    entry->name = parts->texts[0].data;
    entry->spec = parts->texts[1].data;
    entry->target = parts->texts[2].data;
    entry->nvrtc = parts->texts[3].data;
    entry->source_hash = parts->texts[4].data;
    entry->material = parts->material;
}

enum cache_result cache_row_read(sqlite3_stmt *statement, struct cache_row *row)
{
    memset(row, 0, sizeof *row);
    row->id = sqlite3_column_int64(statement, COLUMN_ID);
    uint8_t stored_hash[CACHE_HASH_SIZE], hash[CACHE_HASH_SIZE];
    if (!read_hash(statement, COLUMN_KEY, row->entry.key.bytes) ||
        !read_hash(statement, COLUMN_ROW_HASH, stored_hash) ||
        !read_hash(statement, COLUMN_CODE_HASH, row->code_hash)) {
        return CACHE_MISS;
    }
    struct row_parts parts;
    if (!read_parts(statement, &row->arena, &parts)) {
        cache_arena_free(row->arena);
        row->arena = NULL;
        return CACHE_MEMORY;
    }
    row_hash(row->entry.key.bytes, row->code_hash, &parts, hash);
    if (memcmp(hash, stored_hash, sizeof hash) != 0) {
        cache_arena_free(row->arena);
        row->arena = NULL;
        return CACHE_MISS;
    }
    entry_from_parts(&parts, &row->entry);
    row->entry.sequence = (uint64_t)sqlite3_column_int64(statement, COLUMN_SEQUENCE);
    row->entry.hits = (uint64_t)sqlite3_column_int64(statement, COLUMN_HITS);
    return CACHE_OK;
}
