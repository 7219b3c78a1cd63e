/*
 * Making one kernel: source, then the disk, then the compiler. See kernel_job.h.
 */
#include "runtime/kernel_job.h"
#include "gen/assemble.h"
#include "runtime/kernel_look.h"
#include "runtime/kernel_turn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KEY_SCHEMA "1"
#define SOURCE_LIMIT ((size_t)16 << 20)

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
    const struct nvrtc *older = context_older_known(job->ctx);
    const bool better = older != NULL && nvrtc_supports(older, job->spec->arch, &job->nvrtc_why) == GDPA_OK;
    job->nvrtc = better ? older : nvrtc;
    return job_key(job);
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

static void assignment_print(const char *name, const char *value, struct sbuf *line)
{
    sbuf_addf(line, "%s=", name);
    quoted_print(value, line);
    sbuf_addstr(line, " ");
}

/* The folder that is used, from the root on; as it was named where there is no cache. */
static void folder_print(const gdpa_ctx *ctx, struct sbuf *line)
{
    char *folder = strdup(ctx->cache != NULL ? cache_path(ctx->cache) : ctx->cache_dir.value);
    char *slash = folder != NULL && ctx->cache != NULL ? strrchr(folder, '/') : NULL;
    if (slash != NULL) {
        slash[slash == folder ? 1 : 0] = '\0';
    }
    if (folder != NULL) {
        assignment_print("GDPAJIT_CACHE_DIR", folder, line);
    }
    free(folder);
}

/* ", nor in a pack (a.pack, b.pack)" */
static void packs_print(gdpa_ctx *ctx, struct sbuf *line)
{
    const struct packs *packs = context_packs(ctx);
    for (int i = 0; i < packs->count; i++) {
        sbuf_addf(line, "%s%s", i == 0 ? ", nor in a pack (" : ", ", cache_path(packs->list[i]));
    }
    sbuf_addstr(line, packs->count > 0 ? ")" : "");
}

/*
 * With the command that cures it, which works as it is printed, in whatever folder and shell: what this program was told
 * by options or variables about where kernels go and who makes them is in it.
 */
static gdpa_status not_ready(struct job *job)
{
    gdpa_ctx *ctx = job->ctx;
    const char *mode = ctx->env.values[ENV_MODE];
    fail(&job->why, GDPA_E_NOT_READY, "%s is not in the cache (%s)", job->name.text,
         ctx->cache != NULL ? cache_path(ctx->cache) : context_cache_absence(ctx));
    packs_print(ctx, &job->why);
    sbuf_addf(&job->why, ", and mode strict (%s) forbids compiling it; to put it there: ", ctx->mode_origin);
    if (mode != NULL && strcmp(mode, "auto") != 0) {
        sbuf_addstr(&job->why, "GDPAJIT_MODE=auto ");
    }
    if (ctx->cache_dir.value != NULL && strcmp(ctx->cache_dir.origin, "default") != 0) {
        folder_print(ctx, &job->why);
    }
    if (ctx->cache_shared) {
        sbuf_addstr(&job->why, "GDPAJIT_CACHE_SHARED=yes ");
    }
    if (job->nvrtc != NULL && ctx->nvrtc_path.value != NULL) {
        assignment_print("GDPAJIT_NVRTC", job->nvrtc->path, &job->why);
    }
    sbuf_addf(&job->why, "gdpa-jit warm '%s'", job->spec_text.text);
    return GDPA_E_NOT_READY;
}

/* The first writer wins: an entry that shall be replaced has to go first. */
static void refused_entry_remove(const struct job *job, struct cache *cache, const struct compile_result *compiled)
{
    const gdpa_kernel *refused = job->refused;
    if (refused != NULL && memcmp(&refused->disk_key, &job->key, sizeof job->key) == 0 &&
        !kernel_code_is(refused, compiled->output.cubin, compiled->output.cubin_size) &&
        cache_remove(cache, &job->key, NULL) == CACHE_OK) {
        counter_add(&job->ctx->counters.bad_entries, 1);
    }
}

/* True when the disk has it now: texts need not stay in memory. */
static bool job_store(struct job *job, const struct compile_result *compiled, const struct sbuf *plan)
{
    struct cache *cache = context_cache(job->ctx);
    if (cache == NULL || job->ctx->mode != GDPA_MODE_AUTO) {
        return false;
    }
    const struct nvrtc_output *output = &compiled->output;
    refused_entry_remove(job, cache, compiled);
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
        log_write(log, GDPA_LOG_INFO, LOG_COMPILE, "%s spills registers (%d bytes)", job->name.text,
                  resources->spill_bytes);
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
    log_write(&job->ctx->log, GDPA_LOG_INFO, LOG_COMPILE, "compiling \"%s\": %snot in the cache (%s)",
              job->spec_text.text,
              job->refused != NULL ? "the driver refuses what there was, and other code is " : "not in memory, ",
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
    return look->job->refused != NULL ? job_look_up_anew(look->job, look->kernel)
                                      : job_look_up(look->job, look->kernel);
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

/* The NVRTC at hand, unless it is newer than the driver and another is not. */
static gdpa_status job_take_older(struct job *job, const struct driver *driver)
{
    const struct nvrtc *older = NULL;
    if (driver->version == 0 || nvrtc_number(job->nvrtc->version) <= driver->version) {
        return fail(&job->why, GDPA_E_NOT_FOUND, "this process has compiled it just now, by NVRTC %s (%s)",
                    job->nvrtc->version, job->nvrtc->path);
    }
    TRY(context_older_nvrtc(job->ctx, &older, &job->why));
    TRY(nvrtc_supports(older, job->spec->arch, &job->why));
    free(job->material);
    job->material = NULL;
    job->nvrtc = older;
    return job_key(job);
}

static gdpa_status job_run_anew(struct job *job, const struct driver *driver, gdpa_kernel **kernel)
{
    TRY(job_generate(job));
    TRY(job_find_compiler(job));
    if (job->nvrtc == NULL) {
        return fail(&job->why, job->nvrtc_status, "%s", job->nvrtc_why.text);
    }
    if (job->ctx->mode == GDPA_MODE_STRICT) {
        return fail(&job->why, GDPA_E_NOT_READY, "mode strict (%s) forbids it", job->ctx->mode_origin);
    }
    const gdpa_status status = job_take_older(job, driver);
    if (status != GDPA_OK && (status == GDPA_E_MEMORY || strcmp(job->refused->origin, "compiled") == 0)) {
        return status;
    }
    const gdpa_status found = job_look_up_anew(job, kernel);
    return found == GDPA_E_NOT_FOUND ? job_compile_once(job, kernel) : found;
}

gdpa_status kernel_remake(const gdpa_kernel *refused, const struct driver *driver, gdpa_kernel **kernel,
                          struct sbuf *why)
{
    struct job job;
    job_init(&job, refused->ctx, &refused->spec);
    job.refused = refused;
    const gdpa_status status = job_run_anew(&job, driver, kernel);
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
