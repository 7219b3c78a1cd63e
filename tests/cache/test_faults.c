/*
 * Damage: single bits, rows, whole files, at rest and while open. Whatever happens, no wrong byte is given out, a bad
 * entry is removed and counted, and the cache works again afterwards.
 */
#include "tests/support/cache_fixture.h"

#include <unistd.h>

#define CODE_SIZE 5000

static struct cache *open_filled(struct fixture *fixture, unsigned count)
{
    struct cache *cache = fixture_open(fixture);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(sample_put(cache, i, CODE_SIZE), CACHE_OK);
    }
    return cache;
}

static void fill(struct fixture *fixture, unsigned count)
{
    cache_close(open_filled(fixture, count));
}

static int64_t rows_of(const struct fixture *fixture, const char *table)
{
    char sql[64];
    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM %s WHERE id = 2", table);
    return fixture_sql(fixture, sql);
}

/* ---- Rows ------------------------------------------------------------------------------------------------------------ */

/* Entry 2 (number 1). What the schema forbids cannot come from here; files of raw bytes are further below. */
static const char *const changes[] = {
    "kernel SET row_hash = CAST(row_hash || x'00' AS BLOB)",
    "kernel SET row_hash = CAST(substr(row_hash, 1, 15) || x'00' AS BLOB)",
    "kernel SET code_hash = CAST(x'00' || substr(code_hash, 2) AS BLOB)",
    "kernel SET code_hash = x''",
    "kernel SET code_size = code_size - 1",
    "kernel SET code_size = -1",
    "kernel SET code_size = 9223372036854775807",
    "kernel SET arch = arch + 10",
    "kernel SET arch = arch + 4294967296",
    "kernel SET registers = registers + 1",
    "kernel SET spill_bytes = spill_bytes + 4",
    "kernel SET stack_bytes = 0",
    "kernel SET smem_static = smem_static | 1",
    "kernel SET smem_dynamic = -smem_dynamic",
    "kernel SET threads = threads * 2",
    "kernel SET generate_ms = generate_ms * 1.0000000000000002",
    "kernel SET compile_ms = compile_ms + 0.5",
    "kernel SET name = name || 'x'",
    "kernel SET name = ''",
    "kernel SET spec = replace(spec, 'relu', 'gelu')",
    "kernel SET target = 'sm_90'",
    "kernel SET nvrtc = '12.9'",
    "kernel SET nvrtc = '13.0' || char(0)",
    "kernel SET source_hash = upper(source_hash)",
    "kernel SET material = CAST(x'00' || substr(material, 2) AS BLOB)",
    "kernel SET material = substr(material, 1, length(material) - 1)",
    "kernel SET spec = target, target = spec",
    "kernel SET registers = threads, threads = registers",
    "code SET data = CAST(x'00' || substr(data, 2) AS BLOB)",
    "code SET data = CAST(substr(data, 1, length(data) - 1) || x'ff' AS BLOB)",
    "code SET data = substr(data, 1, 4999)",
    "code SET data = CAST(data || x'00' AS BLOB)",
    "code SET data = x''",
    "code SET data = zeroblob(5000)",
    "aux SET kind = 7 - kind",
    "aux SET codec = 0",
    "aux SET codec = 2",
    "aux SET raw_size = raw_size + 1",
    "aux SET raw_size = 1099511627776",
    "aux SET raw_size = -raw_size - 1",
    "aux SET hash = zeroblob(16)",
    "aux SET hash = x''",
    "aux SET data = CAST(data || x'00' AS BLOB)",
    "aux SET data = x''",
};

