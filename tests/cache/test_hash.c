/*
 * Hashes: the values of xxHash itself, however the bytes are cut into parts.
 */
#include "tests/support/cache_fixture.h"

static void fill(unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (unsigned char)(i * 7 + 1);
    }
}

static void assert_hash(const uint8_t hash[CACHE_HASH_SIZE], const char *expected)
{
    struct cache_key spelt;
    char hex[33];
    memcpy(spelt.bytes, hash, sizeof spelt.bytes);
    cache_key_hex(&spelt, hex);
    assert_string_equal(hex, expected);
}

static void hashes_are_xxh3_with_128_bits_in_canonical_order(void **state)
{
    (void)state;
    static const struct {
        uint64_t seed;
        size_t size;
        const char *hash;
    } cases[] = {
        {0, 0, "99aa06d3014798d86001c324468d497f"},
        {0, 1, "51025a4491835505e12ef9d2eb86ceeb"},
        {1, 17, "9384fc4c013d22b63872522b91de5f52"},
        {UINT64_C(0x9e3779b97f4a7c15), 240, "5c3abbef3307594129b5766a2a33946f"},
        {42, 241, "1bb3a922abd4c829d791d345ef9f3b9d"},
        {7, 1000, "a9776684fe0c8aab9b0fa753e3a9d34b"},
    };
    unsigned char bytes[1000];
    fill(bytes, sizeof bytes);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const struct cache_bytes whole = {bytes, cases[i].size};
        uint8_t hash[CACHE_HASH_SIZE];
        cache_hash(cases[i].seed, &whole, 1, hash);
        assert_hash(hash, cases[i].hash);
    }
}

static void cutting_the_bytes_into_parts_changes_nothing(void **state)
{
    (void)state;
    unsigned char bytes[1000];
    fill(bytes, sizeof bytes);
    for (size_t cut = 0; cut <= sizeof bytes; cut += 37) {
        const struct cache_bytes parts[] = {{bytes, cut}, {NULL, 0}, {bytes + cut, sizeof bytes - cut}};
        uint8_t hash[CACHE_HASH_SIZE];
        cache_hash(7, parts, 3, hash);
        assert_hash(hash, "a9776684fe0c8aab9b0fa753e3a9d34b");
    }
    uint8_t hash[CACHE_HASH_SIZE];
    cache_hash(0, NULL, 0, hash);
    assert_hash(hash, "99aa06d3014798d86001c324468d497f");
}

static void numbers_are_little_endian(void **state)
{
    (void)state;
    uint8_t bytes[8];
    static const uint8_t expected[8] = {8, 7, 6, 5, 4, 3, 2, 1};
    cache_store_u64(bytes, UINT64_C(0x0102030405060708));
    assert_memory_equal(bytes, expected, sizeof bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_are_xxh3_with_128_bits_in_canonical_order),
        cmocka_unit_test(cutting_the_bytes_into_parts_changes_nothing),
        cmocka_unit_test(numbers_are_little_endian),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
