/*
 * The public calls on the disk cache.
 */
#include "runtime/elf.h"
#include "runtime/kernel.h"
#include "runtime/structs.h"

#include <string.h>

static gdpa_status cache_of(gdpa_ctx *ctx, struct cache **cache)
{
    FAIL_IF(ctx == NULL, GDPA_E_ARGUMENT, "ctx is NULL");
    *cache = context_cache(ctx);
    FAIL_IF(*cache == NULL, GDPA_E_CACHE, "there is no kernel cache: %s", context_cache_absence(ctx));
    return GDPA_OK;
}

/* What a result of the cache means for the caller. */
static gdpa_status result_status(const struct cache *cache, enum cache_result result, const char *asked)
{
    switch (result) {
    case CACHE_OK:
        return GDPA_OK;
    case CACHE_MISS:
        FAIL(GDPA_E_NOT_FOUND, "no entry %s in %s", asked, cache_path(cache));
    case CACHE_MEMORY:
        FAIL(GDPA_E_MEMORY, "no memory for reading %s", cache_path(cache));
    case CACHE_UNUSABLE:
        break;
    }
    FAIL(GDPA_E_CACHE, "the kernel cache %s cannot be used: %s", cache_path(cache), cache_state(cache));
}

struct listing {
    gdpa_cache_fn visit;
    void *user;
};

static int list_entry(const struct cache_entry *entry, void *user)
{
    const struct listing *listing = user;
    char hex[33];
    cache_key_hex(&entry->key, hex);
    const gdpa_cache_entry shown = {.size = sizeof shown,
                                    .key = hex,
                                    .name = entry->name,
                                    .spec = entry->spec,
                                    .target = entry->target,
                                    .nvrtc = entry->nvrtc,
                                    .source_hash = entry->source_hash,
                                    .registers = entry->registers,
                                    .spill_bytes = entry->spill_bytes,
                                    .smem_dynamic = entry->smem_dynamic,
                                    .threads = entry->threads,
                                    .binary_bytes = (int64_t)entry->code.size,
                                    .stored_bytes = entry->stored_bytes,
                                    .compile_ms = entry->compile_ms,
                                    .hits = entry->hits,
                                    .sequence = entry->sequence};
    return listing->visit(&shown, listing->user);
}

gdpa_status gdpa_cache_list(gdpa_ctx *ctx, gdpa_cache_fn visit, void *user)
{
    struct cache *cache = NULL;
    TRY(cache_of(ctx, &cache));
    FAIL_IF(visit == NULL, GDPA_E_ARGUMENT, "visit is NULL");
    struct listing listing = {.visit = visit, .user = user};
    return result_status(cache, cache_list(cache, list_entry, &listing), "at all");
}

gdpa_status gdpa_cache_describe(gdpa_ctx *ctx, gdpa_cache_summary *summary)
{
    FAIL_IF(ctx == NULL || summary == NULL, GDPA_E_ARGUMENT, "%s is NULL", ctx == NULL ? "ctx" : "summary");
    struct cache *cache = context_cache(ctx);
    gdpa_cache_summary own = {
        .size = sizeof own, .path = cache != NULL ? cache_path(cache) : "", .limit_bytes = ctx->cache_limit};
    if (cache != NULL) {
        struct cache_details details = {.locks = -1};
        cache_totals(cache, &own.entries, &own.bytes, &own.limit_bytes);
        cache_describe(cache, &details);
        own.foreign_entries = details.foreign_entries;
        own.part_bytes = details.part_bytes;
        own.file_bytes = details.file_bytes;
        own.set_aside = details.set_aside;
        own.network = details.network;
        own.locks = details.locks;
    }
    own.state = context_cache_absence(ctx);
    return struct_write(&rule_cache_summary, &own, summary);
}

static bool code_is_good(const struct cache_entry *entry, void *user)
{
    (void)user;
    const struct cubin_expectation expected = {.arch = entry->arch, .target = entry->target, .entry = entry->name};
    return cubin_check(entry->code.data, entry->code.size, &expected, NULL) == GDPA_OK;
}

gdpa_status gdpa_cache_verify(gdpa_ctx *ctx, int64_t *good, int64_t *bad)
{
    struct cache *cache = NULL;
    int64_t counts[2] = {0, 0};
    TRY(cache_of(ctx, &cache));
    TRY(result_status(cache, cache_verify(cache, code_is_good, NULL, &counts[0], &counts[1]), "at all"));
    if (good != NULL) {
        *good = counts[0];
    }
    if (bad != NULL) {
        *bad = counts[1];
    }
    return GDPA_OK;
}

