/*
 * The order of use: noted in memory, written at most once a key and process, and once more at the end.
 */
#include "tests/support/cache_fixture.h"

#include <time.h>

static struct cache_key key_of(unsigned number)
{
    struct cache_key key = {{0}};
    /* All in the same first slot of a small table. */
    memcpy(key.bytes + 8, &number, sizeof number);
    return key;
}

static void many_keys_are_told_apart_and_counted(void **state)
{
    (void)state;
    struct cache_recency recency = {NULL, 0, 0, 0};
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 500; i++) {
            struct cache_key key = key_of(i);
            cache_recency_note(&recency, &key);
        }
    }
    assert_int_equal(recency.count, 500);
    assert_int_equal(recency.waiting, 500);
    assert_true(recency.capacity > 500);
    size_t seen = 0;
    for (size_t i = 0; i < recency.capacity; i++) {
        if (recency.slots[i].taken) {
            assert_int_equal(recency.slots[i].hits, 3);
            seen++;
        }
    }
    assert_int_equal(seen, 500);
    cache_recency_written(&recency, false);
    assert_int_equal(recency.waiting, 0);
    struct cache_key key = key_of(7);
    cache_recency_note(&recency, &key);
    assert_int_equal(recency.waiting, 0); /* its place is written; only the hit is kept for the end */
    cache_recency_deinit(&recency);
    assert_null(recency.slots);
}

static int64_t uses_written(const struct fixture *fixture)
{
    return fixture_sql(fixture, "SELECT value FROM meta WHERE name = 'sequence'");
}

static void a_key_is_written_at_its_first_hit_and_then_only_at_the_end(void **state)
{
    struct fixture *fixture = *state;
    struct cache *cache = fixture_open(fixture);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(sample_put(cache, i, 100), CACHE_OK);
    }
    int64_t before = uses_written(fixture);
    assert_int_equal(before, 3);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(sample_get(cache, 1, 100, NULL), CACHE_OK);
        assert_int_equal(uses_written(fixture), before + 1);
    }
    assert_int_equal(sample_get(cache, 0, 100, NULL), CACHE_OK);
    assert_int_equal(uses_written(fixture), before + 2);
    assert_int_equal(fixture_sql(fixture, "SELECT sum(hits) FROM use"), 2);
    cache_close(cache);
    assert_int_equal(uses_written(fixture), before + 3);
    assert_int_equal(fixture_sql(fixture, "SELECT sum(hits) FROM use"), 51);
    assert_int_equal(fixture_sql(fixture, "SELECT count(*) FROM use WHERE hits = 50"), 1);
}

static void a_hit_never_waits_for_another_writer(void **state)
{
    struct fixture *fixture = *state;
    struct cache *cache = fixture_open(fixture);
    assert_int_equal(sample_put(cache, 1, 100), CACHE_OK);
    assert_int_equal(sample_put(cache, 2, 100), CACHE_OK);
    sqlite3 *other = NULL;
    assert_int_equal(sqlite3_open(fixture->file, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    struct timespec start, end;
    (void)clock_gettime(CLOCK_MONOTONIC, &start);
    assert_int_equal(sample_get(cache, 1, 100, NULL), CACHE_OK);
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    assert_true((end.tv_sec - start.tv_sec) * 1000 + (end.tv_nsec - start.tv_nsec) / 1000000 < CACHE_BUSY_MS);
    assert_int_equal(sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(other), SQLITE_OK);
    assert_int_equal(fixture_sql(fixture, "SELECT sum(hits) FROM use"), 0);
    /* Written with the next one. */
    assert_int_equal(sample_get(cache, 2, 100, NULL), CACHE_OK);
    assert_int_equal(fixture_sql(fixture, "SELECT sum(hits) FROM use"), 2);
    cache_close(cache);
    assert_int_equal(fixture->lines, 0);
}

static void damaged_counters_start_again(void **state)
{
    struct fixture *fixture = *state;
    static const char *const damages[] = {
        "UPDATE meta SET value = 9223372036854775807", "UPDATE meta SET value = -5", "DELETE FROM meta",
        "UPDATE use SET hits = 9223372036854775807, sequence = -1", "DELETE FROM use"};
    for (unsigned i = 0; i < COUNT_OF(damages); i++) {
        struct cache *cache = fixture_open(fixture);
        assert_int_equal(sample_put(cache, i, 100), CACHE_OK);
        (void)fixture_sql(fixture, damages[i]);
        assert_int_equal(sample_get(cache, i, 100, NULL), CACHE_OK);
        assert_int_equal(sample_put(cache, 100 + i, 100), CACHE_OK);
        assert_int_equal(cache_bad_entries(cache), 0);
        assert_string_equal(cache_state(cache), "read-write");
        cache_close(cache);
        assert_true(uses_written(fixture) > 0);
        assert_int_equal(fixture->warnings, 0);
    }
    assert_int_equal(fixture_sql(fixture, "SELECT count(*) FROM kernel"), 2 * COUNT_OF(damages));
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_keys_are_told_apart_and_counted),
        WITH_FIXTURE(a_key_is_written_at_its_first_hit_and_then_only_at_the_end),
        WITH_FIXTURE(a_hit_never_waits_for_another_writer),
        WITH_FIXTURE(damaged_counters_start_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
