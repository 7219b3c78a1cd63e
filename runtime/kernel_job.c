/*
 * Making one kernel: source, then the disk, then the compiler. See kernel_job.h.
 */
#include "runtime/kernel_job.h"
#include "gen/assemble.h"
#include "runtime/elf.h"
#include "runtime/kernel_turn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KEY_SCHEMA "1"
#define SOURCE_LIMIT ((size_t)16 << 20)

/* One kernel on its way. */
struct job {
    gdpa_ctx *ctx;
    const gdpa_spec *spec; /* normalised, with its arch */
    const struct arch_row *arch;
    struct kernel_plan plan;
    struct sbuf source, name, spec_text;
    struct sbuf why;
    char source_hash[33];
    double generate_ms;
    const struct nvrtc *nvrtc; /* NULL: there is none for this arch */
    gdpa_status nvrtc_status;
    struct sbuf nvrtc_why;
    struct cache_key key; /* with a compiler only */
    uint8_t *material;
    size_t material_size;
    const struct cache *found_in; /* cache or pack */
};

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Source and key
 * ------------------------------------------------------------------------------------------------------------- */

static void job_init(struct job *job, gdpa_ctx *ctx, const gdpa_spec *spec)
{
    memset(job, 0, sizeof *job);
    job->ctx = ctx;
    job->spec = spec;
    job->arch = arch_find(spec->arch);
    sbuf_init(&job->source, SOURCE_LIMIT);
    sbuf_init(&job->name, 512);
    sbuf_init(&job->spec_text, 4096);
    sbuf_init(&job->why, WHY_LIMIT);
    sbuf_init(&job->nvrtc_why, WHY_LIMIT);
}

static void job_deinit(struct job *job)
{
    sbuf_deinit(&job->source);
    sbuf_deinit(&job->name);
    sbuf_deinit(&job->spec_text);
    sbuf_deinit(&job->why);
    sbuf_deinit(&job->nvrtc_why);
    free(job->material);
}

static gdpa_status job_generate(struct job *job)
{
    const int64_t start = now_ns();
    TRY(plan_make(job->spec, &job->plan, NULL, &job->why));
    TRY(source_generate(job->spec, &job->plan, &job->source, &job->why));
    kernel_name(job->spec, &job->plan, &job->name);
    spec_print(job->spec, &job->spec_text);
    if (job->source.overflow || job->name.overflow || job->spec_text.overflow) {
        return fail(&job->why, GDPA_E_MEMORY, "no memory for the source of a kernel");
    }
    source_hash(job->source.text, job->source.length, job->source_hash);
    const int64_t nanoseconds = now_ns() - start;
    job->generate_ms = (double)nanoseconds * 1e-6;
    counter_add(&job->ctx->counters.generate_ns, (uint64_t)nanoseconds);
    return GDPA_OK;
}

static struct cache_key_part part(const char *label, const char *text)
{
    return (struct cache_key_part){.label = label, .data = text, .size = strlen(text)};
}

/* Everything that the code depends on; nothing of this machine, its driver or the time. */
static gdpa_status job_key(struct job *job)
{
    struct compile_options options;
    char list[sizeof options.text];
    size_t length = 0;
    compile_options_make(job->nvrtc->major, job->nvrtc->minor, job->arch->target, job->source_hash, &options);
    list[0] = '\0';
    for (int i = 0; i < options.count; i++) {
        length += (size_t)snprintf(list + length, sizeof list - length, "%s\n", options.list[i]);
    }
    const struct cache_key_part parts[] = {part("schema", KEY_SCHEMA),
                                           part("generator", generator_id()), /* context.c tells the cache the same */
                                           {.label = "source", .data = job->source.text, .size = job->source.length},
                                           part("target", job->arch->target),
                                           part("kind", "cubin"),
                                           part("entry", job->name.text),
                                           part("options", list),
                                           part("nvrtc", job->nvrtc->version),
                                           part("nvrtc_build", job->nvrtc->build)};
    const int result =
        cache_key_make(parts, sizeof parts / sizeof parts[0], &job->key, &job->material, &job->material_size);
    return result == CACHE_OK ? GDPA_OK : fail(&job->why, GDPA_E_MEMORY, "no memory for a cache key");
}