static void any_changed_value_of_an_entry_is_a_counted_miss_that_heals(void **state)
{
    struct fixture *fixture = *state;
    for (unsigned i = 0; i < COUNT_OF(changes); i++) {
        struct cache *cache = open_filled(fixture, 4);
        char sql[256];
        (void)snprintf(sql, sizeof sql, "UPDATE %s WHERE id = 2", changes[i]);
        (void)fixture_sql(fixture, sql);
        enum cache_result result = sample_get(cache, 1, CODE_SIZE, NULL);
        if (result != CACHE_MISS || cache_bad_entries(cache) != 1 || fixture->warnings != 1) {
            fail_msg("%s: result %d, %d bad, log: %s", changes[i], (int)result, (int)cache_bad_entries(cache),
                     fixture->log);
        }
        assert_logged(fixture, "is not used");
        assert_int_equal(rows_of(fixture, "kernel") + rows_of(fixture, "code") + rows_of(fixture, "aux"), 0);
        for (unsigned k = 0; k < 4; k++) {
            assert_int_equal(sample_get(cache, k, CODE_SIZE, NULL), k == 1 ? CACHE_MISS : CACHE_OK);
        }
        assert_int_equal(sample_put(cache, 1, CODE_SIZE), CACHE_OK);
        assert_int_equal(sample_get(cache, 1, CODE_SIZE, NULL), CACHE_OK);
        assert_int_equal(cache_bad_entries(cache), 1);
        assert_int_equal(cache_remove(cache, NULL, NULL), CACHE_OK);
        cache_close(cache);
        fixture_forget_log(fixture);
    }
}

static void code_and_parts_of_another_entry_are_not_taken(void **state)
{
    struct fixture *fixture = *state;
    static const char *const swaps[] = {
        "UPDATE code SET data = (SELECT data FROM code WHERE id = 3) WHERE id = 2",
        "UPDATE code SET id = 99 WHERE id = 2; UPDATE code SET id = 2 WHERE id = 3",
        "DELETE FROM aux WHERE id = 2; UPDATE aux SET id = 2 WHERE id = 3",
        "UPDATE aux SET (codec, raw_size, hash, data) = (SELECT codec, raw_size, hash, data FROM aux"
        " WHERE id = 2 AND kind = 1) WHERE id = 2 AND kind = 0",
        "UPDATE kernel SET id = 99 WHERE id = 2; UPDATE kernel SET id = 2 WHERE id = 3;"
        "UPDATE kernel SET id = 3 WHERE id = 99",
        /* The whole row of entry 3 under the key of entry 2. */
        "CREATE TEMP TABLE t AS SELECT key FROM kernel WHERE id = 2; DELETE FROM kernel WHERE id = 2;"
        "UPDATE kernel SET key = (SELECT key FROM t) WHERE id = 3",
    };
    for (unsigned i = 0; i < COUNT_OF(swaps); i++) {
        struct cache *cache = open_filled(fixture, 4);
        (void)fixture_sql(fixture, swaps[i]);
        if (sample_get(cache, 1, CODE_SIZE, NULL) != CACHE_MISS || cache_bad_entries(cache) != 1) {
            fail_msg("%s: taken", swaps[i]);
        }
        bool wrong = false;
        (void)sample_get(cache, 2, CODE_SIZE, &wrong);
        assert_false(wrong);
        assert_int_equal(cache_remove(cache, NULL, NULL), CACHE_OK);
        cache_close(cache);
    }
}

static void a_code_that_is_missing_makes_a_miss(void **state)
{
    struct fixture *fixture = *state;
    struct cache *cache = open_filled(fixture, 2);
    (void)fixture_sql(fixture, "DELETE FROM code WHERE id = 2");
    assert_int_equal(sample_get(cache, 1, CODE_SIZE, NULL), CACHE_MISS);
    assert_logged(fixture, "missing");
    assert_int_equal(sample_put(cache, 1, CODE_SIZE), CACHE_OK);
    assert_int_equal(sample_get(cache, 1, CODE_SIZE, NULL), CACHE_OK);
    cache_close(cache);
}