gdpa_status gdpa_cache_remove(gdpa_ctx *ctx, const char *key, int64_t *removed)
{
    struct cache *cache = NULL;
    struct cache_key wanted;
    int64_t count = 0;
    TRY(cache_of(ctx, &cache));
    FAIL_IF(key != NULL && !cache_key_from_hex(key, &wanted), GDPA_E_ARGUMENT,
            "key \"%s\" is not a cache key of 32 hex digits", key);
    TRY(result_status(cache, cache_remove(cache, key != NULL ? &wanted : NULL, &count), key != NULL ? key : "at all"));
    FAIL_IF(key != NULL && count == 0, GDPA_E_NOT_FOUND, "no entry %s in %s", key, cache_path(cache));
    if (removed != NULL) {
        *removed = count;
    }
    return GDPA_OK;
}

gdpa_status gdpa_cache_gc(gdpa_ctx *ctx, int64_t limit_bytes, gdpa_cache_gc_report *report)
{
    struct cache *cache = NULL;
    struct cache_gc done;
    TRY(cache_of(ctx, &cache));
    FAIL_IF(limit_bytes < 0, GDPA_E_ARGUMENT,
            "limit_bytes is %lld; it must be a number of bytes, or 0 for the limit of "
            "the context",
            (long long)limit_bytes);
    TRY(struct_check_size(&rule_cache_gc_report, report));
    const enum cache_result result = cache_gc(cache, limit_bytes, &done);
    FAIL_IF(result == CACHE_UNUSABLE, GDPA_E_CACHE,
            "cannot clean up %s: %s. Make room on its disk, or delete the file: what is in it can be compiled again",
            cache_path(cache), cache_state(cache));
    TRY(result_status(cache, result, "at all"));
    if (report == NULL) {
        return GDPA_OK;
    }
    const gdpa_cache_gc_report own = {.size = sizeof own,
                                      .entries = done.entries,
                                      .parts = done.parts,
                                      .set_aside = done.set_aside,
                                      .bytes_before = done.bytes_before,
                                      .bytes_after = done.bytes_after};
    return struct_write(&rule_cache_gc_report, &own, report);
}

static gdpa_status key_find(struct cache *cache, const char *prefix, struct cache_key *key)
{
    int64_t matches = 0;
    const enum cache_result result = cache_find(cache, prefix, key, &matches);
    FAIL_IF(result == CACHE_MISS && matches > 1, GDPA_E_NOT_FOUND,
            "%lld entries of %s have a key or name that starts with \"%s\"; give more of it", (long long)matches,
            cache_path(cache), prefix);
    return result_status(cache, result, prefix);
}

static const struct cache_bytes *entry_part(const struct cache_entry *entry, gdpa_artifact what)
{
    switch (what) {
    case GDPA_ARTIFACT_SOURCE:
        return &entry->aux[CACHE_AUX_SOURCE];
    case GDPA_ARTIFACT_PLAN:
        return &entry->aux[CACHE_AUX_PLAN];
    case GDPA_ARTIFACT_PTX:
        return &entry->aux[CACHE_AUX_PTX];
    case GDPA_ARTIFACT_CUBIN:
        return &entry->code;
    case GDPA_ARTIFACT_LOG:
        return &entry->aux[CACHE_AUX_LOG];
    }
    return NULL;
}

static gdpa_status part_give(const struct cache_entry *entry, gdpa_artifact what, void *data, size_t capacity,
                             size_t *length)
{
    const struct cache_bytes *part = entry_part(entry, what);
    FAIL_IF(part == NULL, GDPA_E_ARGUMENT, "what is %d; legal are GDPA_ARTIFACT_SOURCE (%d) to GDPA_ARTIFACT_LOG (%d)",
            (int)what, GDPA_ARTIFACT_SOURCE, GDPA_ARTIFACT_LOG);
    FAIL_IF(part->data == NULL, GDPA_E_NOT_FOUND, "the entry of %s was stored without it, or it was evicted",
            entry->name);
    TRY(bytes_give("artifact", part->data, part->size, false, data, capacity, length));
    if (what != GDPA_ARTIFACT_CUBIN && capacity > part->size) {
        ((char *)data)[part->size] = '\0';
    }
    return GDPA_OK;
}

gdpa_status gdpa_cache_artifact(gdpa_ctx *ctx, const char *key, gdpa_artifact what, void *data, size_t capacity,
                                size_t *length)
{
    struct cache *cache = NULL;
    struct cache_key wanted;
    struct cache_entry entry;
    TRY(cache_of(ctx, &cache));
    FAIL_IF(key == NULL, GDPA_E_ARGUMENT, "key is NULL");
    TRY(key_find(cache, key, &wanted));
    TRY(result_status(cache, cache_get(cache, &wanted, NULL, 0, true, &entry), key));
    const gdpa_status status = part_give(&entry, what, data, capacity, length);
    cache_entry_deinit(&entry);
    return status;
}
