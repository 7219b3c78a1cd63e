/*
 * Get, put and remove, from one thread and from many, from one process and from several.
 */
#include "tests/support/cache_fixture.h"

#include <float.h>
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

static void an_entry_comes_back_as_it_was_stored(void **state)
{
    struct fixture *fixture = *state;
    static const size_t sizes[] = {1, 4096, 8192, 100000, 5000000};
    struct cache *cache = fixture_open(fixture);
    assert_string_equal(cache_path(cache), fixture->file);
    assert_string_equal(cache_state(cache), "read-write");
    for (unsigned i = 0; i < COUNT_OF(sizes); i++) {
        assert_int_equal(sample_get(cache, i, sizes[i], NULL), CACHE_MISS);
        assert_int_equal(sample_put(cache, i, sizes[i]), CACHE_OK);
        assert_int_equal(sample_get(cache, i, sizes[i], NULL), CACHE_OK);
    }
    cache_close(cache);
    cache = fixture_open(fixture);
    for (unsigned i = 0; i < COUNT_OF(sizes); i++) {
        assert_int_equal(sample_get(cache, i, sizes[i], NULL), CACHE_OK);
    }
    assert_int_equal(cache_bad_entries(cache), 0);
    assert_int_equal(fixture->lines, 0);
    cache_close(cache);
}

static void parts_are_read_only_when_asked_for(void **state)
{
    struct fixture *fixture = *state;
    struct cache *cache = fixture_open(fixture);
    struct sample sample;
    struct cache_entry entry;
    sample_init(&sample, 49, 1000);
    assert_int_equal(cache_put(cache, &sample.entry), CACHE_OK);
    assert_int_equal(cache_get(cache, &sample.entry.key, NULL, 0, false, &entry), CACHE_OK);
    assert_true(sample_equals(&sample, &entry, false));
    for (int i = 0; i < CACHE_AUX_COUNT; i++) {
        assert_null(entry.aux[i].data);
    }
    cache_entry_deinit(&entry);
    assert_null(entry.owned);
    assert_int_equal(cache_get(cache, &sample.entry.key, NULL, 0, true, &entry), CACHE_OK);
    assert_int_equal(entry.aux[CACHE_AUX_SOURCE].size, 5000);
    assert_int_equal(entry.aux[CACHE_AUX_PTX].size, 3000);
    assert_int_equal(entry.aux[CACHE_AUX_PLAN].size, 49);
    assert_null(entry.aux[CACHE_AUX_LOG].data);
    cache_entry_deinit(&entry);
    sample_deinit(&sample);
    cache_close(cache);
}

static void unusual_values_survive(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        double in, out;
    } times[] = {{0, 0},
                 {-0.0, 0},
                 {NAN, 0},
                 {INFINITY, 0},
                 {-INFINITY, 0},
                 {1e300, 1e300},
                 {3, 3},
                 {DBL_MIN, DBL_MIN},
                 {0.1, 0.1},
                 {-7.25, -7.25},
                 {9007199254740993.0, 9007199254740993.0}};
    struct cache *cache = fixture_open(fixture);
    for (unsigned i = 0; i < COUNT_OF(times); i++) {
        struct sample sample;
        struct cache_entry entry;
        sample_init(&sample, i, 100);
        sample.entry.generate_ms = times[i].in;
        sample.entry.compile_ms = times[i].in;
        sample.entry.name = i % 2 ? NULL : "";
        sample.entry.spec = "quote ' \xff\xfe not UTF-8 \xe2\x82";
        sample.entry.target = NULL;
        sample.entry.registers = INT32_MIN;
        sample.entry.smem_dynamic = INT32_MAX;
        sample.entry.aux[CACHE_AUX_LOG] = (struct cache_bytes){"", 0};
        assert_int_equal(cache_put(cache, &sample.entry), CACHE_OK);
        assert_int_equal(cache_get(cache, &sample.entry.key, NULL, 0, true, &entry), CACHE_OK);
        assert_true(entry.generate_ms == times[i].out && entry.compile_ms == times[i].out);
        assert_string_equal(entry.name, "");
        assert_string_equal(entry.target, "");
        assert_string_equal(entry.spec, sample.entry.spec);
        assert_int_equal(entry.registers, INT32_MIN);
        assert_int_equal(entry.smem_dynamic, INT32_MAX);
        assert_non_null(entry.aux[CACHE_AUX_LOG].data);
        assert_int_equal(entry.aux[CACHE_AUX_LOG].size, 0);
        cache_entry_deinit(&entry);
        sample_deinit(&sample);
    }
    assert_int_equal(cache_bad_entries(cache), 0);
    cache_close(cache);
}