static void without_its_parts_an_entry_is_good(void **state)
{
    struct fixture *fixture = *state;
    struct cache *cache = open_filled(fixture, 2);
    (void)fixture_sql(fixture, "DELETE FROM aux");
    assert_int_equal(sample_get(cache, 1, CODE_SIZE, NULL), CACHE_OK);
    assert_int_equal(cache_bad_entries(cache), 0);
    cache_close(cache);
}

static void leftovers_under_a_new_id_do_no_harm(void **state)
{
    struct fixture *fixture = *state;
    struct cache *cache = open_filled(fixture, 1);
    (void)fixture_sql(fixture, "INSERT INTO code VALUES(2, x'00'); INSERT INTO use VALUES(2, 5, 5);"
                               "INSERT INTO aux VALUES(2, 2, 0, 1, x'00', x'00'), (2, 0, 0, 1, x'00', x'00')");
    assert_int_equal(sample_put(cache, 1, CODE_SIZE), CACHE_OK);
    assert_int_equal(sample_get(cache, 1, CODE_SIZE, NULL), CACHE_OK);
    assert_int_equal(cache_bad_entries(cache), 0);
    cache_close(cache);
}

/* While one process says that an entry is bad, another one removes it and stores a good one, under the same id. */
static void heal_meanwhile(int level, const char *line, void *user)
{
    struct cache *other = user;
    (void)level;
    if (strstr(line, "is not used")) {
        assert_int_equal(sample_get(other, 1, CODE_SIZE, NULL), CACHE_MISS);
        assert_int_equal(sample_put(other, 1, CODE_SIZE), CACHE_OK);
    }
}

static void a_good_entry_that_took_the_place_of_the_bad_one_stays(void **state)
{
    struct fixture *fixture = *state;
    struct cache *other = open_filled(fixture, 2);
    struct cache_options options = {.dir = fixture->dir, .log = heal_meanwhile, .log_user = other};
    struct cache *cache = cache_open(&options);
    (void)fixture_sql(fixture, "UPDATE kernel SET registers = 1000 WHERE id = 2");
    assert_int_equal(sample_get(cache, 1, CODE_SIZE, NULL), CACHE_MISS);
    assert_int_equal(rows_of(fixture, "kernel"), 1);
    assert_int_equal(sample_get(cache, 1, CODE_SIZE, NULL), CACHE_OK);
    cache_close(cache);
    cache_close(other);
}

static int read_bad_entry(struct fixture *fixture)
{
    struct cache_options options = fixture_options(fixture);
    options.read_only = true;
    struct cache *cache = cache_open(&options);
    CHECK(sample_get(cache, 1, CODE_SIZE, NULL) == CACHE_MISS);
    CHECK(sample_get(cache, 1, CODE_SIZE, NULL) == CACHE_MISS);
    CHECK(cache_bad_entries(cache) == 2);
    CHECK(sample_get(cache, 0, CODE_SIZE, NULL) == CACHE_OK);
    cache_close(cache);
    return 0;
}

static void a_bad_entry_that_cannot_be_removed_is_still_a_miss(void **state)
{
    struct fixture *fixture = *state;
    fill(fixture, 2);
    (void)fixture_sql(fixture, "UPDATE code SET data = zeroblob(5000) WHERE id = 2");
    assert_int_equal(in_child(read_bad_entry, fixture, false), 0);
    assert_int_equal(rows_of(fixture, "kernel"), 1);
}

/* ---- Files at rest ---------------------------------------------------------------------------------------------------- */

struct contents {
    unsigned char *bytes;
    size_t size;
};

static void zero_header(struct contents *file)
{
    memset(file->bytes, 0, file->size < 100 ? file->size : 100);
}

static void zero_everything(struct contents *file)
{
    memset(file->bytes, 0, file->size);
}

static void write_text(struct contents *file)
{
    memset(file->bytes, 'x', file->size);
    file->bytes[file->size - 1] = '\n';
}

static void halve(struct contents *file)
{
    file->size /= 2;
}

static void keep_one_page(struct contents *file)
{
    file->size = 8192;
}

static void keep_half_a_page(struct contents *file)
{
    file->size = 4096;
}

