/*
 * Verify: bad entries are found and removed whatever part of them is bad, good ones stay, strays are swept away.
 */
#include "tests/support/cache_fixture.h"

static void assert_verifies(struct cache *cache, int64_t good, int64_t bad)
{
    int64_t good_found = -1, bad_found = -1;
    assert_int_equal(cache_verify(cache, NULL, NULL, &good_found, &bad_found), CACHE_OK);
    assert_int_equal(good_found, good);
    assert_int_equal(bad_found, bad);
}

static void fill(struct cache *cache)
{
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(sample_put(cache, i, 5000), CACHE_OK);
    }
}

static void good_entries_stay_and_are_not_counted_as_used(void **state)
{
    struct fixture *fixture = *state;
    struct cache *cache = fixture_open(fixture);
    assert_verifies(cache, 0, 0);
    fill(cache);
    int64_t sequence = fixture_sql(fixture, "SELECT value FROM meta WHERE name = 'sequence'");
    assert_verifies(cache, 10, 0);
    assert_verifies(cache, 10, 0);
    assert_int_equal(fixture_sql(fixture, "SELECT value FROM meta WHERE name = 'sequence'"), sequence);
    assert_int_equal(fixture->lines, 0);
    cache_close(cache);
}

static void every_kind_of_bad_entry_is_found_and_removed(void **state)
{
    struct fixture *fixture = *state;
    static const char *const damages[] = {
        "UPDATE kernel SET registers = registers + 1 WHERE id = 4",
        "UPDATE kernel SET material = x'00' WHERE id = 4",
        "UPDATE kernel SET row_hash = x'00' WHERE id = 4",
        "UPDATE kernel SET row_hash = CAST('0123456789abcdef' AS BLOB) WHERE id = 4",
        "UPDATE kernel SET key = CAST('0123456789abcdef' AS BLOB) WHERE id = 4",
        "UPDATE kernel SET key = x'0011' WHERE id = 4",
        "UPDATE code SET data = x'00' WHERE id = 4",
        "DELETE FROM code WHERE id = 4",
        "UPDATE aux SET data = x'00' WHERE id = 4 AND kind = 0",
        "UPDATE aux SET kind = 9 WHERE id = 4 AND kind = 0",
        "UPDATE aux SET hash = x'00' WHERE id = 4 AND kind = 0",
    };
    for (size_t i = 0; i < COUNT_OF(damages); i++) {
        struct cache *cache = fixture_open(fixture);
        fill(cache);
        (void)fixture_sql(fixture, damages[i]);
        uint64_t before = cache_bad_entries(cache);
        int64_t good, bad;
        assert_int_equal(cache_verify(cache, NULL, NULL, &good, &bad), CACHE_OK);
        if (good != 9 || bad != 1 || cache_bad_entries(cache) != before + 1) {
            fail_msg("%s: %lld good, %lld bad", damages[i], (long long)good, (long long)bad);
        }
        assert_verifies(cache, 9, 0);
        fill(cache);
        assert_verifies(cache, 10, 0);
        assert_int_equal(cache_remove(cache, NULL, NULL), CACHE_OK);
        (void)fixture_sql(fixture, "DELETE FROM kernel");
        cache_close(cache);
    }
}

static bool all_but_one_size(const struct cache_entry *entry, void *user)
{
    int *calls = user;
    ++*calls;
    assert_non_null(entry->code.data);
    assert_non_null(entry->aux[CACHE_AUX_SOURCE].data);
    return entry->smem_dynamic != 5 * 8;
}

static void the_caller_may_find_code_bad_that_hashes_well(void **state)
{
    struct fixture *fixture = *state;
    struct cache *cache = fixture_open(fixture);
    int64_t good, bad;
    int calls = 0;
    fill(cache);
    assert_int_equal(cache_verify(cache, all_but_one_size, &calls, &good, &bad), CACHE_OK);
    assert_int_equal(calls, 10);
    assert_int_equal(good, 9);
    assert_int_equal(bad, 1);
    assert_int_equal(cache_bad_entries(cache), 1);
    assert_int_equal(sample_get(cache, 5, 5000, NULL), CACHE_MISS);
    assert_int_equal(sample_get(cache, 6, 5000, NULL), CACHE_OK);
    cache_close(cache);
}