/* The compiler for this arch, if there is one; without it the disk may still have the kernel. */
static gdpa_status job_find_compiler(struct job *job)
{
    const struct nvrtc *nvrtc = NULL;
    job->nvrtc_status = context_nvrtc(job->ctx, &nvrtc, &job->nvrtc_why);
    if (job->nvrtc_status == GDPA_OK) {
        job->nvrtc_status = nvrtc_supports(nvrtc, job->spec->arch, &job->nvrtc_why);
    }
    if (job->nvrtc_status == GDPA_E_MEMORY) {
        return fail(&job->why, GDPA_E_MEMORY, "no memory while looking for NVRTC");
    }
    if (job->nvrtc_status != GDPA_OK) {
        return GDPA_OK;
    }
    job->nvrtc = nvrtc;
    return job_key(job);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Disk
 * ------------------------------------------------------------------------------------------------------------- */

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

static gdpa_status job_look_up(struct job *job, gdpa_kernel **kernel)
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

/* ---------------------------------------------------------------------------------------------------------------
 * Compiler
 * ------------------------------------------------------------------------------------------------------------- */

/* As a shell takes it for one word. */
static void quoted_print(const char *text, struct sbuf *line)
{
    sbuf_addstr(line, "'");
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            sbuf_addstr(line, "'\\''");
        } else {
            sbuf_add(line, text, 1);
        }
    }
    sbuf_addstr(line, "'");
}

/* With the command that cures it, which works as it is printed, also where the variable that brought us here is set. */
static gdpa_status not_ready(struct job *job)
{
    const struct setting *dir = &job->ctx->cache_dir;
    fail(&job->why, GDPA_E_NOT_READY,
         "%s is not in the cache (%s), and mode strict (%s) forbids compiling it; to put it there: %s", job->name.text,
         job->ctx->cache != NULL ? cache_path(job->ctx->cache) : context_cache_absence(job->ctx), job->ctx->mode_origin,
         strcmp(job->ctx->mode_origin, "GDPAJIT_MODE") == 0 ? "GDPAJIT_MODE=auto " : "");
    if (dir->value != NULL && strcmp(dir->origin, "default") != 0) {
        sbuf_addstr(&job->why, "GDPAJIT_CACHE_DIR=");
        quoted_print(dir->value, &job->why);
        sbuf_addstr(&job->why, " ");
    }
    sbuf_addf(&job->why, "gdpa-jit warm '%s'", job->spec_text.text);
    return GDPA_E_NOT_READY;
}

/* True when the disk has it now: texts need not stay in memory. */
static bool job_store(struct job *job, const struct compile_result *compiled, const struct sbuf *plan)
{
    struct cache *cache = context_cache(job->ctx);
    if (cache == NULL || job->ctx->mode != GDPA_MODE_AUTO) {
        return false;
    }
    const struct nvrtc_output *output = &compiled->output;
    const struct cache_entry entry = {.key = job->key,
                                      .material = {job->material, job->material_size},
                                      .code = {output->cubin, output->cubin_size},
                                      .aux = {[CACHE_AUX_SOURCE] = {job->source.text, job->source.length},
                                              [CACHE_AUX_PTX] = {output->ptx, output->ptx_size},
                                              [CACHE_AUX_LOG] = {output->log, output->log_size},
                                              [CACHE_AUX_PLAN] = {plan->text, plan->length}},
                                      .name = job->name.text,
                                      .spec = job->spec_text.text,
                                      .target = job->arch->target,
                                      .nvrtc = job->nvrtc->version,
                                      .source_hash = job->source_hash,
                                      .arch = job->spec->arch,
                                      .registers = compiled->resources.registers,
                                      .spill_bytes = compiled->resources.spill_bytes,
                                      .stack_bytes = compiled->resources.stack_bytes,
                                      .smem_static = compiled->resources.smem_static,
                                      .smem_dynamic = job->plan.smem_bytes,
                                      .threads = job->plan.threads,
                                      .generate_ms = job->generate_ms,
                                      .compile_ms = compiled->milliseconds};
    return cache_put(cache, &entry) == CACHE_OK;
}

