/*
 * The size limit: what goes first, what stays, and that a pass takes bounded time.
 */
#include "tests/support/cache_fixture.h"

#include <time.h>

static struct cache *open_limited(struct fixture *fixture, int64_t limit)
{
    struct cache_options options = fixture_options(fixture);
    options.limit_bytes = limit;
    struct cache *cache = cache_open(&options);
    assert_non_null(cache);
    return cache;
}

static int64_t used_bytes(struct cache *cache)
{
    int64_t entries, bytes, limit;
    assert_int_equal(cache_totals(cache, &entries, &bytes, &limit), CACHE_OK);
    return bytes;
}

static bool is_there(const struct fixture *fixture, unsigned number)
{
    char sql[128];
    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM kernel WHERE name LIKE '%%_%08x'", number);
    return fixture_sql(fixture, sql) == 1;
}

static bool has_parts(const struct fixture *fixture, unsigned number)
{
    char sql[160];
    (void)snprintf(sql, sizeof sql,
                   "SELECT count(*) > 0 FROM aux JOIN kernel USING(id) WHERE kernel.name LIKE '%%_%08x'", number);
    return fixture_sql(fixture, sql) == 1;
}

/* Parts of 60 KB that do not compress, so that they count. */
static void put_with_parts(struct cache *cache, unsigned number, size_t code_size, size_t parts_size)
{
    struct sample sample, noise;
    sample_init(&sample, number, code_size);
    sample_init(&noise, number + 100000, parts_size);
    sample.entry.aux[CACHE_AUX_LOG] = noise.entry.code;
    assert_int_equal(cache_put(cache, &sample.entry), CACHE_OK);
    sample_deinit(&sample);
    sample_deinit(&noise);
}

static void without_a_limit_nothing_is_evicted(void **state)
{
    struct fixture *fixture = *state;
    static const int64_t limits[] = {0, -1, INT64_MIN, INT64_MAX};
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        struct cache *cache = open_limited(fixture, limits[i]);
        for (unsigned k = 0; k < 20; k++) {
            put_with_parts(cache, k, 30000, 30000);
        }
        assert_int_equal(fixture_sql(fixture, "SELECT count(*) FROM kernel"), 20);
        assert_int_equal(fixture_sql(fixture, "SELECT count(DISTINCT id) FROM aux"), 20);
        cache_close(cache);
    }
}

static void parts_go_before_entries_and_the_oldest_before_the_newest(void **state)
{
    struct fixture *fixture = *state;
    struct cache *cache = open_limited(fixture, 1000000);
    unsigned count = 0;
    while (fixture_sql(fixture, "SELECT count(*) FROM kernel WHERE id NOT IN (SELECT id FROM aux)") == 0) {
        put_with_parts(cache, count++, 20000, 60000);
        assert_true(count < 40);
    }
    /* All entries are there, the older ones without parts. */
    assert_int_equal(fixture_sql(fixture, "SELECT count(*) FROM kernel"), count);
    assert_false(has_parts(fixture, 0));
    assert_true(has_parts(fixture, count - 1));
    bool parts = false;
    for (unsigned i = 0; i < count; i++) {
        assert_true(!parts || has_parts(fixture, i));
        parts = has_parts(fixture, i);
    }
    assert_true(used_bytes(cache) <= 800000);
    bool wrong = false;
    assert_int_equal(sample_get(cache, 0, 20000, &wrong), CACHE_OK);
    cache_close(cache);
}

static void entries_go_by_their_last_use_down_to_four_fifths(void **state)
{
    struct fixture *fixture = *state;
    const int64_t limit = 1000000;
    struct cache *cache = open_limited(fixture, limit);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(sample_put(cache, i, 100000), CACHE_OK);
    }
    /* The first and the third are used again. */
    assert_int_equal(sample_get(cache, 0, 100000, NULL), CACHE_OK);
    assert_int_equal(sample_get(cache, 2, 100000, NULL), CACHE_OK);
    unsigned next = 8;
    while (is_there(fixture, 1)) {
        assert_int_equal(sample_put(cache, next++, 100000), CACHE_OK);
        assert_true(next < 20);
    }
    assert_true(is_there(fixture, 0));
    assert_true(is_there(fixture, 2));
    assert_false(is_there(fixture, 3));
    assert_true(is_there(fixture, next - 1));
    int64_t used = used_bytes(cache);
    assert_true(used <= limit / 5 * 4);
    assert_true(used > limit / 5 * 4 - 250000); /* not more than needed */
    assert_int_equal(fixture_sql(fixture, "SELECT count(*) FROM code WHERE id NOT IN (SELECT id FROM kernel)"), 0);
    assert_int_equal(fixture_sql(fixture, "SELECT count(*) FROM use WHERE id NOT IN (SELECT id FROM kernel)"), 0);
    assert_int_equal(cache_bad_entries(cache), 0);
    cache_close(cache);
}

static void what_was_just_stored_stays_whatever_the_limit(void **state)
{
    struct fixture *fixture = *state;
    struct cache *cache = open_limited(fixture, 1);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(sample_put(cache, i, 100000), CACHE_OK);
        assert_int_equal(sample_get(cache, i, 100000, NULL), CACHE_OK);
        assert_int_equal(fixture_sql(fixture, "SELECT count(*) FROM kernel"), 1);
    }
    cache_close(cache);
}

static const char version_now[] = "generator 2", version_before[] = "generator 1";