static void strays_are_swept_away_and_lost_uses_made_anew(void **state)
{
    struct fixture *fixture = *state;
    struct cache *cache = fixture_open(fixture);
    fill(cache);
    (void)fixture_sql(fixture, "INSERT INTO code VALUES(77, x'00'); INSERT INTO aux VALUES(78, 0, 0, 1, x'00', x'00');"
                               "INSERT INTO use VALUES(79, 1, 1); DELETE FROM use WHERE id = 2");
    assert_verifies(cache, 10, 0);
    assert_int_equal(fixture_sql(fixture, "SELECT count(*) FROM code"), 10);
    assert_int_equal(fixture_sql(fixture, "SELECT count(DISTINCT id) FROM aux"), 10);
    assert_int_equal(fixture_sql(fixture, "SELECT count(*) FROM use"), 10);
    cache_close(cache);
}

static void an_index_that_disagrees_with_its_table_is_made_anew(void **state)
{
    struct fixture *fixture = *state;
    struct cache *cache = fixture_open(fixture);
    fill(cache);
    cache_close(cache);
    /* An index of other rows, as a lost page would leave it. */
    (void)fixture_sql(fixture, "PRAGMA writable_schema = ON;"
                               "UPDATE sqlite_schema SET sql = 'CREATE INDEX kernel_name ON kernel(spec, key)'"
                               " WHERE name = 'kernel_name'");
    (void)fixture_sql(fixture, "REINDEX kernel_name");
    (void)fixture_sql(fixture, "PRAGMA writable_schema = ON;"
                               "UPDATE sqlite_schema SET sql = 'CREATE INDEX kernel_name ON kernel(name, key)'"
                               " WHERE name = 'kernel_name'");
    cache = fixture_open(fixture);
    struct cache_key key;
    int64_t matches;
    assert_int_equal(cache_find(cache, "gdpa_fwd_sm90_d128_bf16_relu_00000003", &key, &matches), CACHE_MISS);
    assert_verifies(cache, 10, 0);
    assert_int_equal(cache_find(cache, "gdpa_fwd_sm90_d128_bf16_relu_00000003", &key, &matches), CACHE_OK);
    cache_close(cache);
}

static void a_damaged_structure_costs_all_entries_but_not_the_cache(void **state)
{
    struct fixture *fixture = *state;
    struct cache *cache = fixture_open(fixture);
    fill(cache);
    cache_close(cache);
    int64_t root = fixture_sql(fixture, "SELECT rootpage FROM sqlite_schema WHERE name = 'use_sequence'");
    size_t size;
    unsigned char *bytes = file_read(fixture->file, &size);
    assert_true((size_t)root * 8192 <= size);
    memset(bytes + (root - 1) * 8192, 0xa5, 8192);
    file_write(fixture->file, bytes, size);
    free(bytes);
    cache = fixture_open(fixture);
    assert_verifies(cache, 0, 10);
    assert_logged(fixture, "set aside");
    assert_int_equal(fixture->warnings, 1);
    assert_int_equal(count_names(fixture->dir, CACHE_FILE_NAME ".damaged-"), 3); /* with -wal and -shm */
    fill(cache);
    assert_verifies(cache, 10, 0);
    cache_close(cache);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(good_entries_stay_and_are_not_counted_as_used),
        WITH_FIXTURE(every_kind_of_bad_entry_is_found_and_removed),
        WITH_FIXTURE(the_caller_may_find_code_bad_that_hashes_well),
        WITH_FIXTURE(strays_are_swept_away_and_lost_uses_made_anew),
        WITH_FIXTURE(an_index_that_disagrees_with_its_table_is_made_anew),
        WITH_FIXTURE(a_damaged_structure_costs_all_entries_but_not_the_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
