/*
 * Keys: the material is canonical, unambiguous and the same on every machine; the spelling in hexadecimal digits.
 */
#define _GNU_SOURCE /* memmem */
#include "tests/support/cache_fixture.h"

struct made {
    struct cache_key key;
    uint8_t *material;
    size_t size;
};

static struct made make(const struct cache_key_part *parts, size_t count)
{
    struct made made;
    assert_int_equal(cache_key_make(parts, count, &made.key, &made.material, &made.size), CACHE_OK);
    return made;
}

static void assert_same(const struct made *a, const struct made *b)
{
    assert_memory_equal(&a->key, &b->key, sizeof a->key);
    assert_int_equal(a->size, b->size);
    assert_memory_equal(a->material, b->material, a->size);
}

static void assert_different(const struct made *a, const struct made *b)
{
    assert_memory_not_equal(&a->key, &b->key, sizeof a->key);
    assert_true(a->size != b->size || memcmp(a->material, b->material, a->size) != 0);
}

static void equal_parts_give_equal_keys(void **state)
{
    (void)state;
    const struct cache_key_part first[] = {{"target", "sm_90a", 6}, {"options", "-a", 2}};
    char label[] = "target", data[] = "sm_90a!";
    const struct cache_key_part second[] = {{label, data, 6}, {"options", "-a", 2}};
    struct made a = make(first, 2), b = make(second, 2);
    assert_same(&a, &b);
    free(a.material);
    free(b.material);
}

static void bytes_that_move_between_fields_change_the_key(void **state)
{
    (void)state;
    static const struct {
        struct cache_key_part parts[3];
        size_t count;
    } cases[] = {
        {{{"ab", "cd", 2}}, 1},
        {{{"a", "bcd", 3}}, 1},
        {{{"abc", "d", 1}}, 1},
        {{{"abcd", "", 0}}, 1},
        {{{"abcd", NULL, 0}, {"", NULL, 0}}, 2},
        {{{"", "abcd", 4}}, 1},
        {{{"a", "b", 1}, {"c", "d", 1}}, 2},
        {{{"c", "d", 1}, {"a", "b", 1}}, 2},
        {{{"a", "b", 1}, {"c", "d\0", 2}}, 2},
        {{{"a", "b", 1}, {"c", "d", 1}, {"", "", 0}}, 3},
        {{{"", NULL, 0}}, 0},
    };
    struct made made[COUNT_OF(cases)];
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        made[i] = make(cases[i].parts, cases[i].count);
        for (size_t j = 0; j < i; j++) {
            assert_different(&made[i], &made[j]);
        }
    }
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        free(made[i].material);
    }
}

static void every_byte_of_a_part_counts(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 16, 1023, 1024, 1025, 4096, 100000};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        unsigned char *data = calloc(1, sizes[i]);
        assert_non_null(data);
        const struct cache_key_part part = {"source", data, sizes[i]};
        struct made before = make(&part, 1);
        size_t step = sizes[i] / 37 + 1;
        for (size_t at = 0; at < sizes[i]; at += step) {
            data[at] ^= 1;
            struct made after = make(&part, 1);
            assert_different(&before, &after);
            data[at] ^= 1;
            free(after.material);
        }
        free(before.material);
        free(data);
    }
}

static void parts_above_1_kib_are_kept_as_length_and_hash(void **state)
{
    (void)state;
    char data[5000];
    memset(data, 'x', sizeof data);
    const struct cache_key_part inline_part = {"s", data, 1024}, hashed = {"s", data, 1025}, longer = {"s", data, 5000};
    struct made a = make(&inline_part, 1), b = make(&hashed, 1), c = make(&longer, 1);
    assert_int_equal(a.size, b.size - 16 + 1024);
    assert_int_equal(b.size, c.size);
    assert_different(&b, &c);
    /* The hash in the material is under another seed than the key: a collision of one is none of the other. */
    assert_null(memmem(c.material, c.size, c.key.bytes, sizeof c.key.bytes));
    free(a.material);
    free(b.material);
    free(c.material);
}

