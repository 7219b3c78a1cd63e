/*
 * Looking for one kernel in packs and the disk cache; see kernel_look.h.
 */
#include "runtime/kernel_look.h"
#include "runtime/elf.h"

#include <string.h>

/* The name has only a part of the source's hash in it; the whole hash decides. */
static bool entry_has_source(const struct job *job, const struct cache_entry *entry)
{
    return strcmp(entry->name, job->name.text) == 0 && strcmp(entry->source_hash, job->source_hash) == 0 &&
           strcmp(entry->spec, job->spec_text.text) == 0 && strcmp(entry->target, job->arch->target) == 0;
}

/* Beyond the hashes that the cache itself checks. */
static bool entry_fits(struct job *job, const struct cache_entry *entry)
{
    const struct cubin_expectation expected = {
        .arch = job->spec->arch, .target = job->arch->target, .entry = job->name.text};
    if (entry->threads != job->plan.threads || entry->smem_dynamic != job->plan.smem_bytes) {
        fail(&job->why, GDPA_E_CACHE, "it is for %d threads and %d bytes of shared memory, not %d and %d",
             entry->threads, entry->smem_dynamic, job->plan.threads, job->plan.smem_bytes);
        return false;
    }
    return cubin_check(entry->code.data, entry->code.size, &expected, &job->why) == GDPA_OK;
}

static gdpa_status entry_to_kernel(struct job *job, const struct cache_entry *entry, gdpa_kernel **kernel)
{
    const struct resources resources = {.registers = entry->registers,
                                        .spill_bytes = entry->spill_bytes,
                                        .stack_bytes = entry->stack_bytes,
                                        .smem_static = entry->smem_static};
    const struct kernel_parts parts = {.spec = job->spec,
                                       .plan = &job->plan,
                                       .name = job->name.text,
                                       .spec_text = job->spec_text.text,
                                       .target = job->arch->target,
                                       .origin = "disk",
                                       .nvrtc = entry->nvrtc,
                                       .source_hash = job->source_hash,
                                       .disk_key = &entry->key,
                                       .code = entry->code.data,
                                       .code_size = entry->code.size,
                                       .resources = &resources,
                                       .generate_ms = job->generate_ms,
                                       .compile_ms = entry->compile_ms};
    *kernel = kernel_make(job->ctx, &parts);
    return *kernel != NULL ? GDPA_OK : fail(&job->why, GDPA_E_MEMORY, "no memory for kernel %s", job->name.text);
}

/* GDPA_E_NOT_FOUND: a miss. */
static gdpa_status disk_read(struct job *job, struct cache *cache, const struct cache_key *key, const uint8_t *material,
                             size_t material_size, gdpa_kernel **kernel)
{
    struct cache_entry entry;
    const enum cache_result result = cache_get(cache, key, material, material_size, false, &entry);
    if (result == CACHE_MEMORY) {
        return fail(&job->why, GDPA_E_MEMORY, "no memory for reading the cache");
    }
    if (result != CACHE_OK) {
        return GDPA_E_NOT_FOUND;
    }
    gdpa_status status = GDPA_E_NOT_FOUND;
    if (material == NULL && !entry_has_source(job, &entry)) {
        /* another kernel whose name happens to be the same */
    } else if (entry_fits(job, &entry)) {
        status = entry_to_kernel(job, &entry, kernel);
    } else {
        char hex[33];
        cache_key_hex(key, hex);
        const bool removed = cache_is_writable(cache) && cache_remove(cache, key, NULL) == CACHE_OK;
        log_write(&job->ctx->log, GDPA_LOG_WARN, LOG_CACHE, "entry %s of %s (%s) is not used%s: %s", hex,
                  job->name.text, cache_path(cache), removed ? " and removed" : "", job->why.text);
        counter_add(&job->ctx->counters.bad_entries, 1);
    }
    cache_entry_deinit(&entry);
    return status;
}

