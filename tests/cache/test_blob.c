/*
 * Blobs: what is stored comes back bit for bit or not at all.
 */
#include "tests/support/cache_fixture.h"

static const struct cache_key key = {{1, 2, 3, 4}};

static enum cache_result unpack(const struct cache_key *under, int kind, const struct cache_blob *blob,
                                const struct cache_bytes *expected)
{
    struct cache_arena *arena = NULL;
    struct cache_bytes raw = {NULL, 0};
    enum cache_result result = cache_blob_unpack(under, kind, blob, &arena, &raw);
    if (result == CACHE_OK) {
        assert_non_null(raw.data);
        assert_int_equal(raw.size, expected->size);
        assert_memory_equal(raw.data, expected->data, raw.size);
    } else {
        assert_null(raw.data);
    }
    cache_arena_free(arena);
    return result;
}

static unsigned char *text_of(size_t size)
{
    unsigned char *bytes = malloc(size + 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (unsigned char)('a' + i / 7 % 19);
    }
    return bytes;
}

static unsigned char *noise_of(size_t size)
{
    unsigned char *bytes = malloc(size + 1);
    uint64_t random = size;
    assert_non_null(bytes);
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (unsigned char)random_next(&random);
    }
    return bytes;
}

static void blobs_of_every_size_come_back(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 2, 15, 16, 17, 255, 4096, 65537, 3000000};
    for (size_t i = 0; i < 2 * COUNT_OF(sizes); i++) {
        size_t size = sizes[i / 2];
        unsigned char *bytes = i % 2 ? noise_of(size) : text_of(size);
        const struct cache_bytes raw = {bytes, size};
        struct cache_blob blob;
        assert_int_equal(cache_blob_pack(&key, CACHE_AUX_PTX, &raw, &blob), CACHE_OK);
        assert_int_equal(unpack(&key, CACHE_AUX_PTX, &blob, &raw), CACHE_OK);
        cache_blob_deinit(&blob);
        assert_null(blob.owned);
        free(bytes);
    }
}

static void only_what_gets_smaller_is_compressed(void **state)
{
    (void)state;
    unsigned char *text = text_of(20000), *noise = noise_of(20000);
    const struct cache_bytes raw_text = {text, 20000}, raw_noise = {noise, 20000};
    struct cache_blob blob;
    assert_int_equal(cache_blob_pack(&key, CACHE_AUX_PTX, &raw_text, &blob), CACHE_OK);
    assert_int_equal(blob.codec, CACHE_CODEC_ZSTD);
    assert_true(blob.stored.size < 2000);
    cache_blob_deinit(&blob);
    assert_int_equal(cache_blob_pack(&key, CACHE_AUX_PTX, &raw_noise, &blob), CACHE_OK);
    assert_int_equal(blob.codec, CACHE_CODEC_RAW);
    assert_ptr_equal(blob.stored.data, noise);
    cache_blob_deinit(&blob);
    free(text);
    free(noise);
}

/* In a compressed frame some bits carry nothing; then the right bytes come out, which unpack() has compared. */
static void every_flipped_bit_is_seen(void **state)
{
    (void)state;
    for (int compressed = 0; compressed < 2; compressed++) {
        unsigned char *bytes = compressed ? text_of(3000) : noise_of(300);
        const struct cache_bytes raw = {bytes, compressed ? 3000 : 300};
        struct cache_blob blob;
        assert_int_equal(cache_blob_pack(&key, CACHE_AUX_SOURCE, &raw, &blob), CACHE_OK);
        assert_int_equal(blob.codec, compressed ? CACHE_CODEC_ZSTD : CACHE_CODEC_RAW);
        unsigned char *changed = malloc(blob.stored.size);
        assert_non_null(changed);
        memcpy(changed, blob.stored.data, blob.stored.size);
        struct cache_blob bad = blob;
        bad.stored.data = changed;
        size_t missed = 0;
        for (size_t bit = 0; bit < 8 * blob.stored.size; bit++) {
            changed[bit / 8] ^= (unsigned char)(1u << bit % 8);
            missed += unpack(&key, CACHE_AUX_SOURCE, &bad, &raw) == CACHE_OK;
            changed[bit / 8] ^= (unsigned char)(1u << bit % 8);
        }
        assert_true(compressed ? missed < blob.stored.size : missed == 0);
        free(changed);
        cache_blob_deinit(&blob);
        free(bytes);
    }
}