static void other_key_material_never_hits(void **state)
{
    struct fixture *fixture = *state;
    struct cache *cache = fixture_open(fixture);
    struct sample sample;
    sample_init(&sample, 5, 1000);
    const size_t size = sample.material.size;
    unsigned char *forged = malloc(size + 1);
    assert_non_null(forged);
    uint64_t bad = 0;
    for (size_t i = 0; i <= size; i++) {
        /* Every byte once, then one byte less and one more. */
        memcpy(forged, sample.material.data, size);
        forged[size] = 0;
        forged[i % size] ^= i < size ? 0x10 : 0;
        size_t forged_size = i < size ? size : size + 1;
        struct cache_entry entry;
        assert_int_equal(cache_put(cache, &sample.entry), CACHE_OK);
        assert_int_equal(cache_get(cache, &sample.entry.key, forged, forged_size, i % 2 == 0, &entry), CACHE_MISS);
        assert_int_equal(cache_bad_entries(cache), ++bad);
        /* Removed, so that the kernel compiled instead can take its place. */
        assert_int_equal(cache_get(cache, &sample.entry.key, NULL, 0, false, &entry), CACHE_MISS);
    }
    assert_logged(fixture, "key material");
    assert_int_equal(fixture->warnings, 1);
    free(forged);
    sample_deinit(&sample);
    cache_close(cache);
}

static void the_first_writer_wins(void **state)
{
    struct fixture *fixture = *state;
    struct cache *first = fixture_open(fixture), *second = fixture_open(fixture);
    struct sample sample;
    sample_init(&sample, 7, 3000);
    assert_int_equal(cache_put(first, &sample.entry), CACHE_OK);
    sample.code[17] ^= 1;
    sample.entry.registers = 99;
    sample.entry.aux[CACHE_AUX_LOG] = (struct cache_bytes){"other log", 9};
    assert_int_equal(cache_put(first, &sample.entry), CACHE_OK);
    assert_int_equal(cache_put(second, &sample.entry), CACHE_OK);
    sample_deinit(&sample);
    assert_int_equal(sample_get(first, 7, 3000, NULL), CACHE_OK);
    assert_int_equal(sample_get(second, 7, 3000, NULL), CACHE_OK);
    assert_int_equal(fixture_sql(fixture, "SELECT count(*) FROM kernel"), 1);
    assert_int_equal(fixture_sql(fixture, "SELECT count(*) FROM aux"), 3);
    cache_close(first);
    cache_close(second);
}

static void what_cannot_be_an_entry_is_not_stored(void **state)
{
    struct fixture *fixture = *state;
    struct cache *cache = fixture_open(fixture);
    struct sample sample;
    sample_init(&sample, 1, 10);
    struct cache_entry broken = sample.entry;
    broken.code.data = NULL;
    assert_int_equal(cache_put(cache, &broken), CACHE_UNUSABLE);
    broken = sample.entry;
    broken.code.size = 0;
    assert_int_equal(cache_put(cache, &broken), CACHE_UNUSABLE);
    broken = sample.entry;
    broken.material.data = NULL;
    assert_int_equal(cache_put(cache, &broken), CACHE_UNUSABLE);
    broken = sample.entry;
    broken.code.size = (size_t)CACHE_VALUE_MAX + 1;
    assert_int_equal(cache_put(cache, &broken), CACHE_UNUSABLE);
    broken = sample.entry;
    broken.aux[CACHE_AUX_LOG] = (struct cache_bytes){"", (size_t)CACHE_VALUE_MAX + 1};
    assert_int_equal(cache_put(cache, &broken), CACHE_UNUSABLE);
    assert_logged(fixture, "not stored");
    assert_string_equal(cache_state(cache), "read-write");
    assert_int_equal(fixture_sql(fixture, "SELECT count(*) FROM kernel"), 0);
    sample_deinit(&sample);
    cache_close(cache);
}

