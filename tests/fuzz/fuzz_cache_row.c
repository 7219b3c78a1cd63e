/*
 * Rows, blobs and code as they could stand in a damaged or forged cache file: nothing is given out that does not fit, and
 * nothing is read outside.
 *
 *     byte 0: what is done; the rest: the values
 */
#include "tests/fuzz/fuzz.h"

#include "cache/internal.h"
#include "runtime/elf.h"
#include "tests/support/cubin_maker.h"

#include <string.h>

enum { COLUMNS = 22, BOUND = 19 }; /* of CACHE_ROW_COLUMNS; of cache_row_bind */

static sqlite3 *database(void)
{
    static sqlite3 *handle;
    if (!handle) {
        FUZZ_EXPECT(sqlite3_open(":memory:", &handle) == SQLITE_OK);
    }
    return handle;
}

static sqlite3_stmt *statement_of(const char *sql)
{
    sqlite3_stmt *statement = NULL;
    FUZZ_EXPECT(sqlite3_prepare_v2(database(), sql, -1, &statement, NULL) == SQLITE_OK);
    return statement;
}

/* A value of any type, also one that the table would not take. */
static void bind_any(sqlite3_stmt *statement, int column, struct fuzz_input *input)
{
    uint8_t kind = fuzz_byte(input);
    double real;
    uint64_t number;
    struct fuzz_input bytes;
    switch (kind % 6) {
    case 0:
        FUZZ_EXPECT(sqlite3_bind_null(statement, column) == SQLITE_OK);
        break;
    case 1:
        FUZZ_EXPECT(sqlite3_bind_int64(statement, column, (int64_t)fuzz_number(input)) == SQLITE_OK);
        break;
    case 2:
        number = fuzz_number(input);
        memcpy(&real, &number, sizeof real);
        FUZZ_EXPECT(sqlite3_bind_double(statement, column, real) == SQLITE_OK);
        break;
    case 3:
        bytes = fuzz_bytes(input, kind);
        FUZZ_EXPECT(sqlite3_bind_text(statement, column, (const char *)bytes.data, (int)bytes.size, SQLITE_STATIC) ==
                    SQLITE_OK);
        break;
    default: /* the size that hashes have, more often than not */
        bytes = fuzz_bytes(input, kind % 2 ? 16 : kind);
        FUZZ_EXPECT(sqlite3_bind_blob(statement, column, bytes.data, (int)bytes.size, SQLITE_STATIC) == SQLITE_OK);
        break;
    }
}

static void any_row_is_read_whole_or_not_at_all(struct fuzz_input *input)
{
    static sqlite3_stmt *statement;
    if (!statement) {
        statement = statement_of("SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, "
                                 "?18, ?19, ?20, ?21, ?22");
    }
    for (int i = 1; i <= COLUMNS; i++) {
        bind_any(statement, i, input);
    }
    FUZZ_EXPECT(sqlite3_step(statement) == SQLITE_ROW);
    struct cache_row row;
    enum cache_result result = cache_row_read(statement, &row);
    FUZZ_EXPECT(result == CACHE_OK || (result == CACHE_MISS && row.arena == NULL));
    if (result == CACHE_OK) { /* a fuzzer that sees comparisons finds the hash of its row */
        const struct cache_entry *entry = &row.entry;
        const size_t length = strlen(entry->name) + strlen(entry->spec) + strlen(entry->target) + strlen(entry->nvrtc) +
                              strlen(entry->source_hash) + entry->material.size;
        FUZZ_EXPECT(length <= 6 * (size_t)UINT8_MAX + COLUMNS * 24);
    }
    cache_arena_free(row.arena);
    (void)sqlite3_reset(statement);
}

/* A text without a 0 in it, from bytes. */
static const char *text_of(struct fuzz_input *input, char text[256])
{
    struct fuzz_input bytes = fuzz_bytes(input, fuzz_byte(input));
    for (size_t i = 0; i < bytes.size; i++) {
        text[i] = bytes.data[i] ? (char)bytes.data[i] : '0';
    }
    text[bytes.size] = '\0';
    return text;
}