static void put_of_version(struct cache *cache, unsigned number, const char *version)
{
    struct sample sample;
    struct cache_entry entry;
    uint8_t *material;
    sample_init(&sample, number, 100000);
    entry = sample.entry;
    const struct cache_key_part parts[] = {{"number", &number, sizeof number}, {"generator", version, strlen(version)}};
    assert_int_equal(cache_key_make(parts, 2, &entry.key, &material, &entry.material.size), CACHE_OK);
    entry.material.data = material;
    assert_int_equal(cache_put(cache, &entry), CACHE_OK);
    free(material);
    sample_deinit(&sample);
}

static void entries_of_other_versions_go_before_those_of_this_one_even_when_used_later(void **state)
{
    struct fixture *fixture = *state;
    struct cache_options options = fixture_options(fixture);
    options.limit_bytes = 1500000;
    options.version = (struct cache_key_part){"generator", version_now, strlen(version_now)};
    struct cache *cache = cache_open(&options);
    struct cache_details details;
    for (unsigned i = 0; i < 4; i++) {
        put_of_version(cache, i, version_now);
    }
    for (unsigned i = 4; i < 10; i++) {
        put_of_version(cache, i, version_before);
    }
    assert_int_equal(cache_describe(cache, &details), CACHE_OK);
    assert_int_equal(details.foreign_entries, 6);
    unsigned next = 10;
    while (is_there(fixture, 9)) {
        put_of_version(cache, next++, version_now);
        assert_true(next < 40);
        for (unsigned i = 0; i < 4 && is_there(fixture, 9); i++) {
            assert_true(is_there(fixture, i));
        }
    }
    assert_false(is_there(fixture, 4)); /* the oldest of them went first */
    assert_true(cache_evicted(cache) >= 6);
    while (is_there(fixture, 0)) { /* then those of this version, by their last use */
        put_of_version(cache, next++, version_now);
        assert_true(next < 60);
    }
    assert_int_equal(cache_describe(cache, &details), CACHE_OK);
    assert_int_equal(details.foreign_entries, 0);
    cache_close(cache);
}

static int64_t milliseconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void a_lowered_limit_is_reached_in_passes_and_the_file_gets_shorter(void **state)
{
    struct fixture *fixture = *state;
    struct cache *cache = open_limited(fixture, 0);
    for (unsigned i = 0; i < 1200; i++) {
        assert_int_equal(sample_put(cache, i, 60000), CACHE_OK);
    }
    cache_close(cache);
    const int64_t limit = 2000000;
    cache = open_limited(fixture, limit);
    struct stat status;
    unsigned puts = 0;
    int64_t slowest = 0;
    do {
        int64_t start = milliseconds();
        assert_int_equal(sample_put(cache, 100000 + puts, 1000), CACHE_OK);
        int64_t took = milliseconds() - start;
        slowest = took > slowest ? took : slowest;
        assert_int_equal(stat(fixture->file, &status), 0);
        assert_true(++puts < 2000);
    } while (used_bytes(cache) > limit || cache->evicting);
    print_message("# %u puts to evict 70 MB, the slowest took %lld ms\n", puts, (long long)slowest);
    /* The budget is 20 ms; a loaded machine may add to it, but never the time of the whole eviction. */
    assert_true(slowest < 1000);
    for (unsigned i = 0; i < 2000; i++) {
        assert_int_equal(sample_put(cache, 200000 + i, 100), CACHE_OK);
        int64_t pages = fixture_sql(fixture, "PRAGMA page_count");
        if (pages * 8192 <= limit) {
            break;
        }
    }
    assert_true(fixture_sql(fixture, "PRAGMA page_count") * 8192 <= limit);
    assert_false(is_there(fixture, 0));
    cache_close(cache);
    assert_int_equal(stat(fixture->file, &status), 0);
    assert_true(status.st_size <= limit);
}

static void totals_count_entries_and_the_bytes_in_use(void **state)
{
    struct fixture *fixture = *state;
    struct cache *cache = open_limited(fixture, 123456789);
    int64_t entries, empty, bytes, limit;
    assert_int_equal(cache_totals(cache, &entries, &empty, &limit), CACHE_OK);
    assert_int_equal(entries, 0);
    assert_int_equal(limit, 123456789);
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(sample_put(cache, i, 100000), CACHE_OK);
    }
    assert_int_equal(cache_totals(cache, &entries, &bytes, &limit), CACHE_OK);
    assert_int_equal(entries, 10);
    assert_true(bytes - empty > 1000000 && bytes - empty < 1400000);
    assert_int_equal(cache_remove(cache, NULL, NULL), CACHE_OK);
    assert_int_equal(cache_totals(cache, &entries, &bytes, &limit), CACHE_OK);
    assert_int_equal(entries, 0);
    assert_true(bytes <= empty);
    cache_close(cache);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(without_a_limit_nothing_is_evicted),
        WITH_FIXTURE(parts_go_before_entries_and_the_oldest_before_the_newest),
        WITH_FIXTURE(entries_go_by_their_last_use_down_to_four_fifths),
        WITH_FIXTURE(entries_of_other_versions_go_before_those_of_this_one_even_when_used_later),
        WITH_FIXTURE(what_was_just_stored_stays_whatever_the_limit),
        WITH_FIXTURE(a_lowered_limit_is_reached_in_passes_and_the_file_gets_shorter),
        WITH_FIXTURE(totals_count_entries_and_the_bytes_in_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