static void compile_note(const struct job *job, const struct compile_result *compiled)
{
    const struct log *log = &job->ctx->log;
    const struct resources *resources = &compiled->resources;
    log_write(log, GDPA_LOG_INFO, LOG_COMPILE,
              "event=compile name=%s target=%s nvrtc=%s ms=%.1f registers=%d spill_bytes=%d stack_bytes=%d smem=%d",
              job->name.text, job->arch->target, job->nvrtc->version, compiled->milliseconds, resources->registers,
              resources->spill_bytes, resources->stack_bytes, resources->smem_static + job->plan.smem_bytes);
    if (resources->spill_bytes > 0) {
        log_write(log, GDPA_LOG_WARN, LOG_COMPILE, "%s spills registers (%d bytes): it is slower than it should be",
                  job->name.text, resources->spill_bytes);
    }
}

static gdpa_status compiled_to_kernel(struct job *job, const struct compile_result *compiled, bool stored,
                                      gdpa_kernel **kernel)
{
    const struct nvrtc_output *output = &compiled->output;
    const struct kernel_parts parts = {.spec = job->spec,
                                       .plan = &job->plan,
                                       .name = job->name.text,
                                       .spec_text = job->spec_text.text,
                                       .target = job->arch->target,
                                       .origin = "compiled",
                                       .nvrtc = job->nvrtc->version,
                                       .source_hash = job->source_hash,
                                       .disk_key = &job->key,
                                       .code = output->cubin,
                                       .code_size = output->cubin_size,
                                       .ptx = stored ? NULL : output->ptx,
                                       .ptx_size = output->ptx_size,
                                       .log = stored ? NULL : output->log,
                                       .log_size = output->log_size,
                                       .resources = &compiled->resources,
                                       .generate_ms = job->generate_ms,
                                       .compile_ms = compiled->milliseconds};
    *kernel = kernel_make(job->ctx, &parts);
    return *kernel != NULL ? GDPA_OK : fail(&job->why, GDPA_E_MEMORY, "no memory for kernel %s", job->name.text);
}

static gdpa_status compiled_keep(struct job *job, const struct compile_result *compiled, gdpa_kernel **kernel)
{
    struct sbuf plan;
    sbuf_init(&plan, WHY_LIMIT);
    gdpa_status status = plan_print(job->spec, &plan, &job->why);
    if (status == GDPA_OK) {
        const bool stored = job_store(job, compiled, &plan);
        status = compiled_to_kernel(job, compiled, stored, kernel);
    }
    sbuf_deinit(&plan);
    return status;
}

static gdpa_status job_compile(struct job *job, gdpa_kernel **kernel)
{
    struct counters *counters = &job->ctx->counters;
    if (job->nvrtc == NULL) {
        return fail(&job->why, job->nvrtc_status, "%s is not in the cache (%s), and there is no compiler for it: %s",
                    job->name.text,
                    job->ctx->cache != NULL ? cache_path(job->ctx->cache) : context_cache_absence(job->ctx),
                    job->nvrtc_why.text);
    }
    log_write(&job->ctx->log, GDPA_LOG_INFO, LOG_COMPILE, "compiling \"%s\": not in memory, not in the cache (%s)",
              job->spec_text.text,
              job->ctx->cache != NULL ? cache_path(job->ctx->cache) : context_cache_absence(job->ctx));
    const struct compile_request request = {.source = job->source.text,
                                            .source_hash = job->source_hash,
                                            .name = job->name.text,
                                            .target = job->arch->target,
                                            .arch = job->spec->arch};
    struct compile_result compiled;
    slot_take(job->ctx);
    gdpa_status status = compile_source(job->nvrtc, &request, &compiled, &job->why);
    slot_give(job->ctx);
    if (status == GDPA_OK) {
        counter_add(&counters->compiles, 1);
        counter_add(&counters->compile_ns, (uint64_t)(compiled.milliseconds * 1e6));
        compile_note(job, &compiled);
        status = compiled_keep(job, &compiled, kernel);
    } else {
        counter_add(&counters->compile_failures, 1);
    }
    compile_result_deinit(&compiled);
    return status;
}