static void one_entry_or_all_are_removed(void **state)
{
    struct fixture *fixture = *state;
    struct cache *cache = fixture_open(fixture);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(sample_put(cache, i, 50000), CACHE_OK);
    }
    struct sample sample;
    int64_t removed = -1;
    sample_init(&sample, 3, 50000);
    assert_int_equal(cache_remove(cache, &sample.entry.key, &removed), CACHE_OK);
    assert_int_equal(removed, 1);
    assert_int_equal(cache_remove(cache, &sample.entry.key, &removed), CACHE_MISS);
    assert_int_equal(removed, 0);
    assert_int_equal(cache_remove(cache, &sample.entry.key, NULL), CACHE_MISS);
    sample_deinit(&sample);
    assert_int_equal(sample_get(cache, 3, 50000, NULL), CACHE_MISS);
    assert_int_equal(sample_get(cache, 4, 50000, NULL), CACHE_OK);
    assert_int_equal(fixture_sql(fixture, "SELECT count(DISTINCT id) FROM aux"), 19);
    assert_int_equal(cache_remove(cache, NULL, &removed), CACHE_OK);
    assert_int_equal(removed, 19);
    static const char *const tables[] = {"kernel", "code", "aux", "use"};
    for (size_t i = 0; i < COUNT_OF(tables); i++) {
        char sql[64];
        (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", tables[i]);
        assert_int_equal(fixture_sql(fixture, sql), 0);
    }
    assert_int_equal(sample_put(cache, 3, 50000), CACHE_OK);
    assert_int_equal(sample_get(cache, 3, 50000, NULL), CACHE_OK);
    cache_close(cache);
}

static void removing_all_gives_the_space_back(void **state)
{
    struct fixture *fixture = *state;
    struct cache *cache = fixture_open(fixture);
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(sample_put(cache, i, 500000), CACHE_OK);
    }
    assert_int_equal(cache_remove(cache, NULL, NULL), CACHE_OK);
    struct stat status;
    assert_int_equal(stat(fixture->file, &status), 0);
    assert_true(status.st_size < 200000);
    cache_close(cache);
    assert_int_equal(count_names(fixture->dir, "kernels"), 1);
}

static void calls_without_a_cache_say_so_and_touch_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct cache_options options = fixture_options(fixture);
    options.dir = NULL;
    struct cache *cache = cache_open(&options);
    struct cache_key key = {{0}};
    int64_t number = 7, other = 7, third = 7;
    struct cache_entry entry;
    assert_non_null(cache);
    assert_string_equal(cache_path(cache), "");
    assert_non_null(strstr(cache_state(cache), "GDPAJIT_CACHE_DIR"));
    assert_int_equal(sample_put(cache, 1, 10), CACHE_UNUSABLE);
    assert_int_equal(sample_get(cache, 1, 10, NULL), CACHE_UNUSABLE);
    assert_int_equal(cache_get(cache, &key, NULL, 0, true, &entry), CACHE_UNUSABLE);
    assert_int_equal(cache_remove(cache, NULL, &number), CACHE_UNUSABLE);
    assert_int_equal(cache_find(cache, "a", &key, &number), CACHE_UNUSABLE);
    assert_int_equal(cache_list(cache, NULL, NULL), CACHE_UNUSABLE);
    assert_int_equal(cache_verify(cache, NULL, NULL, &number, &other), CACHE_UNUSABLE);
    assert_int_equal(cache_totals(cache, &number, &other, &third), CACHE_UNUSABLE);
    assert_true(number == 7 && other == 7 && third == 7);
    assert_int_equal(fixture->lines, 1); /* said once, not with every call */
    cache_close(cache);
    cache_close(NULL);
}

/* ---- Threads ---------------------------------------------------------------------------------------------------------- */

struct hammer {
    struct cache *cache;
    unsigned number, rounds;
    uint64_t hits, puts;
    bool wrong;
};