struct entry_search {
    const struct job *job;
    struct cache_key key;
    bool found;
};

static int entry_visit(const struct cache_entry *entry, void *user)
{
    struct entry_search *search = user;
    if (entry_has_source(search->job, entry)) {
        search->key = entry->key;
        search->found = true;
    }
    return search->found;
}

/* The entry of the same source that was used last, whichever NVRTC made it. Mostly there is one of this name. */
static gdpa_status disk_read_any_compiler(struct job *job, struct cache *cache, gdpa_kernel **kernel)
{
    struct entry_search search = {.job = job, .found = false};
    int64_t matches = 0;
    if (cache_find(cache, job->name.text, &search.key, &matches) == CACHE_OK) {
        return disk_read(job, cache, &search.key, NULL, 0, kernel);
    }
    if (matches < 2 || cache_list(cache, entry_visit, &search) != CACHE_OK || !search.found) {
        return GDPA_E_NOT_FOUND;
    }
    return disk_read(job, cache, &search.key, NULL, 0, kernel);
}

static void hit_note(struct job *job, const struct cache *cache, const gdpa_kernel *found)
{
    job->found_in = cache;
    counter_add(&job->ctx->counters.disk_hits, 1);
    log_write(&job->ctx->log, GDPA_LOG_DEBUG, LOG_CACHE, "event=hit name=%s key=%s nvrtc=%s file=%s", job->name.text,
              found->key, found->nvrtc, cache_path(cache));
}

/*
 * A pack was chosen by whoever set this up: its code is used whichever NVRTC made it, but that of the NVRTC at hand
 * first (docs/decisions/062-packs.md).
 */
static gdpa_status pack_read(struct job *job, struct cache *pack, gdpa_kernel **kernel)
{
    gdpa_status status = GDPA_E_NOT_FOUND;
    if (job->nvrtc != NULL) {
        status = disk_read(job, pack, &job->key, job->material, job->material_size, kernel);
    }
    return status == GDPA_E_NOT_FOUND ? disk_read_any_compiler(job, pack, kernel) : status;
}

static gdpa_status packs_look_up(struct job *job, gdpa_kernel **kernel)
{
    const struct packs *packs = context_packs(job->ctx);
    gdpa_status status = GDPA_E_NOT_FOUND;
    for (int i = 0; i < packs->count && status == GDPA_E_NOT_FOUND; i++) {
        status = pack_read(job, packs->list[i], kernel);
        if (status == GDPA_OK && *kernel != NULL) {
            hit_note(job, packs->list[i], *kernel);
        }
    }
    return status;
}

gdpa_status job_look_up(struct job *job, gdpa_kernel **kernel)
{
    gdpa_kernel *found = NULL;
    gdpa_status status = packs_look_up(job, &found);
    struct cache *cache = status == GDPA_E_NOT_FOUND ? context_cache(job->ctx) : NULL;
    if (cache != NULL) {
        status = job->nvrtc != NULL ? disk_read(job, cache, &job->key, job->material, job->material_size, &found)
                                    : disk_read_any_compiler(job, cache, &found);
        if (status == GDPA_OK && found != NULL) {
            hit_note(job, cache, found);
        }
    }
    if (status == GDPA_OK) {
        *kernel = found;
    }
    return status;
}

gdpa_status job_look_up_anew(struct job *job, gdpa_kernel **kernel)
{
    struct cache *cache = context_cache(job->ctx);
    gdpa_kernel *found = NULL;
    if (cache == NULL || job->nvrtc == NULL) {
        return GDPA_E_NOT_FOUND;
    }
    TRY(disk_read(job, cache, &job->key, job->material, job->material_size, &found));
    if (found == NULL) {
        return GDPA_E_NOT_FOUND;
    }
    if (kernel_code_is(job->refused, found->code, found->code_size)) {
        kernel_free(found);
        return GDPA_E_NOT_FOUND;
    }
    hit_note(job, cache, found);
    *kernel = found;
    return GDPA_OK;
}