static void damage_the_schema(struct contents *file)
{
    memset(file->bytes + 4096, 0x5a, 4096);
}

static void claim_another_application(struct contents *file)
{
    file->bytes[68] ^= 0xff;
}

static void claim_an_unknown_schema_format(struct contents *file)
{
    file->bytes[47] = 99;
}

static void claim_a_later_schema(struct contents *file)
{
    file->bytes[63] = 228;
}

static void claim_another_encoding(struct contents *file)
{
    file->bytes[59] = 2;
}

static void claim_a_later_write_format(struct contents *file)
{
    file->bytes[18] = 9;
}

static void assert_works(struct fixture *fixture, struct cache *cache)
{
    for (unsigned i = 0; i < 3; i++) {
        bool wrong = false;
        (void)sample_get(cache, i, CODE_SIZE, &wrong);
        assert_false(wrong);
        assert_int_equal(sample_put(cache, i, CODE_SIZE), CACHE_OK);
        assert_int_equal(sample_get(cache, i, CODE_SIZE, NULL), CACHE_OK);
    }
    assert_string_equal(cache_state(cache), "read-write");
    assert_int_equal(fixture_sql(fixture, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'"),
                     1);
}

static void damaged_files_are_set_aside_once_with_one_warning(void **state)
{
    struct fixture *fixture = *state;
    static void (*const damages[])(struct contents * file) = {zero_header,
                                                              zero_everything,
                                                              write_text,
                                                              halve,
                                                              keep_one_page,
                                                              damage_the_schema,
                                                              keep_half_a_page,
                                                              claim_another_application,
                                                              claim_another_encoding,
                                                              claim_a_later_write_format,
                                                              claim_a_later_schema,
                                                              claim_an_unknown_schema_format};
    for (size_t i = 0; i < COUNT_OF(damages); i++) {
        fill(fixture, 20);
        struct contents file;
        file.bytes = file_read(fixture->file, &file.size);
        damages[i](&file);
        file_write(fixture->file, file.bytes, file.size);
        free(file.bytes);
        struct cache *cache = fixture_open(fixture);
        /* Damage may hide until it is met. */
        for (unsigned k = 0; k < 20; k++) {
            bool wrong = false;
            enum cache_result result = sample_get(cache, k, CODE_SIZE, &wrong);
            assert_true(!wrong && (result == CACHE_OK || result == CACHE_MISS));
        }
        int64_t good, bad;
        assert_int_equal(cache_verify(cache, NULL, NULL, &good, &bad), CACHE_OK);
        assert_works(fixture, cache);
        cache_close(cache);
        if (fixture->warnings != 1 || count_names(fixture->dir, CACHE_FILE_NAME ".damaged-") < 1) {
            fail_msg("damage %zu: %d warnings:\n%s", i, fixture->warnings, fixture->log);
        }
        assert_logged(fixture, "set aside as");
        fixture_forget_log(fixture);
        fixture_forget_folder(fixture);
    }
}

static void an_emptied_file_is_filled_again(void **state)
{
    struct fixture *fixture = *state;
    fill(fixture, 5);
    file_write(fixture->file, "", 0);
    struct cache *cache = fixture_open(fixture);
    assert_int_equal(sample_get(cache, 1, CODE_SIZE, NULL), CACHE_MISS);
    assert_works(fixture, cache);
    cache_close(cache);
    assert_int_equal(fixture->lines, 0);
}

static void a_log_left_by_another_database_does_no_harm(void **state)
{
    struct fixture *fixture = *state;
    char wal[500];
    (void)snprintf(wal, sizeof wal, "%s-wal", fixture->file);
    /* The log of a database that was then removed or replaced without it. */
    struct cache *cache = open_filled(fixture, 20);
    size_t size, database_size;
    unsigned char *log = file_read(wal, &size);
    assert_true(size > 0);
    cache_close(cache);
    unsigned char *database = file_read(fixture->file, &database_size);
    for (int with_database = 0; with_database < 2; with_database++) {
        assert_int_equal(unlink(fixture->file), 0);
        if (with_database) {
            file_write(fixture->file, database, database_size);
        }
        file_write(wal, log, size);
        cache = fixture_open(fixture);
        assert_works(fixture, cache);
        cache_close(cache);
    }
    free(log);
    free(database);
}

/* ---- Files while open ------------------------------------------------------------------------------------------------- */

static void files_damaged_while_open_never_give_wrong_bytes(void **state)
{
    struct fixture *fixture = *state;
    static void (*const damages[])(struct contents * file) = {zero_header, zero_everything, write_text, halve,
                                                              keep_one_page};
    for (size_t i = 0; i < COUNT_OF(damages); i++) {
        fill(fixture, 40);
        struct cache *cache = fixture_open(fixture);
        assert_int_equal(sample_get(cache, 0, CODE_SIZE, NULL), CACHE_OK);
        struct contents damaged;
        damaged.bytes = file_read(fixture->file, &damaged.size);
        const size_t before = damaged.size;
        damages[i](&damaged);
        if (damaged.size < before) {
            assert_int_equal(truncate(fixture->file, (off_t)damaged.size), 0);
        } else {
            /* In place: the same inode. */
            FILE *file = fopen(fixture->file, "r+b");
            assert_non_null(file);
            assert_int_equal(fwrite(damaged.bytes, 1, damaged.size, file), damaged.size);
            assert_int_equal(fclose(file), 0);
        }
        free(damaged.bytes);
        for (unsigned k = 0; k < 40; k++) {
            bool wrong = false;
            (void)sample_get(cache, k, CODE_SIZE, &wrong);
            (void)sample_put(cache, 100 + k, CODE_SIZE);
            (void)sample_get(cache, 100 + k, CODE_SIZE, &wrong);
            assert_false(wrong);
        }
        cache_close(cache);
        /* The next process works, whatever this one left. */
        fixture_forget_log(fixture);
        cache = fixture_open(fixture);
        int64_t good, bad;
        assert_int_equal(cache_verify(cache, NULL, NULL, &good, &bad), CACHE_OK);
        assert_works(fixture, cache);
        cache_close(cache);
        fixture_forget_folder(fixture);
    }
}

static void a_second_damage_is_given_up_and_said(void **state)
{
    struct fixture *fixture = *state;
    fill(fixture, 3);
    static const char text[] =
        "damaged for the first time, and longer than a file of which nothing is read: padding padding "
        "padding padding padding padding padding padding padding";
    file_write(fixture->file, text, sizeof text);
    struct cache *cache = fixture_open(fixture);
    assert_works(fixture, cache);
    (void)fixture_sql(fixture, "DROP TABLE kernel");
    assert_int_equal(sample_get(cache, 1, CODE_SIZE, NULL), CACHE_MISS);
    assert_non_null(strstr(cache_state(cache), "damaged again"));
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(sample_get(cache, i, CODE_SIZE, NULL), CACHE_UNUSABLE);
        assert_int_equal(sample_put(cache, i, CODE_SIZE), CACHE_UNUSABLE);
    }
    assert_int_equal(fixture->warnings, 2);
    cache_close(cache);
    assert_int_equal(count_names(fixture->dir, CACHE_FILE_NAME ".damaged-"), 1);
    /* The next process starts anew. */
    cache = fixture_open(fixture);
    assert_works(fixture, cache);
    cache_close(cache);
}