static void entry_make(struct fuzz_input *input, char texts[5][256], struct cache_entry *entry)
{
    memset(entry, 0, sizeof *entry);
    struct fuzz_input bytes = fuzz_bytes(input, 16);
    memcpy(entry->key.bytes, bytes.data, bytes.size);
    entry->name = text_of(input, texts[0]);
    entry->spec = text_of(input, texts[1]);
    entry->target = text_of(input, texts[2]);
    entry->nvrtc = text_of(input, texts[3]);
    entry->source_hash = text_of(input, texts[4]);
    entry->arch = (int32_t)fuzz_number(input);
    entry->registers = (int32_t)fuzz_number(input);
    entry->threads = (int32_t)fuzz_number(input);
    uint64_t number = fuzz_number(input);
    memcpy(&entry->compile_ms, &number, sizeof number);
    entry->code.size = (size_t)(fuzz_number(input) >> 36);
    bytes = fuzz_bytes(input, fuzz_byte(input));
    entry->material = (struct cache_bytes){bytes.size > 0 ? (const void *)bytes.data : "", bytes.size};
}

/* What was bound comes back; with one other value in it nothing does. */
static void a_row_is_read_as_it_was_bound_or_not_at_all(struct fuzz_input *input)
{
    static sqlite3_stmt *statement;
    if (!statement) {
        statement = statement_of("SELECT 7, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, "
                                 "?17, ?18, ?19, 5, 6");
    }
    char texts[5][256];
    struct cache_entry entry;
    struct cache_row row;
    const uint8_t code_hash[CACHE_HASH_SIZE] = {1, 2, 3};
    int other = fuzz_byte(input) % (BOUND + 1); /* 0: none */
    entry_make(input, texts, &entry);
    FUZZ_EXPECT(cache_row_bind(statement, &entry, code_hash) == SQLITE_OK);
    if (other > 0) {
        bind_any(statement, other, input);
    }
    FUZZ_EXPECT(sqlite3_step(statement) == SQLITE_ROW);
    enum cache_result result = cache_row_read(statement, &row);
    FUZZ_EXPECT(result == CACHE_OK || (result == CACHE_MISS && other > 0));
    if (result == CACHE_OK) { /* `other` may be the same value in another spelling */
        FUZZ_EXPECT(memcmp(&row.entry.key, &entry.key, sizeof entry.key) == 0);
        FUZZ_EXPECT(strcmp(row.entry.name, entry.name) == 0 && strcmp(row.entry.spec, entry.spec) == 0);
        FUZZ_EXPECT(strcmp(row.entry.target, entry.target) == 0 && row.entry.arch == entry.arch);
        FUZZ_EXPECT(row.entry.material.size == entry.material.size);
        FUZZ_EXPECT(memcmp(row.entry.material.data, entry.material.data, entry.material.size) == 0);
        FUZZ_EXPECT(row.entry.code.size == entry.code.size && row.entry.threads == entry.threads);
    }
    cache_arena_free(row.arena);
    (void)sqlite3_reset(statement);
}

static void any_blob_is_unpacked_to_its_size_or_not_at_all(struct fuzz_input *input)
{
    struct cache_key key = {{fuzz_byte(input)}};
    struct cache_blob blob = {.codec = (int64_t)(fuzz_number(input) >> (8 * (fuzz_byte(input) % 8)))};
    blob.raw_size = (int64_t)(fuzz_number(input) >> (8 * (fuzz_byte(input) % 8)));
    struct fuzz_input hash = fuzz_bytes(input, sizeof blob.hash);
    memcpy(blob.hash, hash.data, hash.size);
    blob.stored = (struct cache_bytes){input->size > 0 ? (const void *)input->data : NULL, input->size};
    struct cache_arena *arena = NULL;
    struct cache_bytes raw = {NULL, 0};
    enum cache_result result = cache_blob_unpack(&key, CACHE_AUX_PTX, &blob, &arena, &raw);
    FUZZ_EXPECT(result == CACHE_MISS || result == CACHE_MEMORY || result == CACHE_OK);
    FUZZ_EXPECT(result != CACHE_OK || (int64_t)raw.size == blob.raw_size);
    cache_arena_free(arena);
}

