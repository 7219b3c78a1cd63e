/*
 * The public calls on packs.
 */
#include "runtime/elf.h"
#include "runtime/kernel.h"
#include "runtime/structs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Keys of entries, in the order of the list. */
struct key_list {
    struct cache_key *keys;
    size_t count, capacity;
    bool out_of_memory;
};

static int key_take(const struct cache_entry *entry, void *user)
{
    struct key_list *list = user;
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity == 0 ? 64 : 2 * list->capacity;
        struct cache_key *grown = realloc(list->keys, capacity * sizeof *grown);
        if (grown == NULL) {
            list->out_of_memory = true;
            return 1;
        }
        list->keys = grown;
        list->capacity = capacity;
    }
    list->keys[list->count++] = entry->key;
    return 0;
}

static gdpa_status keys_of(struct cache *cache, struct key_list *list)
{
    memset(list, 0, sizeof *list);
    const enum cache_result result = cache_list(cache, key_take, list);
    FAIL_IF(list->out_of_memory || result == CACHE_MEMORY, GDPA_E_MEMORY, "no memory for the keys of %s",
            cache_path(cache));
    FAIL_IF(result != CACHE_OK, GDPA_E_CACHE, "%s cannot be read: %s", cache_path(cache), cache_state(cache));
    return GDPA_OK;
}

static gdpa_status keys_given(const char *const *texts, size_t count, struct key_list *list)
{
    memset(list, 0, sizeof *list);
    list->keys = calloc(count > 0 ? count : 1, sizeof *list->keys);
    FAIL_IF(list->keys == NULL, GDPA_E_MEMORY, "no memory for %zu keys", count);
    for (size_t i = 0; i < count; i++) {
        FAIL_IF(texts[i] == NULL || !cache_key_from_hex(texts[i], &list->keys[i]), GDPA_E_ARGUMENT,
                "key \"%s\" is not a cache key of 32 hex digits", texts[i] == NULL ? "NULL" : texts[i]);
    }
    list->count = count;
    return GDPA_OK;
}

