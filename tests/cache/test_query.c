/*
 * Find and list: prefixes of keys and names, the order of use, sizes without contents.
 */
#include "tests/support/cache_fixture.h"

static void put_named(struct cache *cache, unsigned number, const char *name, const char *hex)
{
    struct sample sample;
    sample_init(&sample, number, 100 + number);
    sample.entry.name = name;
    if (hex) {
        assert_true(cache_key_from_hex(hex, &sample.entry.key));
    }
    assert_int_equal(cache_put(cache, &sample.entry), CACHE_OK);
    sample_deinit(&sample);
}

static void prefixes_of_keys_and_names_find_one_entry(void **state)
{
    struct fixture *fixture = *state;
    struct cache *cache = fixture_open(fixture);
    put_named(cache, 1, "gdpa_fwd_relu", "00112233445566778899aabbccddeeff");
    put_named(cache, 2, "gdpa_fwd_relu_causal", "00112233445566778899aabbccddee00");
    put_named(cache, 3, "gdpa_bwd", "ffeeddccbbaa99887766554433221100");
    put_named(cache, 4, "abc", "10000000000000000000000000000000");
    put_named(cache, 5, "twice", "20000000000000000000000000000000");
    put_named(cache, 6, "twice", "30000000000000000000000000000000");
    put_named(cache, 7, "per%cent_", "40000000000000000000000000000000");
    static const struct {
        const char *prefix;
        enum cache_result result;
        int64_t matches;
        const char *hex; /* its first digits */
    } cases[] = {
        {"00112233445566778899aabbccddeeff", CACHE_OK, 1, "00112233445566778899aabbccddeeff"},
        {"00112233445566778899aabbccddeef", CACHE_OK, 1, "00112233445566778899aabbccddeeff"},
        {"00112233445566778899AABBCCDDEE0", CACHE_OK, 1, "00112233445566778899aabbccddee00"},
        {"00112233445566778899aabbccddee", CACHE_MISS, 2, NULL},
        {"0", CACHE_MISS, 2, NULL},
        {"f", CACHE_OK, 1, "ffee"},
        {"1", CACHE_OK, 1, "1000"},
        {"5", CACHE_MISS, 0, NULL},
        {"00112233445566778899aabbccddeeff0", CACHE_MISS, 0, NULL},
        /* A whole name wins over a longer one that starts with it. */
        {"gdpa_fwd_relu", CACHE_OK, 2, "00112233445566778899aabbccddeeff"},
        {"gdpa_fwd_relu_", CACHE_OK, 1, "00112233445566778899aabbccddee00"},
        {"gdpa_fwd", CACHE_MISS, 2, NULL},
        {"gdpa_b", CACHE_OK, 1, "ffee"},
        {"twice", CACHE_MISS, 2, NULL},
        {"abc", CACHE_OK, 1, "1000"},
        {"ab", CACHE_OK, 1, "1000"},
        {"per", CACHE_OK, 1, "4000"},
        {"per_", CACHE_MISS, 0, NULL},
        {"p%", CACHE_MISS, 0, NULL},
        {"*", CACHE_MISS, 0, NULL},
        {"GDPA_B", CACHE_MISS, 0, NULL},
        {"' OR 1 --", CACHE_MISS, 0, NULL},
        {"", CACHE_MISS, 7, NULL},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct cache_key key = {{0}};
        int64_t matches = -1;
        char hex[33];
        enum cache_result result = cache_find(cache, cases[i].prefix, &key, &matches);
        cache_key_hex(&key, hex);
        if (result != cases[i].result || matches != cases[i].matches ||
            (cases[i].hex && strncmp(hex, cases[i].hex, strlen(cases[i].hex)) != 0)) {
            fail_msg("'%s': result %d, %lld matches, key %s", cases[i].prefix, result, (long long)matches, hex);
        }
    }
    struct cache_key key;
    assert_int_equal(cache_find(cache, "abc", &key, NULL), CACHE_OK);
    cache_close(cache);
}

struct seen {
    unsigned count, stop_at;
    char names[20][64];
    struct cache_entry entries[20]; /* their strings are gone after the call */
    struct cache *cache;
};

