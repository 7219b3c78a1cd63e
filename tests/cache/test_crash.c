/*
 * Processes that die at any moment, logs that are cut off anywhere, pages that are overwritten at random. The rule is
 * the same for all: no wrong bytes, no crash, and the next process works.
 *
 * Longer runs: GDPAJIT_TEST_KILLS (rounds, 50 by default) and GDPAJIT_TEST_SEEDS (300 by default,
 * 60 with a sanitizer).
 */
#include "tests/support/cache_file_system.h"
#include "tests/support/cache_fixture.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CODE_SIZE ((size_t)20000)
#define ENTRIES 30

/* ---- Killed ------------------------------------------------------------------------------------------------------------ */

/* Stores, reads and removes until it is killed. Every number ever stored under a key has the same bytes. */
static void work_until_killed(struct fixture *fixture, uint64_t random)
{
    bool wrong = false;
    struct cache_options options = fixture_options(fixture);
    options.limit_bytes = 1000000;
    for (;;) {
        struct cache *cache = cache_open(&options);
        for (int i = 0; cache && i < 40; i++) {
            unsigned number = (unsigned)(random_next(&random) % 60);
            if (sample_get(cache, number, CODE_SIZE, &wrong) == CACHE_MISS) {
                (void)sample_put(cache, number, CODE_SIZE);
            }
        }
        if (wrong || !cache || cache_bad_entries(cache) > 0) {
            _exit(1);
        }
        cache_close(cache);
    }
}

static pid_t start_worker(struct fixture *fixture, uint64_t random)
{
    (void)fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        work_until_killed(fixture, random);
    }
    return child;
}