static void *hammer(void *argument)
{
    struct hammer *own = argument;
    uint64_t random = own->number;
    for (unsigned i = 0; i < own->rounds; i++) {
        unsigned which = (unsigned)(random_next(&random) % 16);
        enum cache_result result = sample_get(own->cache, which, 2000 + which, &own->wrong);
        own->hits += result == CACHE_OK;
        if (result == CACHE_MISS) {
            own->puts += sample_put(own->cache, which, 2000 + which) == CACHE_OK;
        }
        if (i % 64 == 63) {
            int64_t entries, bytes, limit;
            (void)cache_totals(own->cache, &entries, &bytes, &limit);
            (void)strlen(cache_state(own->cache));
            (void)cache_bad_entries(own->cache);
        }
    }
    return NULL;
}

static void eight_threads_get_and_put_side_by_side(void **state)
{
    struct fixture *fixture = *state;
    struct cache *cache = fixture_open(fixture);
    pthread_t threads[8];
    struct hammer own[8];
    for (unsigned i = 0; i < 8; i++) {
        own[i] = (struct hammer){.cache = cache, .number = i, .rounds = 200};
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, &own[i]), 0);
    }
    uint64_t hits = 0;
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_false(own[i].wrong);
        hits += own[i].hits;
    }
    assert_true(hits > 8 * 200 - 8 * 16 - 1);
    assert_int_equal(fixture_sql(fixture, "SELECT count(*) FROM kernel"), 16);
    assert_int_equal(cache_bad_entries(cache), 0);
    assert_string_equal(cache_state(cache), "read-write");
    cache_close(cache);
    assert_int_equal(fixture_sql(fixture, "SELECT sum(hits) FROM use"), (int64_t)hits);
}

/* ---- Processes --------------------------------------------------------------------------------------------------------- */

/* All children open, then wait for the parent to close the pipe, then put the same entries. */
static int put_at_the_signal(struct fixture *fixture, int start)
{
    struct cache *cache = fixture_open(fixture);
    char byte;
    CHECK(read(start, &byte, 1) == 0);
    bool wrong = false;
    for (unsigned i = 0; i < 30; i++) {
        /* Busy is no error of the caller: what was not stored is compiled again by the next one. */
        (void)sample_put(cache, i, 20000);
        enum cache_result result = sample_get(cache, i, 20000, &wrong);
        CHECK(result == CACHE_OK || result == CACHE_MISS);
    }
    CHECK(!wrong);
    CHECK(cache_bad_entries(cache) == 0);
    CHECK(strcmp(cache_state(cache), "read-write") == 0);
    cache_close(cache);
    return 0;
}

static void processes_that_store_the_same_keys_agree(void **state)
{
    struct fixture *fixture = *state;
    int start[2];
    assert_int_equal(pipe(start), 0);
    pid_t children[4];
    for (size_t i = 0; i < COUNT_OF(children); i++) {
        (void)fflush(NULL);
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            (void)close(start[1]);
            int line = put_at_the_signal(fixture, start[0]);
            if (line != 0) {
                (void)fprintf(stderr, "# line %d: %s", line, fixture->log);
            }
            _exit(line != 0);
        }
    }
    (void)close(start[0]);
    (void)close(start[1]);
    for (size_t i = 0; i < COUNT_OF(children); i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    struct cache *cache = fixture_open(fixture);
    unsigned there = 0;
    for (unsigned i = 0; i < 30; i++) {
        there += sample_get(cache, i, 20000, NULL) == CACHE_OK;
    }
    assert_int_equal(there, fixture_sql(fixture, "SELECT count(*) FROM kernel"));
    assert_true(there >= 25);
    cache_close(cache);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(an_entry_comes_back_as_it_was_stored),
        WITH_FIXTURE(parts_are_read_only_when_asked_for),
        WITH_FIXTURE(unusual_values_survive),
        WITH_FIXTURE(other_key_material_never_hits),
        WITH_FIXTURE(the_first_writer_wins),
        WITH_FIXTURE(what_cannot_be_an_entry_is_not_stored),
        WITH_FIXTURE(one_entry_or_all_are_removed),
        WITH_FIXTURE(removing_all_gives_the_space_back),
        WITH_FIXTURE(calls_without_a_cache_say_so_and_touch_nothing),
        WITH_FIXTURE(eight_threads_get_and_put_side_by_side),
        WITH_FIXTURE(processes_that_store_the_same_keys_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