static int look(const struct cache_entry *entry, void *user)
{
    struct seen *seen = user;
    assert_true(seen->count < 20);
    assert_null(entry->code.data);
    for (int i = 0; i < CACHE_AUX_COUNT; i++) {
        assert_null(entry->aux[i].data);
    }
    seen->entries[seen->count] = *entry;
    (void)snprintf(seen->names[seen->count], sizeof seen->names[0], "%s", entry->name);
    seen->count++;
    if (seen->cache) {
        /* A visitor may use the cache. */
        struct cache_entry whole;
        assert_int_equal(cache_get(seen->cache, &entry->key, NULL, 0, true, &whole), CACHE_OK);
        assert_int_equal(whole.code.size, entry->code.size);
        cache_entry_deinit(&whole);
    }
    return seen->count == seen->stop_at;
}

static void lists_start_with_what_was_used_last(void **state)
{
    struct fixture *fixture = *state;
    struct cache *cache = fixture_open(fixture);
    static const char *const names[] = {"a", "b", "c", "d"};
    struct seen seen = {.count = 0};
    assert_int_equal(cache_list(cache, look, &seen), CACHE_OK);
    assert_int_equal(seen.count, 0);
    for (unsigned i = 0; i < 4; i++) {
        put_named(cache, 10 + i, names[i], NULL);
    }
    assert_int_equal(sample_get(cache, 10, 110, &(bool){false}), CACHE_OK);
    assert_int_equal(cache_list(cache, look, &seen), CACHE_OK);
    assert_int_equal(seen.count, 4);
    static const char *const expected[] = {"a", "d", "c", "b"};
    for (unsigned i = 0; i < 4; i++) {
        assert_string_equal(seen.names[i], expected[i]);
        assert_true(i == 0 || seen.entries[i].sequence < seen.entries[i - 1].sequence);
    }
    assert_int_equal(seen.entries[0].hits, 1);
    assert_int_equal(seen.entries[1].hits, 0);
    seen = (struct seen){.stop_at = 2, .cache = cache};
    assert_int_equal(cache_list(cache, look, &seen), CACHE_OK);
    assert_int_equal(seen.count, 2);
    cache_close(cache);
}

static void lists_hold_sizes_instead_of_contents(void **state)
{
    struct fixture *fixture = *state;
    struct cache *cache = fixture_open(fixture);
    struct seen seen = {.count = 0};
    assert_int_equal(sample_put(cache, 33, 4000), CACHE_OK);
    assert_int_equal(cache_list(cache, look, &seen), CACHE_OK);
    const struct cache_entry *entry = &seen.entries[0];
    assert_int_equal(seen.count, 1);
    assert_int_equal(entry->code.size, 4000);
    assert_int_equal(entry->aux[CACHE_AUX_SOURCE].size, 5000);
    assert_int_equal(entry->aux[CACHE_AUX_PTX].size, 3000);
    assert_int_equal(entry->aux[CACHE_AUX_PLAN].size, 33);
    assert_int_equal(entry->aux[CACHE_AUX_LOG].size, 0);
    assert_int_equal(entry->threads, 384);
    int64_t parts = fixture_sql(fixture, "SELECT sum(length(data)) FROM aux");
    assert_int_equal(entry->stored_bytes, 4000 + (int64_t)entry->material.size + parts);
    /* Evicted parts no longer count. */
    (void)fixture_sql(fixture, "DELETE FROM aux");
    seen.count = 0;
    assert_int_equal(cache_list(cache, look, &seen), CACHE_OK);
    assert_int_equal(entry->aux[CACHE_AUX_SOURCE].size, 0);
    assert_int_equal(entry->stored_bytes, 4000 + (int64_t)entry->material.size);
    cache_close(cache);
}

static void lists_leave_out_rows_that_fail_their_check(void **state)
{
    struct fixture *fixture = *state;
    struct cache *cache = fixture_open(fixture);
    struct seen seen = {.count = 0};
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(sample_put(cache, i, 100), CACHE_OK);
    }
    (void)fixture_sql(fixture, "UPDATE kernel SET smem_dynamic = smem_dynamic + 8 WHERE id = 3");
    assert_int_equal(cache_list(cache, look, &seen), CACHE_OK);
    assert_int_equal(seen.count, 4);
    cache_close(cache);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(prefixes_of_keys_and_names_find_one_entry),
        WITH_FIXTURE(lists_start_with_what_was_used_last),
        WITH_FIXTURE(lists_hold_sizes_instead_of_contents),
        WITH_FIXTURE(lists_leave_out_rows_that_fail_their_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
