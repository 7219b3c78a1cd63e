/*
 * XXH3-128 for keys, rows and blobs: the only file that sees xxHash. Its code is compiled in here, so that no symbol of
 * it leaves the library. Numbers that go into a hash are little endian and hashes are kept in xxHash's canonical order,
 * so that a cache file means the same on every machine.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "cache/internal.h"

void cache_store_u64(uint8_t bytes[8], uint64_t value)
{
    for (unsigned i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(value >> (8 * i));
    }
}

void cache_hash(uint64_t seed, const struct cache_bytes *parts, size_t count, uint8_t hash[CACHE_HASH_SIZE])
{
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    (void)XXH3_128bits_reset_withSeed(&state, seed);
    for (size_t i = 0; i < count; i++) {
        if (parts[i].size > 0) {
            (void)XXH3_128bits_update(&state, parts[i].data, parts[i].size);
        }
    }
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state));
    memcpy(hash, canonical.digest, CACHE_HASH_SIZE);
}
