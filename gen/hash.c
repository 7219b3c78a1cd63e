/*
 * See hash.h.
 */
#include "gen/hash.h"

#include <xxhash.h>

void hash_hex(const void *bytes, size_t length, char hex[33])
{
    static const char digits[] = "0123456789abcdef";
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, length));
    for (size_t i = 0; i < sizeof(canonical.digest); ++i) {
        hex[2 * i] = digits[canonical.digest[i] >> 4];
        hex[2 * i + 1] = digits[canonical.digest[i] & 15];
    }
    hex[2 * sizeof(canonical.digest)] = '\0';
}
