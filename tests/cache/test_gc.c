/*
 * Upkeep at one go: what goes, what stays, and what is said about it.
 */
#include "tests/support/cache_faults.h"
#include "tests/support/cache_fixture.h"

static void fill(struct cache *cache, unsigned count, size_t code_size)
{
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(sample_put(cache, i, code_size), CACHE_OK);
    }
}

static int64_t size_of(const char *path)
{
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    return status.st_size;
}

static void a_cache_below_its_limit_loses_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct cache *cache = fixture_open(fixture);
    struct cache_gc report = {.entries = -1};
    fill(cache, 5, 20000);
    assert_int_equal(cache_gc(cache, 0, &report), CACHE_OK);
    assert_int_equal(report.entries, 0);
    assert_int_equal(report.parts, 0);
    assert_int_equal(report.set_aside, 0);
    assert_true(report.bytes_before > 0 && report.bytes_after > 0);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(sample_get(cache, i, 20000, NULL), CACHE_OK);
    }
    cache_close(cache);
    assert_int_equal(fixture->lines, 0);
}

static void a_limit_is_reached_at_once_and_the_file_gets_shorter(void **state)
{
    struct fixture *fixture = *state;
    struct cache *cache = fixture_open(fixture);
    struct cache_gc report;
    fill(cache, 60, 100000);
    assert_int_equal(sample_get(cache, 7, 100000, NULL), CACHE_OK);
    assert_int_equal(cache_gc(cache, 2000000, &report), CACHE_OK);
    assert_true(report.entries > 40 && report.entries < 50);
    assert_true(report.parts >= report.entries);
    assert_true(report.bytes_before > 6000000);
    assert_true(size_of(fixture->file) <= 2000000 / 5 * 4);
    assert_int_equal(fixture_sql(fixture, "PRAGMA freelist_count"), 0);
    assert_int_equal(sample_get(cache, 7, 100000, NULL), CACHE_OK);
    assert_int_equal(sample_get(cache, 59, 100000, NULL), CACHE_OK);
    assert_int_equal(sample_get(cache, 0, 100000, NULL), CACHE_MISS);
    assert_int_equal(cache_evicted(cache), report.entries);
    cache_close(cache);
}

static void strays_and_databases_that_were_set_aside_go(void **state)
{
    struct fixture *fixture = *state;
    struct cache *cache = fixture_open(fixture);
    struct cache_gc report;
    struct cache_details details;
    char aside[500];
    fill(cache, 3, 20000);
    (void)fixture_sql(fixture, "DELETE FROM kernel WHERE name LIKE '%1'");
    (void)snprintf(aside, sizeof aside, "%s.damaged-12-0", fixture->file);
    file_write(aside, "damaged", 7);
    assert_int_equal(cache_describe(cache, &details), CACHE_OK);
    assert_int_equal(details.set_aside, 1);
    assert_int_equal(details.locks, 1);
    assert_false(details.network);
    assert_true(details.part_bytes > 0);
    assert_true(details.file_bytes >= size_of(fixture->file) + 7);
    assert_int_equal(cache_gc(cache, 0, &report), CACHE_OK);
    assert_int_equal(report.set_aside, 1);
    assert_true(report.parts > 0);
    assert_int_equal(count_names(fixture->dir, CACHE_FILE_NAME ".damaged-"), 0);
    assert_int_equal(fixture_sql(fixture, "SELECT count(*) FROM code"), 2);
    cache_close(cache);
}

static void what_cannot_be_written_is_not_cleaned_and_says_why(void **state)
{
    struct fixture *fixture = *state;
    struct cache_gc report = {.entries = -1};
    struct cache *cache = fixture_open(fixture);
    fill(cache, 2, 20000);
    cache_close(cache);
    struct cache_options options = fixture_options(fixture);
    options.read_only = true;
    cache = cache_open(&options);
    assert_int_equal(cache_gc(cache, 1, &report), CACHE_UNUSABLE);
    assert_int_equal(report.entries, -1);
    assert_string_equal(cache_state(cache), "read-only");
    cache_close(cache);
}

static void on_a_full_disk_it_ends_and_says_so(void **state)
{
    struct fixture *fixture = *state;
    struct cache_gc report = {.entries = -1};
    struct cache *cache = fixture_open(fixture);
    fill(cache, 20, 20000);
    fault_plan = (struct fault_plan){FAULT_WRITE, 0, true, SQLITE_FULL, false};
    assert_int_equal(cache_gc(cache, 100000, &report), CACHE_UNUSABLE);
    fault_plan.countdown = -1;
    assert_int_equal(report.entries, -1);
    assert_string_equal(cache_state(cache), "read-only: the disk is full");
    assert_int_equal(fixture->warnings, 1);
    assert_int_equal(sample_get(cache, 3, 20000, NULL), CACHE_OK);
    cache_close(cache);
    cache = fixture_open(fixture);
    assert_int_equal(cache_gc(cache, 100000, &report), CACHE_OK);
    cache_close(cache);
}

static void a_full_disk_while_evicting_ends_the_writing_without_a_loop(void **state)
{
    struct fixture *fixture = *state;
    struct cache *cache = fixture_open(fixture);
    fill(cache, 30, 20000);
    cache_close(cache);
    for (int64_t n = 0; n < 40; n++) { /* at any write of the store and of the pass after it */
        struct cache_options options = fixture_options(fixture);
        options.limit_bytes = 100000;
        fixture_forget_log(fixture);
        cache = cache_open(&options);
        fault_plan = (struct fault_plan){FAULT_WRITE, n, true, SQLITE_FULL, false};
        (void)sample_put(cache, 1000 + (unsigned)n, 20000);
        bool met = fault_plan.met;
        fault_plan.met = false;
        (void)sample_put(cache, 2000 + (unsigned)n, 20000);
        assert_true(!met || !fault_plan.met || strcmp(cache_state(cache), "read-write") == 0);
        fault_plan.countdown = -1;
        assert_true(fixture->warnings <= 1);
        cache_close(cache);
    }
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, fixture_setup_in_memory, fixture_teardown)

int main(void)
{
    faults_install();
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(a_cache_below_its_limit_loses_nothing),
        WITH_FIXTURE(a_limit_is_reached_at_once_and_the_file_gets_shorter),
        WITH_FIXTURE(strays_and_databases_that_were_set_aside_go),
        WITH_FIXTURE(what_cannot_be_written_is_not_cleaned_and_says_why),
        WITH_FIXTURE(a_full_disk_while_evicting_ends_the_writing_without_a_loop),
        WITH_FIXTURE(on_a_full_disk_it_ends_and_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