static void every_flipped_bit_of_the_hash_is_seen(void **state)
{
    (void)state;
    const struct cache_bytes raw = {"some code", 9};
    struct cache_blob blob = {.codec = CACHE_CODEC_RAW, .raw_size = 9, .stored = raw};
    cache_blob_hash(&key, CACHE_KIND_CODE, &raw, blob.hash);
    assert_int_equal(unpack(&key, CACHE_KIND_CODE, &blob, &raw), CACHE_OK);
    for (int bit = 0; bit < 128; bit++) {
        blob.hash[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(unpack(&key, CACHE_KIND_CODE, &blob, &raw), CACHE_MISS);
        blob.hash[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

static void sizes_and_codecs_that_do_not_fit_are_refused_before_memory_is_taken(void **state)
{
    (void)state;
    unsigned char *bytes = text_of(3000);
    const struct cache_bytes raw = {bytes, 3000};
    struct cache_blob blob;
    assert_int_equal(cache_blob_pack(&key, CACHE_AUX_LOG, &raw, &blob), CACHE_OK);
    static const int64_t sizes[] = {0, 1, 2999, 3001, -1, INT64_MIN, INT64_MAX, CACHE_VALUE_MAX, CACHE_VALUE_MAX + 1};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct cache_blob bad = blob;
        bad.raw_size = sizes[i];
        assert_int_equal(unpack(&key, CACHE_AUX_LOG, &bad, &raw), CACHE_MISS);
        bad.codec = CACHE_CODEC_RAW;
        assert_int_equal(unpack(&key, CACHE_AUX_LOG, &bad, &raw), CACHE_MISS);
    }
    static const int64_t codecs[] = {-1, 0, 2, 255, INT64_MAX};
    for (size_t i = 0; i < COUNT_OF(codecs); i++) {
        struct cache_blob bad = blob;
        bad.codec = codecs[i];
        assert_int_equal(unpack(&key, CACHE_AUX_LOG, &bad, &raw), CACHE_MISS);
    }
    for (size_t size = 0; size < blob.stored.size; size++) {
        struct cache_blob bad = blob;
        bad.stored.size = size;
        assert_int_equal(unpack(&key, CACHE_AUX_LOG, &bad, &raw), CACHE_MISS);
    }
    const struct cache_blob nothing = {.codec = CACHE_CODEC_RAW, .raw_size = 5, .stored = {NULL, 5}};
    assert_int_equal(unpack(&key, CACHE_AUX_LOG, &nothing, &raw), CACHE_MISS);
    cache_blob_deinit(&blob);
    free(bytes);
}

static void a_blob_of_another_entry_or_kind_is_refused(void **state)
{
    (void)state;
    const struct cache_bytes raw = {"text text text", 14};
    struct cache_key other = key;
    other.bytes[15] ^= 0x80;
    struct cache_blob blob;
    assert_int_equal(cache_blob_pack(&key, CACHE_AUX_SOURCE, &raw, &blob), CACHE_OK);
    assert_int_equal(unpack(&key, CACHE_AUX_SOURCE, &blob, &raw), CACHE_OK);
    assert_int_equal(unpack(&other, CACHE_AUX_SOURCE, &blob, &raw), CACHE_MISS);
    assert_int_equal(unpack(&key, CACHE_AUX_PTX, &blob, &raw), CACHE_MISS);
    assert_int_equal(unpack(&key, CACHE_KIND_CODE, &blob, &raw), CACHE_MISS);
    cache_blob_deinit(&blob);
}

static void an_arena_gives_aligned_memory_and_refuses_what_no_memory_holds(void **state)
{
    (void)state;
    struct cache_arena *arena = NULL;
    for (size_t size = 0; size < 40; size++) {
        void *memory = cache_arena_take(&arena, size);
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % 16, 0);
        memset(memory, 1, size + 1);
    }
    assert_null(cache_arena_take(&arena, SIZE_MAX));
    assert_null(cache_arena_take(&arena, SIZE_MAX - 8));
    cache_arena_free(arena);
    cache_arena_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blobs_of_every_size_come_back),
        cmocka_unit_test(only_what_gets_smaller_is_compressed),
        cmocka_unit_test(every_flipped_bit_is_seen),
        cmocka_unit_test(every_flipped_bit_of_the_hash_is_seen),
        cmocka_unit_test(sizes_and_codecs_that_do_not_fit_are_refused_before_memory_is_taken),
        cmocka_unit_test(a_blob_of_another_entry_or_kind_is_refused),
        cmocka_unit_test(an_arena_gives_aligned_memory_and_refuses_what_no_memory_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
