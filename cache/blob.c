/*
 * Blobs: the bytes of an entry as they are stored. Code is stored raw, because decompression would sit on the way to the
 * first launch; sources, PTX, logs and plans are compressed by zstd. What is read back is given out only when codec,
 * size and hash fit, and the hash covers the key, so that a row that points to the blob of another entry is caught too.
 */
#include "cache/internal.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define COMPRESSION_LEVEL 3

static const uint64_t blob_seed = UINT64_C(0x6764706a6974b10b);

struct cache_arena {
    struct cache_arena *next;
    alignas(max_align_t) unsigned char bytes[];
};

void *cache_arena_take(struct cache_arena **arena, size_t size)
{
    if (size > SIZE_MAX - sizeof(struct cache_arena) - 1) {
        return NULL;
    }
    struct cache_arena *block = malloc(sizeof *block + size + 1);
    if (!block) {
        return NULL;
    }
    block->next = *arena;
    *arena = block;
    return block->bytes;
}

void cache_arena_free(struct cache_arena *arena)
{
    while (arena) {
        struct cache_arena *next = arena->next;
        free(arena);
        arena = next;
    }
}

void cache_blob_hash(const struct cache_key *key, int kind, const struct cache_bytes *raw,
                     uint8_t hash[CACHE_HASH_SIZE])
{
    uint8_t head[sizeof key->bytes + 16];
    memcpy(head, key->bytes, sizeof key->bytes);
    cache_store_u64(head + sizeof key->bytes, (uint64_t)kind);
    cache_store_u64(head + sizeof key->bytes + 8, raw->size);
    const struct cache_bytes parts[] = {{head, sizeof head}, *raw};
    cache_hash(blob_seed, parts, 2, hash);
}

enum cache_result cache_blob_pack(const struct cache_key *key, int kind, const struct cache_bytes *raw,
                                  struct cache_blob *blob)
{
    blob->codec = CACHE_CODEC_RAW;
    blob->raw_size = (int64_t)raw->size;
    blob->stored = *raw;
    blob->owned = NULL;
    cache_blob_hash(key, kind, raw, blob->hash);
    size_t bound = ZSTD_compressBound(raw->size);
    void *packed = malloc(bound);
    if (!packed) {
        return CACHE_MEMORY;
    }
    size_t size = ZSTD_compress(packed, bound, raw->data, raw->size, COMPRESSION_LEVEL);
    if (ZSTD_isError(size) || size >= raw->size) {
        free(packed);
        return CACHE_OK;
    }
    blob->codec = CACHE_CODEC_ZSTD;
    blob->stored = (struct cache_bytes){packed, size};
    blob->owned = packed;
    return CACHE_OK;
}

/* The size in the frame is checked before anything is allocated for it. */
static bool decompress(const struct cache_blob *blob, void *raw, size_t raw_size)
{
    size_t size = ZSTD_decompress(raw, raw_size, blob->stored.data, blob->stored.size);
    return !ZSTD_isError(size) && size == raw_size;
}

static bool sizes_fit(const struct cache_blob *blob)
{
    if (blob->raw_size < 0 || blob->raw_size > CACHE_VALUE_MAX || (!blob->stored.data && blob->stored.size > 0)) {
        return false;
    }
    if (blob->codec == CACHE_CODEC_RAW) {
        return blob->stored.size == (size_t)blob->raw_size;
    }
    return blob->codec == CACHE_CODEC_ZSTD && blob->stored.size > 0 &&
           ZSTD_getFrameContentSize(blob->stored.data, blob->stored.size) == (unsigned long long)blob->raw_size;
}

enum cache_result cache_blob_unpack(const struct cache_key *key, int kind, const struct cache_blob *blob,
                                    struct cache_arena **arena, struct cache_bytes *raw)
{
    if (!sizes_fit(blob)) {
        return CACHE_MISS;
    }
    size_t raw_size = (size_t)blob->raw_size;
    void *bytes = cache_arena_take(arena, raw_size);
    if (!bytes) {
        return CACHE_MEMORY;
    }
    if (blob->codec == CACHE_CODEC_ZSTD) {
        if (!decompress(blob, bytes, raw_size)) {
            return CACHE_MISS;
        }
    } else if (raw_size > 0) {
        memcpy(bytes, blob->stored.data, raw_size);
    }
    const struct cache_bytes read = {bytes, raw_size};
    uint8_t hash[CACHE_HASH_SIZE];
    cache_blob_hash(key, kind, &read, hash);
    if (memcmp(hash, blob->hash, sizeof hash) != 0) {
        return CACHE_MISS;
    }
    *raw = read;
    return CACHE_OK;
}

void cache_blob_deinit(struct cache_blob *blob)
{
    free(blob->owned);
    blob->owned = NULL;
    blob->stored = (struct cache_bytes){NULL, 0};
}
