/*
 * Power cuts: at a random write everything stops, and of what was written since the last sync some or all is lost. And
 * processes that are killed in the middle of a write. The next process opens what is left; lost entries are misses, and no
 * bytes are ever wrong.
 *
 * Longer runs: GDPAJIT_TEST_CUTS (300 by default, 40 with a sanitizer), GDPAJIT_TEST_KILLS (150 and 40).
 */
#include "tests/support/cache_faults.h"
#include "tests/support/cache_file_system.h"
#include "tests/support/cache_fixture.h"

#include <signal.h>

#define CODE_SIZE ((size_t)20000)
#define ENTRIES 12

static void work(struct fixture *fixture, uint64_t *random)
{
    bool wrong = false;
    struct cache_options options = fixture_options(fixture);
    options.limit_bytes = 600000;
    struct cache *cache = cache_open(&options);
    assert_non_null(cache);
    for (int i = 0; i < 60 && !power_is_gone(); i++) {
        unsigned number = (unsigned)(random_next(random) % (2 * ENTRIES));
        if (sample_get(cache, number, CODE_SIZE, &wrong) != CACHE_OK) {
            (void)sample_put(cache, number, CODE_SIZE);
        }
    }
    assert_false(wrong);
    cache_close(cache);
}

static void after_a_power_cut_entries_are_whole_or_absent(void **state)
{
    struct fixture *fixture = *state;
    const unsigned cuts = number_from_environment("GDPAJIT_TEST_CUTS", INSTRUMENTED ? 40 : 300);
    unsigned hits = 0, aside = 0, gone = 0, lost_writes = 0;
    for (unsigned seed = 0; seed < cuts; seed++) {
        uint64_t random = seed;
        const unsigned lost = seed % 3 == 0 ? 256 : (unsigned)(random_next(&random) % 256);
        file_system_type = seed % 4 == 3 ? NETWORK_FILE_SYSTEM : LOCAL_FILE_SYSTEM;
        fixture_forget_folder(fixture);
        struct cache *cache = fixture_open(fixture);
        for (unsigned i = 0; i < ENTRIES; i++) {
            assert_int_equal(sample_put(cache, i, CODE_SIZE), CACHE_OK);
        }
        cache_close(cache);
        power_record((int64_t)(random_next(&random) % 250));
        work(fixture, &random);
        gone += power_is_gone();
        lost_writes += power_restore(fixture->file, lost, &random);
        fixture_forget_log(fixture);
        cache = fixture_open(fixture);
        for (unsigned i = 0; i < 2 * ENTRIES; i++) {
            enum cache_result result = sample_get(cache, i, CODE_SIZE, NULL);
            assert_true(result == CACHE_OK || result == CACHE_MISS);
            hits += result == CACHE_OK;
        }
        if (strcmp(cache_state(cache), "read-write") != 0 || sample_put(cache, 500, CODE_SIZE) != CACHE_OK ||
            sample_get(cache, 500, CODE_SIZE, NULL) != CACHE_OK) {
            fail_msg("seed %u: %s, log:\n%s", seed, cache_state(cache), fixture->log);
        }
        assert_true(fixture->warnings <= 2);
        aside += count_names(fixture->dir, CACHE_FILE_NAME ".damaged-") > 0;
        cache_close(cache);
    }
    file_system_type = LOCAL_FILE_SYSTEM;
    print_message("# %u power cuts, %u writes lost: %u of %u entries still read, %u files set aside\n", gone,
                  lost_writes, hits, cuts * 2 * ENTRIES, aside);
    assert_true(lost_writes > cuts);
    assert_true(gone > cuts / 4);
    assert_true(hits > cuts * ENTRIES / 2);
}

/* ---- Killed in a write -------------------------------------------------------------------------------------------- */

static int work_to_the_end(struct fixture *fixture)
{
    uint64_t random = 5;
    fault_plan.operation = FAULT_WRITE;
    fault_plan.lasting = false;
    fault_plan.code = FAULT_KILL;
    work(fixture, &random);
    return 0;
}

static void killed_in_the_middle_of_any_write_an_entry_is_whole_or_absent(void **state)
{
    struct fixture *fixture = *state;
    const unsigned kills = number_from_environment("GDPAJIT_TEST_KILLS", INSTRUMENTED ? 40 : 150);
    unsigned killed = 0, hits = 0;
    int64_t write = 0; /* the one that is not finished; from the start again when there are no more */
    for (unsigned round = 0; killed < kills; round++) {
        file_system_type = round % 4 == 3 ? NETWORK_FILE_SYSTEM : LOCAL_FILE_SYSTEM;
        if (round % 8 == 0) {
            fixture_forget_folder(fixture); /* the tables are made anew */
        }
        fault_plan.countdown = write;
        int code = in_child(work_to_the_end, fixture, false);
        fault_plan.countdown = -1;
        assert_true(code == 0 || code == 1000 + SIGKILL);
        killed += code != 0;
        write = code == 0 ? 0 : write + 1;
        struct cache *cache = fixture_open(fixture);
        for (unsigned i = 0; i < 2 * ENTRIES; i++) {
            enum cache_result result = sample_get(cache, i, CODE_SIZE, NULL);
            assert_true(result == CACHE_OK || result == CACHE_MISS);
            hits += result == CACHE_OK;
        }
        assert_int_equal(cache_bad_entries(cache), 0);
        assert_string_equal(cache_state(cache), "read-write");
        assert_int_equal(fixture_sql(fixture, "SELECT count(*) FROM kernel WHERE id NOT IN (SELECT id FROM code)"), 0);
        cache_close(cache);
        assert_int_equal(count_names(fixture->dir, CACHE_FILE_NAME ".damaged-"), 0);
    }
    file_system_type = LOCAL_FILE_SYSTEM;
    assert_int_equal(fixture->lines, 0);
    print_message("# %u processes killed in a write, %u hits after it, no bad entry\n", killed, hits);
    assert_true(hits > 0);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, fixture_setup_in_memory, fixture_teardown)

int main(void)
{
    faults_install();
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(after_a_power_cut_entries_are_whole_or_absent),
        WITH_FIXTURE(killed_in_the_middle_of_any_write_an_entry_is_whole_or_absent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