/* ---------------------------------------------------------------------------------------------------------------
 * The whole
 * ------------------------------------------------------------------------------------------------------------- */

/* What a waiting job sees when it looks again. */
struct look {
    struct job *job;
    gdpa_kernel **kernel;
};

static gdpa_status look_again(void *user)
{
    const struct look *look = user;
    return job_look_up(look->job, look->kernel);
}

/* Compiles, unless another process does it already: then its kernel is waited for. */
static gdpa_status job_compile_once(struct job *job, gdpa_kernel **kernel)
{
    struct cache *cache = context_cache(job->ctx);
    if (cache == NULL || job->nvrtc == NULL) {
        return job_compile(job, kernel);
    }
    struct look look = {.job = job, .kernel = kernel};
    struct kernel_turn turn = {.cache = cache,
                               .key = &job->key,
                               .log = &job->ctx->log,
                               .name = job->name.text,
                               .wait_ns = job->ctx->cache_wait_ns,
                               .waits = &job->ctx->counters.process_waits,
                               .look = look_again,
                               .user = &look};
    gdpa_status status = kernel_turn_begin(&turn);
    if (status == GDPA_E_NOT_FOUND) {
        status = job_compile(job, kernel);
    }
    kernel_turn_end(&turn);
    return status;
}

static gdpa_status job_run(struct job *job, gdpa_kernel **kernel)
{
    TRY(job_generate(job));
    TRY(job_find_compiler(job));
    const gdpa_status status = job_look_up(job, kernel);
    if (status != GDPA_E_NOT_FOUND) {
        return status;
    }
    return job->ctx->mode == GDPA_MODE_STRICT ? not_ready(job) : job_compile_once(job, kernel);
}

gdpa_status kernel_produce(gdpa_ctx *ctx, const gdpa_spec *spec, gdpa_kernel **kernel, struct sbuf *why)
{
    struct job job;
    job_init(&job, ctx, spec);
    const gdpa_status status = job_run(&job, kernel);
    if (status != GDPA_OK) {
        sbuf_reset(why);
        sbuf_add(why, job.why.text, job.why.length);
    }
    job_deinit(&job);
    return status;
}

gdpa_status kernel_identify(gdpa_ctx *ctx, const gdpa_spec *spec, struct kernel_identity *identity, struct sbuf *why)
{
    struct job job;
    job_init(&job, ctx, spec);
    gdpa_status status = job_generate(&job);
    if (status == GDPA_OK) {
        status = job_find_compiler(&job);
    }
    if (status == GDPA_OK) {
        gdpa_kernel *kernel = NULL;
        status = job_look_up(&job, &kernel);
        if (status == GDPA_OK && kernel != NULL) {
            kernel_free(kernel);
        }
        status = status == GDPA_E_NOT_FOUND ? GDPA_OK : status;
    }
    if (status != GDPA_OK) {
        sbuf_reset(why);
        sbuf_add(why, job.why.text, job.why.length);
    }
    *identity = (struct kernel_identity){.name = job.name,
                                         .source = job.source,
                                         .spec_text = job.spec_text,
                                         .key = job.key,
                                         .material = {job.material, job.material_size},
                                         .found_in = job.found_in,
                                         .no_key = job.nvrtc_why};
    sbuf_deinit(&job.why);
    return status;
}

void kernel_identity_deinit(struct kernel_identity *identity)
{
    sbuf_deinit(&identity->name);
    sbuf_deinit(&identity->source);
    sbuf_deinit(&identity->spec_text);
    sbuf_deinit(&identity->no_key);
    free((void *)(uintptr_t)identity->material.data);
}
