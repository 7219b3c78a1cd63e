/*
 * The key of an entry: canonical key material and its XXH3-128.
 *
 *     material = magic, key format, number of parts,
 *                then per part: label size (u32), label, form (u8), data size (u64), data or its hash
 *
 * All numbers are little endian. A part of more than 1 KiB (the source) is stored as its hash under a second seed, so
 * that two sources that collide in the key still differ in the material. Whoever reads an entry compares the material
 * byte by byte; a collision of the key alone never gives a wrong kernel.
 */
#include "cache/internal.h"

#include <stdlib.h>
#include <string.h>

#define KEY_FORMAT 1
#define INLINE_MAX 1024

static const uint64_t key_seed = UINT64_C(0x6764706a69746b31);
static const uint64_t part_seed = UINT64_C(0x9e3779b97f4a7c15);
static const char magic[8] = {'g', 'd', 'p', 'a', '-', 'k', 'e', 'y'};

enum part_form { FORM_INLINE = 0, FORM_HASHED = 1 };

static uint8_t *put_bytes(uint8_t *at, const void *bytes, size_t size)
{
    if (size > 0) {
        memcpy(at, bytes, size);
    }
    return at + size;
}

static uint8_t *put_u32(uint8_t *at, size_t value)
{
    uint8_t bytes[8];
    cache_store_u64(bytes, value);
    return put_bytes(at, bytes, 4);
}

static const char *label_of(const struct cache_key_part *part)
{
    return part->label ? part->label : "";
}

static size_t part_size(const struct cache_key_part *part)
{
    size_t data = part->size > INLINE_MAX ? CACHE_HASH_SIZE : part->size;
    return 4 + strlen(label_of(part)) + 1 + 8 + data;
}

static uint8_t *put_part(uint8_t *at, const struct cache_key_part *part)
{
    const char *label = label_of(part);
    at = put_u32(at, strlen(label));
    at = put_bytes(at, label, strlen(label));
    *at++ = part->size > INLINE_MAX ? FORM_HASHED : FORM_INLINE;
    uint8_t size[8];
    cache_store_u64(size, part->size);
    at = put_bytes(at, size, sizeof size);
    if (part->size <= INLINE_MAX) {
        return put_bytes(at, part->data, part->size);
    }
    const struct cache_bytes data = {part->data, part->size};
    cache_hash(part_seed, &data, 1, at);
    return at + CACHE_HASH_SIZE;
}

struct cache_bytes cache_key_part_bytes(const struct cache_key_part *part)
{
    struct cache_bytes bytes = {NULL, part_size(part)};
    uint8_t *data = malloc(bytes.size);
    if (data) {
        (void)put_part(data, part);
    }
    bytes.data = data;
    return bytes;
}

int cache_key_make(const struct cache_key_part *parts, size_t count, struct cache_key *key, uint8_t **material,
                   size_t *material_size)
{
    size_t size = sizeof magic + 4 + 4;
    for (size_t i = 0; i < count; i++) {
        size += part_size(&parts[i]);
    }
    uint8_t *bytes = malloc(size);
    if (!bytes) {
        return CACHE_MEMORY;
    }
    uint8_t *at = put_bytes(bytes, magic, sizeof magic);
    at = put_u32(at, KEY_FORMAT);
    at = put_u32(at, count);
    for (size_t i = 0; i < count; i++) {
        at = put_part(at, &parts[i]);
    }
    const struct cache_bytes whole = {bytes, size};
    cache_hash(key_seed, &whole, 1, key->bytes);
    *material = bytes;
    *material_size = size;
    return CACHE_OK;
}

void cache_key_hex(const struct cache_key *key, char hex[33])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < sizeof key->bytes; i++) {
        hex[2 * i] = digits[key->bytes[i] >> 4];
        hex[2 * i + 1] = digits[key->bytes[i] & 15];
    }
    hex[32] = '\0';
}

static int digit_value(char digit)
{
    if (digit >= '0' && digit <= '9') {
        return digit - '0';
    }
    if (digit >= 'a' && digit <= 'f') {
        return digit - 'a' + 10;
    }
    if (digit >= 'A' && digit <= 'F') {
        return digit - 'A' + 10;
    }
    return -1;
}

bool cache_key_from_hex(const char *hex, struct cache_key *key)
{
    struct cache_key read;
    if (!hex || strlen(hex) != 2 * sizeof read.bytes) {
        return false;
    }
    for (size_t i = 0; i < sizeof read.bytes; i++) {
        int high = digit_value(hex[2 * i]);
        int low = digit_value(hex[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        read.bytes[i] = (uint8_t)(high << 4 | low);
    }
    *key = read;
    return true;
}

/* ---- Taking material apart ----------------------------------------------------------------------------------------- */

static bool take(const struct cache_bytes *material, size_t *at, size_t size, const uint8_t **bytes)
{
    if (material->size - *at < size) {
        return false;
    }
    *bytes = (const uint8_t *)material->data + *at;
    *at += size;
    return true;
}

static bool take_number(const struct cache_bytes *material, size_t *at, size_t size, uint64_t *number)
{
    const uint8_t *bytes = NULL;
    if (!take(material, at, size, &bytes)) {
        return false;
    }
    *number = 0;
    for (size_t i = size; i-- > 0;) {
        *number = *number << 8 | bytes[i];
    }
    return true;
}

bool cache_material_first(const struct cache_bytes *material, size_t *at)
{
    const uint8_t *bytes = NULL;
    uint64_t format = 0, count = 0;
    *at = 0;
    return take(material, at, sizeof magic, &bytes) && memcmp(bytes, magic, sizeof magic) == 0 &&
           take_number(material, at, 4, &format) && format == KEY_FORMAT && take_number(material, at, 4, &count);
}

bool cache_material_next(const struct cache_bytes *material, size_t *at, struct cache_material_part *part)
{
    uint64_t label = 0, form = 0, size = 0;
    const uint8_t *bytes = NULL;
    if (!take_number(material, at, 4, &label) || !take(material, at, (size_t)label, &bytes)) {
        return false;
    }
    part->label = (struct cache_bytes){bytes, (size_t)label};
    if (!take_number(material, at, 1, &form) || !take_number(material, at, 8, &size) || form > FORM_HASHED) {
        return false;
    }
    part->hashed = form == FORM_HASHED;
    part->size = size;
    const uint64_t stored = part->hashed ? CACHE_HASH_SIZE : size;
    if (stored > material->size || !take(material, at, (size_t)stored, &bytes)) {
        return false;
    }
    part->stored = (struct cache_bytes){bytes, (size_t)stored};
    return true;
}