static void after_a_kill_at_any_moment_every_entry_is_whole_or_absent(void **state)
{
    struct fixture *fixture = *state;
    unsigned rounds = number_from_environment("GDPAJIT_TEST_KILLS", 50);
    uint64_t random = 1;
    unsigned found = 0;
    for (unsigned round = 0; round < rounds; round++) {
        file_system_type =
            round % 4 == 3 ? NETWORK_FILE_SYSTEM : LOCAL_FILE_SYSTEM; /* a rollback journal in every fourth round */
        pid_t workers[2];
        for (int i = 0; i < 2; i++) {
            workers[i] = start_worker(fixture, random_next(&random));
        }
        const struct timespec pause = {0, (long)(1000000 + random_next(&random) % 40000000)};
        (void)nanosleep(&pause, NULL);
        for (int i = 0; i < 2; i++) {
            int status;
            assert_int_equal(kill(workers[i], SIGKILL), 0);
            assert_int_equal(waitpid(workers[i], &status, 0), workers[i]);
            assert_true(WIFSIGNALED(status)); /* none had seen a wrong or bad entry */
        }
        struct cache *cache = fixture_open(fixture);
        for (unsigned i = 0; i < 60; i++) {
            enum cache_result result = sample_get(cache, i, CODE_SIZE, NULL);
            assert_true(result == CACHE_OK || result == CACHE_MISS);
            found += result == CACHE_OK;
        }
        assert_int_equal(cache_bad_entries(cache), 0);
        assert_string_equal(cache_state(cache), "read-write");
        assert_int_equal(
            fixture_sql(fixture, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'"), 1);
        assert_int_equal(fixture_sql(fixture, "SELECT count(*) FROM kernel WHERE id NOT IN (SELECT id FROM code)"), 0);
        cache_close(cache);
    }
    file_system_type = LOCAL_FILE_SYSTEM;
    assert_true(found > rounds); /* the workers did get somewhere */
    assert_int_equal(fixture->lines, 0);
}

/* ---- Cut and overwritten ----------------------------------------------------------------------------------------------- */

static int store_and_die(struct fixture *fixture)
{
    struct cache *cache = fixture_open(fixture);
    for (unsigned i = 0; i < ENTRIES; i++) {
        CHECK(sample_put(cache, i, CODE_SIZE) == CACHE_OK);
    }
    _exit(0); /* neither closed nor checkpointed */
}

/* Opens what the damage left and uses it as a process would. */
static unsigned use_after_damage(struct fixture *fixture, uint64_t seed)
{
    struct cache *cache = fixture_open(fixture);
    bool wrong = false;
    unsigned hits = 0;
    int64_t good, bad, matches;
    struct cache_key key;
    for (unsigned i = 0; i < ENTRIES; i++) {
        hits += sample_get(cache, (i + (unsigned)seed) % ENTRIES, CODE_SIZE, &wrong) == CACHE_OK;
        if (i % 5 == 0) {
            (void)sample_put(cache, 1000 + i, CODE_SIZE);
            (void)sample_get(cache, 1000 + i, CODE_SIZE, &wrong);
        }
    }
    (void)cache_find(cache, "gdpa", &key, &matches);
    (void)cache_verify(cache, NULL, NULL, &good, &bad);
    if (wrong) {
        fail_msg("seed %llu: wrong bytes were given out", (unsigned long long)seed);
    }
    cache_close(cache);
    return hits;
}

static void assert_usable(struct fixture *fixture, uint64_t seed)
{
    fixture_forget_log(fixture);
    struct cache *cache = fixture_open(fixture);
    int64_t good, bad;
    (void)cache_verify(cache, NULL, NULL, &good, &bad);
    enum cache_result put = sample_put(cache, 5000, CODE_SIZE);
    enum cache_result get = sample_get(cache, 5000, CODE_SIZE, NULL);
    if (put != CACHE_OK || get != CACHE_OK || strcmp(cache_state(cache), "read-write") != 0) {
        fail_msg("seed %llu: put %d, get %d, %s:\n%s", (unsigned long long)seed, (int)put, (int)get, cache_state(cache),
                 fixture->log);
    }
    cache_close(cache);
}

static void a_log_that_is_cut_off_anywhere_loses_only_its_end(void **state)
{
    struct fixture *fixture = *state;
    char wal[500];
    (void)snprintf(wal, sizeof wal, "%s-wal", fixture->file);
    assert_int_equal(in_child(store_and_die, fixture, false), 0);
    size_t size, log_size;
    unsigned char *database = file_read(fixture->file, &size), *log = file_read(wal, &log_size);
    assert_true(log_size > ENTRIES * CODE_SIZE);
    unsigned last = 0;
    for (unsigned step = 0; step <= 40; step++) {
        fixture_forget_folder(fixture);
        assert_int_equal(mkdir(fixture->dir, 0700), 0);
        file_write(fixture->file, database, size);
        assert_int_equal(chmod(fixture->file, 0600), 0);
        file_write(wal, log, log_size * step / 40);
        unsigned hits = use_after_damage(fixture, step);
        assert_true(hits >= last);
        last = hits;
        assert_usable(fixture, step);
        assert_int_equal(fixture->warnings, 0);
    }
    assert_int_equal(last, ENTRIES);
    free(database);
    free(log);
}

static void overwrite(unsigned char *bytes, size_t size, uint64_t *random)
{
    uint64_t kind = random_next(random) % 6;
    size_t page = random_next(random) % (size / 8192) * 8192;
    size_t length = 1 + random_next(random) % 8192;
    size_t at = page + random_next(random) % (8192 - length + 1);
    size_t other = random_next(random) % (size / 8192) * 8192;
    switch (kind) {
    case 0: /* noise */
        for (size_t i = 0; i < length; i++) {
            bytes[at + i] = (unsigned char)random_next(random);
        }
        break;
    case 1:
        memset(bytes + at, 0, length);
        break;
    case 2: /* a page of another place */
        memcpy(bytes + page, bytes + other, 8192);
        break;
    case 3: /* the head of a page, where its tree hangs */
        bytes[page + random_next(random) % 32] = (unsigned char)random_next(random);
        break;
    case 4:
        bytes[at] ^= (unsigned char)(1u << random_next(random) % 8);
        break;
    default: /* the header */
        bytes[random_next(random) % 200] = (unsigned char)random_next(random);
        break;
    }
}

static void pages_overwritten_at_random_never_give_wrong_bytes(void **state)
{
    struct fixture *fixture = *state;
    unsigned seeds = number_from_environment("GDPAJIT_TEST_SEEDS", INSTRUMENTED ? 60 : 300);
    struct cache *cache = fixture_open(fixture);
    for (unsigned i = 0; i < ENTRIES; i++) {
        assert_int_equal(sample_put(cache, i, CODE_SIZE), CACHE_OK);
    }
    cache_close(cache);
    size_t size;
    unsigned char *good = file_read(fixture->file, &size), *bytes = malloc(size);
    assert_non_null(bytes);
    unsigned hits = 0, aside = 0;
    for (unsigned seed = 0; seed < seeds; seed++) {
        uint64_t random = seed * 7919 + 13;
        memcpy(bytes, good, size);
        for (uint64_t changes = 1 + random_next(&random) % 3; changes > 0; changes--) {
            overwrite(bytes, size, &random);
        }
        fixture_forget_folder(fixture);
        assert_int_equal(mkdir(fixture->dir, 0700), 0);
        file_write(fixture->file, bytes, size);
        assert_int_equal(chmod(fixture->file, 0600), 0);
        hits += use_after_damage(fixture, seed);
        aside += count_names(fixture->dir, CACHE_FILE_NAME ".damaged-") > 0;
        assert_usable(fixture, seed);
    }
    print_message("# %u seeds: %u of %u entries still read, %u files set aside\n", seeds, hits, seeds * ENTRIES, aside);
    assert_true(hits > seeds * ENTRIES / 4 && hits < seeds * ENTRIES);
    assert_true(aside > 0 && aside < seeds);
    free(good);
    free(bytes);
}

static void every_kind_of_single_bit_in_the_file_is_harmless(void **state)
{
    struct fixture *fixture = *state;
    struct cache *cache = fixture_open(fixture);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(sample_put(cache, i, 3000), CACHE_OK);
    }
    cache_close(cache);
    size_t size;
    unsigned char *bytes = file_read(fixture->file, &size);
    for (unsigned seed = 0; seed < number_from_environment("GDPAJIT_TEST_SEEDS", INSTRUMENTED ? 60 : 300); seed++) {
        uint64_t random = seed;
        size_t at = random_next(&random) % size;
        unsigned char bit = (unsigned char)(1u << random_next(&random) % 8);
        bytes[at] ^= bit;
        fixture_forget_folder(fixture);
        assert_int_equal(mkdir(fixture->dir, 0700), 0);
        file_write(fixture->file, bytes, size);
        assert_int_equal(chmod(fixture->file, 0600), 0);
        bytes[at] ^= bit;
        cache = fixture_open(fixture);
        bool wrong = false;
        for (unsigned i = 0; i < 3; i++) {
            (void)sample_get(cache, i, 3000, &wrong);
            (void)sample_put(cache, i, 3000);
            (void)sample_get(cache, i, 3000, &wrong);
        }
        cache_close(cache);
        if (wrong) {
            fail_msg("bit %u of byte %zu", (unsigned)bit, at);
        }
        assert_usable(fixture, seed);
    }
    free(bytes);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, fixture_setup_in_memory, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(after_a_kill_at_any_moment_every_entry_is_whole_or_absent),
        WITH_FIXTURE(a_log_that_is_cut_off_anywhere_loses_only_its_end),
        WITH_FIXTURE(pages_overwritten_at_random_never_give_wrong_bytes),
        WITH_FIXTURE(every_kind_of_single_bit_in_the_file_is_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