static void damage_again(struct fixture *fixture)
{
    (void)fixture_sql(fixture, "DROP TABLE kernel");
}

/* However many handles the process has, and whichever of them finds the second damage. */
static void a_process_sets_aside_once_whatever_its_handles(void **state)
{
    struct fixture *fixture = *state;
    const struct cache_options options = fixture_options(fixture);
    struct cache *first = open_filled(fixture, 3);
    struct cache *second = cache_open(&options);
    assert_int_equal(sample_get(second, 1, CODE_SIZE, NULL), CACHE_OK);
    damage_again(fixture);
    assert_int_equal(sample_get(first, 1, CODE_SIZE, NULL), CACHE_MISS);
    assert_works(fixture, first);
    assert_works(fixture, second); /* the file was replaced under it: that is no second damage */
    assert_int_equal(count_names(fixture->dir, CACHE_FILE_NAME ".damaged-") > 0, 1);
    const int aside = count_names(fixture->dir, CACHE_FILE_NAME ".damaged-");
    cache_close(first);
    damage_again(fixture);
    struct cache *third = cache_open(&options);
    assert_int_equal(sample_get(third, 1, CODE_SIZE, NULL), CACHE_UNUSABLE);
    assert_non_null(strstr(cache_state(third), "cannot be set aside: this process has set one aside before"));
    assert_int_not_equal(sample_get(second, 1, CODE_SIZE, NULL), CACHE_OK);
    assert_int_equal(sample_put(second, 1, CODE_SIZE), CACHE_UNUSABLE);
    assert_int_equal(count_names(fixture->dir, CACHE_FILE_NAME ".damaged-"), aside);
    cache_close(second);
    cache_close(third);
    struct cache *of_the_next_process = fixture_open(fixture);
    assert_works(fixture, of_the_next_process);
    cache_close(of_the_next_process);
}