static bool code_is_good(const struct cache_entry *entry)
{
    const struct cubin_expectation expected = {.arch = entry->arch, .target = entry->target, .entry = entry->name};
    return cubin_check(entry->code.data, entry->code.size, &expected, NULL) == GDPA_OK;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Writing
 * ------------------------------------------------------------------------------------------------------------- */

static gdpa_status entry_pack(struct cache *cache, struct cache *pack, const struct cache_key *key, bool code_only,
                              bool named, gdpa_pack_report *report)
{
    struct cache_entry entry;
    char hex[33];
    cache_key_hex(key, hex);
    const enum cache_result result = cache_get(cache, key, NULL, 0, !code_only, &entry);
    FAIL_IF(result == CACHE_MEMORY, GDPA_E_MEMORY, "no memory for entry %s", hex);
    FAIL_IF(result != CACHE_OK && named, GDPA_E_NOT_FOUND, "no entry %s in %s", hex, cache_path(cache));
    if (result != CACHE_OK) {
        report->bad++; /* or evicted meanwhile */
        return GDPA_OK;
    }
    gdpa_status status = GDPA_OK;
    if (!code_is_good(&entry)) {
        report->bad++;
    } else if (cache_put(pack, &entry) == CACHE_OK) {
        report->entries++;
    } else {
        status = error_set(GDPA_E_CACHE, "%s cannot be written: %s", cache_path(pack), cache_state(pack));
    }
    cache_entry_deinit(&entry);
    return status;
}

static gdpa_status report_file(const char *path, gdpa_pack_report *report)
{
    char why[1024];
    struct stat status;
    report->bytes = stat(path, &status) == 0 ? (int64_t)status.st_size : 0;
    FAIL_IF(!cache_file_sha256(path, report->sha256, why, sizeof why), GDPA_E_CACHE, "no SHA-256: %s", why);
    return GDPA_OK;
}

static gdpa_status report_give(const gdpa_pack_report *own, gdpa_pack_report *report)
{
    return report == NULL ? GDPA_OK : struct_write(&rule_pack_report, own, report);
}

static gdpa_status pack_fill(struct cache *cache, struct cache *pack, const struct key_list *keys, bool code_only,
                             bool named, gdpa_pack_report *report)
{
    char why[1024];
    for (size_t i = 0; i < keys->count; i++) {
        TRY(entry_pack(cache, pack, &keys->keys[i], code_only, named, report));
    }
    FAIL_IF(!cache_pack_publish(pack, why, sizeof why), GDPA_E_CACHE, "the pack is not written: %s", why);
    return GDPA_OK;
}

gdpa_status gdpa_pack_write(gdpa_ctx *ctx, const char *path, const char *const *keys, size_t key_count, int code_only,
                            gdpa_pack_report *report)
{
    FAIL_IF(ctx == NULL || path == NULL, GDPA_E_ARGUMENT, "%s is NULL", ctx == NULL ? "ctx" : "path");
    TRY(struct_check_size(&rule_pack_report, report));
    char why[1024];
    struct key_list list;
    gdpa_pack_report own = {.size = sizeof own};
    struct cache *cache = context_cache(ctx);
    FAIL_IF(cache == NULL, GDPA_E_CACHE, "there is no kernel cache to pack: %s", context_cache_absence(ctx));
    gdpa_status status = keys != NULL ? keys_given(keys, key_count, &list) : keys_of(cache, &list);
    struct cache *pack = status == GDPA_OK ? cache_pack_create(path, why, sizeof why) : NULL;
    if (status == GDPA_OK && pack == NULL) {
        status = error_set(GDPA_E_CACHE, "the pack %s cannot be made: %s", path, why);
    }
    if (status == GDPA_OK) {
        status = pack_fill(cache, pack, &list, code_only != 0, keys != NULL, &own);
    }
    cache_close(pack);
    free(list.keys);
    if (status == GDPA_E_CACHE && pack != NULL) {
        error_prefix("writing the pack %s", path);
    }
    TRY(status);
    TRY(report_file(path, &own));
    return report_give(&own, report);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Reading
 * ------------------------------------------------------------------------------------------------------------- */

static bool same_code(const struct cache_entry *a, const struct cache_entry *b)
{
    return a->code.size == b->code.size && memcmp(a->code.data, b->code.data, a->code.size) == 0;
}

/* cache NULL: there is none to compare with. */
static gdpa_status entry_unpack(struct cache *cache, struct cache *pack, const struct cache_key *key, bool store,
                                gdpa_pack_report *report)
{
    struct cache_entry entry, ours;
    const enum cache_result result = cache_get(pack, key, NULL, 0, true, &entry);
    FAIL_IF(result == CACHE_MEMORY, GDPA_E_MEMORY, "no memory for an entry of %s", cache_path(pack));
    if (result != CACHE_OK) {
        report->bad++;
        return GDPA_OK;
    }
    gdpa_status status = GDPA_OK;
    if (!code_is_good(&entry)) {
        report->bad++;
        cache_entry_deinit(&entry);
        return GDPA_OK;
    }
    report->entries++;
    if (cache != NULL && cache_get(cache, key, NULL, 0, false, &ours) == CACHE_OK) {
        report->present++;
        report->different += !same_code(&entry, &ours);
        cache_entry_deinit(&ours);
    } else if (store && cache_put(cache, &entry) == CACHE_OK) {
        report->stored++;
    } else if (store) {
        status = error_set(GDPA_E_CACHE, "%s cannot be written: %s", cache_path(cache), cache_state(cache));
    }
    cache_entry_deinit(&entry);
    return status;
}

/* What is wrong with a pack as a whole becomes the error of the call; what is wrong inside is said here. */
struct pack_log {
    const gdpa_ctx *ctx;
    bool opening;
};

static void pack_line(int level, const char *line, void *user)
{
    const struct pack_log *log = user;
    log_write(&log->ctx->log, log->opening ? GDPA_LOG_DEBUG : (gdpa_log_level)level, LOG_CACHE, "%s", line);
}

static gdpa_status pack_open_named(struct pack_log *log, const char *name, struct cache **pack)
{
    const char *sha256 = NULL;
    char *copy = strdup(name);
    FAIL_IF(copy == NULL, GDPA_E_MEMORY, "no memory for the name of a pack");
    gdpa_status status = GDPA_OK;
    if (name[0] == '\0') {
        status = error_set(GDPA_E_ARGUMENT, "the name of the pack is empty");
    } else if (!pack_name_split(copy, &sha256)) {
        status = error_set(GDPA_E_ARGUMENT, "the SHA-256 of pack %s is \"%s\"; it must be 64 hex digits", copy, sha256);
    } else {
        const struct cache_pack_options options = {.path = copy, .sha256 = sha256, .log = pack_line, .log_user = log};
        *pack = cache_pack_open(&options);
        status = *pack != NULL ? GDPA_OK : error_set(GDPA_E_MEMORY, "no memory for pack %s", copy);
    }
    free(copy);
    return status;
}

static gdpa_status pack_unpack(struct cache *cache, struct cache *pack, bool store, gdpa_pack_report *report)
{
    struct key_list list;
    FAIL_IF(strcmp(cache_state(pack), "read-only") != 0, GDPA_E_CACHE, "the pack %s cannot be used: %s",
            cache_path(pack), cache_state(pack));
    gdpa_status status = keys_of(pack, &list);
    for (size_t i = 0; i < list.count && status == GDPA_OK; i++) {
        status = entry_unpack(cache, pack, &list.keys[i], store, report);
    }
    free(list.keys);
    TRY(status);
    /* Rows that are damaged do not get into the list. */
    const int64_t unlisted = (int64_t)cache_bad_entries(pack) - report->bad;
    report->bad += unlisted > 0 ? unlisted : 0;
    return report_file(cache_path(pack), report);
}

gdpa_status gdpa_pack_read(gdpa_ctx *ctx, const char *path, int store, gdpa_pack_report *report)
{
    FAIL_IF(ctx == NULL || path == NULL, GDPA_E_ARGUMENT, "%s is NULL", ctx == NULL ? "ctx" : "path");
    TRY(struct_check_size(&rule_pack_report, report));
    struct cache *pack = NULL, *cache = context_cache(ctx);
    gdpa_pack_report own = {.size = sizeof own};
    FAIL_IF(store != 0 && cache == NULL, GDPA_E_CACHE, "there is no kernel cache to unpack into: %s",
            context_cache_absence(ctx));
    struct pack_log log = {.ctx = ctx, .opening = true};
    TRY(pack_open_named(&log, path, &pack));
    log.opening = false;
    const gdpa_status status = pack_unpack(cache, pack, store != 0, &own);
    cache_close(pack);
    TRY(status);
    return report_give(&own, report);
}