static void a_blob_is_unpacked_as_it_was_packed_or_not_at_all(struct fuzz_input *input)
{
    struct cache_key key = {{fuzz_byte(input)}};
    uint64_t at = fuzz_number(input);
    uint8_t change = fuzz_byte(input);
    const struct cache_bytes whole = {input->size > 0 ? (const void *)input->data : "", input->size};
    struct cache_blob blob;
    struct cache_arena *arena = NULL;
    struct cache_bytes raw = {NULL, 0};
    FUZZ_EXPECT(cache_blob_pack(&key, CACHE_AUX_LOG, &whole, &blob) == CACHE_OK);
    uint8_t *stored = malloc(blob.stored.size + 1);
    FUZZ_EXPECT(stored != NULL);
    memcpy(stored, blob.stored.data, blob.stored.size);
    if (blob.stored.size > 0) {
        stored[at % blob.stored.size] ^= change;
    }
    blob.stored.data = stored;
    enum cache_result result = cache_blob_unpack(&key, CACHE_AUX_LOG, &blob, &arena, &raw);
    FUZZ_EXPECT(result == CACHE_OK || (result == CACHE_MISS && change != 0));
    if (result == CACHE_OK) {
        FUZZ_EXPECT(raw.size == whole.size && memcmp(raw.data, whole.data, whole.size) == 0);
    }
    cache_arena_free(arena);
    cache_blob_deinit(&blob);
    free(stored);
}

/* Code of the right form with some bytes changed, or any bytes: never read outside, never taken for another target. */
static void any_code_is_checked_within_its_bounds(struct fuzz_input *input)
{
    const struct cubin_recipe recipe = {.entry = "kernel", .target = "sm_90a", .abi = 8, .text_size = 64};
    const struct cubin_expectation expected = {.arch = 90, .target = "sm_90a", .entry = "kernel"};
    const struct cubin_expectation wrong = {.arch = 80, .target = "sm_80", .entry = "kernel"};
    size_t size = 0;
    unsigned char *code = cubin_make(&recipe, &size);
    bool changed = input->size > 0;
    for (uint8_t changes = fuzz_byte(input) % 16; changes > 0 && input->size > 0; changes--) {
        code[fuzz_number(input) % size] = fuzz_byte(input);
    }
    size_t length = input->size > 8 ? fuzz_number(input) % (size + 1) : size;
    unsigned char *exact = malloc(length > 0 ? length : 1); /* so that a sanitizer sees each read outside */
    FUZZ_EXPECT(exact != NULL);
    memcpy(exact, code, length);
    FUZZ_EXPECT(changed || cubin_check(exact, length, &expected, NULL) == GDPA_OK);
    (void)cubin_check(exact, length, &expected, NULL);
    (void)cubin_check(exact, length, &wrong, NULL);
    (void)cubin_check(input->data, input->size, &expected, NULL);
    free(exact);
    free(code);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const actions[])(struct fuzz_input * input) = {
        any_row_is_read_whole_or_not_at_all,
        a_row_is_read_as_it_was_bound_or_not_at_all,
        any_blob_is_unpacked_to_its_size_or_not_at_all,
        a_blob_is_unpacked_as_it_was_packed_or_not_at_all,
        any_code_is_checked_within_its_bounds,
    };
    struct fuzz_input input = {data, size};
    actions[fuzz_byte(&input) % (sizeof actions / sizeof actions[0])](&input);
    return 0;
}