static int child_sets_aside(struct fixture *fixture)
{
    const struct cache_options options = fixture_options(fixture);
    struct cache *cache = cache_open(&options);
    CHECK(sample_put(cache, 1, CODE_SIZE) == CACHE_OK);
    cache_close(cache);
    return 0;
}

static void a_child_of_a_fork_is_another_process(void **state)
{
    struct fixture *fixture = *state;
    struct cache *cache = open_filled(fixture, 3);
    damage_again(fixture);
    assert_works(fixture, cache);
    cache_close(cache);
    damage_again(fixture);
    assert_int_equal(in_child(child_sets_aside, fixture, false), 0);
}

static void damage_found_while_storing_does_not_lose_what_is_stored(void **state)
{
    struct fixture *fixture = *state;
    struct cache *cache = open_filled(fixture, 3);
    (void)fixture_sql(fixture, "DROP TABLE code");
    assert_int_equal(sample_put(cache, 50, CODE_SIZE), CACHE_OK);
    assert_int_equal(sample_get(cache, 50, CODE_SIZE, NULL), CACHE_OK);
    assert_logged(fixture, "set aside");
    assert_int_equal(fixture->warnings, 1);
    cache_close(cache);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, fixture_setup_in_memory, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(any_changed_value_of_an_entry_is_a_counted_miss_that_heals),
        WITH_FIXTURE(code_and_parts_of_another_entry_are_not_taken),
        WITH_FIXTURE(a_code_that_is_missing_makes_a_miss),
        WITH_FIXTURE(without_its_parts_an_entry_is_good),
        WITH_FIXTURE(leftovers_under_a_new_id_do_no_harm),
        WITH_FIXTURE(a_good_entry_that_took_the_place_of_the_bad_one_stays),
        WITH_FIXTURE(a_bad_entry_that_cannot_be_removed_is_still_a_miss),
        WITH_FIXTURE(damaged_files_are_set_aside_once_with_one_warning),
        WITH_FIXTURE(an_emptied_file_is_filled_again),
        WITH_FIXTURE(a_log_left_by_another_database_does_no_harm),
        WITH_FIXTURE(files_damaged_while_open_never_give_wrong_bytes),
        WITH_FIXTURE(a_second_damage_is_given_up_and_said),
        WITH_FIXTURE(a_process_sets_aside_once_whatever_its_handles),
        WITH_FIXTURE(a_child_of_a_fork_is_another_process),
        WITH_FIXTURE(damage_found_while_storing_does_not_lose_what_is_stored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