/* Files written by one machine are read by another: a change here needs a new schema number. */
static void material_is_taken_apart_again(void **state)
{
    (void)state;
    static char large[5000];
    const struct cache_key_part parts[] = {{"schema", "1", 1}, {"empty", "", 0}, {"source", large, sizeof large}};
    struct cache_key key;
    uint8_t *bytes = NULL;
    size_t size = 0, at = 0, count = 0;
    assert_int_equal(cache_key_make(parts, 3, &key, &bytes, &size), CACHE_OK);
    const struct cache_bytes material = {bytes, size};
    struct cache_material_part part;
    assert_true(cache_material_first(&material, &at));
    while (count < 3 && cache_material_next(&material, &at, &part)) {
        assert_int_equal(part.label.size, strlen(parts[count].label));
        assert_memory_equal(part.label.data, parts[count].label, part.label.size);
        assert_int_equal(part.size, parts[count].size);
        assert_int_equal(part.hashed, parts[count].size > 1024);
        count++;
    }
    assert_int_equal(count, 3);
    assert_false(cache_material_next(&material, &at, &part));
    assert_int_equal(at, size);
    for (size_t cut = 0; cut < size; cut++) { /* shorter ones end early, and are never read beyond their end */
        uint8_t *copy = malloc(cut + 1);
        memcpy(copy, bytes, cut);
        const struct cache_bytes shorter = {copy, cut};
        bool more = cache_material_first(&shorter, &at);
        while (more && at <= cut) {
            more = cache_material_next(&shorter, &at, &part);
        }
        assert_true(at <= cut);
        free(copy);
    }
    free(bytes);
}

static void keys_are_the_same_on_every_machine(void **state)
{
    (void)state;
    char source[3000];
    for (size_t i = 0; i < sizeof source; i++) {
        source[i] = (char)('a' + i % 26);
    }
    const struct cache_key_part parts[] = {{"target", "sm_90a", 6}, {"source", source, sizeof source}};
    struct made made = make(parts, 2);
    char hex[33];
    cache_key_hex(&made.key, hex);
    assert_string_equal(hex, "95cc724b3538fedd6239b3660c722d07");
    static const unsigned char head[] = {'g', 'd', 'p', 'a', '-', 'k', 'e', 'y', 1, 0, 0, 0, 2, 0, 0, 0};
    assert_memory_equal(made.material, head, sizeof head);
    assert_int_equal(made.size, 16 + (4 + 6 + 1 + 8 + 6) + (4 + 6 + 1 + 8 + 16));
    free(made.material);
}

static void hexadecimal_digits_go_there_and_back(void **state)
{
    (void)state;
    struct cache_key key, back;
    for (size_t i = 0; i < sizeof key.bytes; i++) {
        key.bytes[i] = (uint8_t)(i * 17 + 9);
    }
    char hex[33];
    cache_key_hex(&key, hex);
    assert_string_equal(hex, "091a2b3c4d5e6f8091a2b3c4d5e6f708");
    assert_true(cache_key_from_hex(hex, &back));
    assert_memory_equal(&key, &back, sizeof key);
    assert_true(cache_key_from_hex("091A2B3C4D5E6F8091A2B3C4D5E6F708", &back));
    assert_memory_equal(&key, &back, sizeof key);
}

static void what_is_no_key_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    static const char *const texts[] = {NULL,
                                        "",
                                        "0",
                                        "091a2b3c4d5e6f8091a2b3c4d5e6f70",
                                        "091a2b3c4d5e6f8091a2b3c4d5e6f7080",
                                        "091a2b3c4d5e6f8091a2b3c4d5e6f70g",
                                        " 91a2b3c4d5e6f8091a2b3c4d5e6f708",
                                        "0x1a2b3c4d5e6f8091a2b3c4d5e6f708",
                                        "091a2b3c4d5e6f8091a2b3c4d5e6f7\xc3\xa9"};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct cache_key key = {{7}}, same = {{7}};
        assert_false(cache_key_from_hex(texts[i], &key));
        assert_memory_equal(&key, &same, sizeof key);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_parts_give_equal_keys),
        cmocka_unit_test(material_is_taken_apart_again),
        cmocka_unit_test(bytes_that_move_between_fields_change_the_key),
        cmocka_unit_test(every_byte_of_a_part_counts),
        cmocka_unit_test(parts_above_1_kib_are_kept_as_length_and_hash),
        cmocka_unit_test(keys_are_the_same_on_every_machine),
        cmocka_unit_test(hexadecimal_digits_go_there_and_back),
        cmocka_unit_test(what_is_no_key_is_refused_and_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
