/*
 * Looking at kernels: their source, plan, PTX, code and log, from memory, from the generator or from the disk cache.
 */
#include "gen/assemble.h"
#include "runtime/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ARTIFACT_LIMIT ((size_t)256 << 20)

static const char *artifact_name(gdpa_artifact what)
{
    static const char *const names[] = {"", "source", "plan", "PTX", "cubin", "compiler log"};
    return names[what];
}

static gdpa_status artifact_check(gdpa_artifact what)
{
    const int number = (int)what;
    FAIL_IF(number < GDPA_ARTIFACT_SOURCE || number > GDPA_ARTIFACT_LOG, GDPA_E_ARGUMENT,
            "what is %d; legal are GDPA_ARTIFACT_SOURCE (%d) to GDPA_ARTIFACT_LOG (%d)", number, GDPA_ARTIFACT_SOURCE,
            GDPA_ARTIFACT_LOG);
    return GDPA_OK;
}

gdpa_status bytes_give(const char *what, const void *bytes, size_t size, bool final_zero, void *data, size_t capacity,
                       size_t *length)
{
    const size_t needed = size + final_zero;
    if (length != NULL) {
        *length = size;
    }
    FAIL_IF(needed > capacity, GDPA_E_BUFFER, "the %s has %zu bytes, but the buffer only %zu", what, needed, capacity);
    FAIL_IF(data == NULL && needed > 0, GDPA_E_ARGUMENT, "the buffer is NULL, but its capacity %zu", capacity);
    if (size > 0) {
        memcpy(data, bytes, size);
    }
    if (final_zero) {
        ((char *)data)[size] = '\0';
    }
    return GDPA_OK;
}

/* Artifacts: texts get a final 0 when there is room. */
static gdpa_status artifact_give(gdpa_artifact what, const struct sbuf *bytes, void *data, size_t capacity,
                                 size_t *length)
{
    FAIL_IF(bytes->overflow, GDPA_E_MEMORY, "no memory for the %s", artifact_name(what));
    TRY(bytes_give(artifact_name(what), bytes->text, bytes->length, false, data, capacity, length));
    if (what != GDPA_ARTIFACT_CUBIN && capacity > bytes->length) {
        ((char *)data)[bytes->length] = '\0';
    }
    return GDPA_OK;
}

static gdpa_status generated(const gdpa_spec *spec, const struct kernel_plan *plan, gdpa_artifact what,
                             struct sbuf *bytes, struct sbuf *why)
{
    return what == GDPA_ARTIFACT_SOURCE ? source_generate(spec, plan, bytes, why) : plan_print(spec, bytes, why);
}

static gdpa_status from_disk(const gdpa_kernel *kernel, gdpa_artifact what, struct sbuf *bytes, struct sbuf *why)
{
    struct cache *cache = context_cache(kernel->ctx);
    struct cache_entry entry;
    bool found = false;
    if (cache != NULL && cache_get(cache, &kernel->disk_key, NULL, 0, true, &entry) == CACHE_OK) {
        const struct cache_bytes *part = &entry.aux[what == GDPA_ARTIFACT_PTX ? CACHE_AUX_PTX : CACHE_AUX_LOG];
        found = part->data != NULL;
        if (found) {
            sbuf_add(bytes, part->data, part->size);
        }
        cache_entry_deinit(&entry);
    }
    return found ? GDPA_OK
                 : fail(why, GDPA_E_NOT_FOUND, "the %s of %s was not kept (cache: %s)", artifact_name(what),
                        kernel->name, context_cache_absence(kernel->ctx));
}

gdpa_status kernel_artifact(gdpa_kernel *kernel, gdpa_artifact what, struct sbuf *bytes, struct sbuf *why)
{
    const gdpa_kernel *facts = kernel_facts(kernel);
    const char *kept = NULL;
    size_t size = 0;
    switch (what) {
    case GDPA_ARTIFACT_SOURCE:
    case GDPA_ARTIFACT_PLAN:
        return generated(&kernel->spec, &kernel->plan, what, bytes, why);
    case GDPA_ARTIFACT_PTX:
        kept = facts->ptx, size = facts->ptx_size;
        break;
    case GDPA_ARTIFACT_LOG:
        kept = facts->log, size = facts->log_size;
        break;
    case GDPA_ARTIFACT_CUBIN:
        kept = facts->code, size = facts->code_size;
        break;
    }
    if (kept == NULL) {
        return from_disk(facts, what, bytes, why);
    }
    sbuf_add(bytes, kept, size);
    return GDPA_OK;
}

/* Hands out what was made, or says why not; the end of both public calls. */
static gdpa_status artifact_finish(gdpa_status status, gdpa_artifact what, struct sbuf *bytes, struct sbuf *why,
                                   void *data, size_t capacity, size_t *length)
{
    if (status == GDPA_OK) {
        status = artifact_give(what, bytes, data, capacity, length);
    } else {
        error_set_why(status, why);
    }
    sbuf_deinit(bytes);
    sbuf_deinit(why);
    return status;
}

gdpa_status gdpa_kernel_artifact(gdpa_kernel *kernel, gdpa_artifact what, void *data, size_t capacity, size_t *length)
{
    FAIL_IF(kernel == NULL, GDPA_E_ARGUMENT, "kernel is NULL");
    TRY(artifact_check(what));
    struct sbuf bytes, why;
    sbuf_init(&bytes, ARTIFACT_LIMIT);
    sbuf_init(&why, WHY_LIMIT);
    const gdpa_status status = kernel_artifact(kernel, what, &bytes, &why);
    return artifact_finish(status, what, &bytes, &why, data, capacity, length);
}

static gdpa_status generate(const gdpa_spec *spec, gdpa_artifact what, struct sbuf *bytes, struct sbuf *why)
{
    gdpa_spec normalised;
    struct kernel_plan plan;
    TRY(spec_normalise(spec, false, &normalised, why));
    TRY(plan_make(&normalised, &plan, NULL, why));
    return generated(&normalised, &plan, what, bytes, why);
}

gdpa_status gdpa_generate(const gdpa_spec *spec, gdpa_artifact what, char *text, size_t capacity, size_t *length)
{
    FAIL_IF(spec == NULL, GDPA_E_ARGUMENT, "spec is NULL");
    TRY(artifact_check(what));
    FAIL_IF(what != GDPA_ARTIFACT_SOURCE && what != GDPA_ARTIFACT_PLAN, GDPA_E_ARGUMENT,
            "the %s needs a compiler; gdpa_generate makes source and plan, gdpa_kernel_artifact gives the others",
            artifact_name(what));
    struct sbuf bytes, why;
    sbuf_init(&bytes, ARTIFACT_LIMIT);
    sbuf_init(&why, WHY_LIMIT);
    const gdpa_status status = generate(spec, what, &bytes, &why);
    return artifact_finish(status, what, &bytes, &why, text, capacity, length);
}

/* ---------------------------------------------------------------------------------------------------------------
 * GDPAJIT_DUMP
 * ------------------------------------------------------------------------------------------------------------- */

static bool file_write(const char *path, const struct sbuf *bytes)
{
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0) {
        return false;
    }
    size_t done = 0;
    while (done < bytes->length) {
        const ssize_t count = write(file, bytes->text + done, bytes->length - done);
        if (count <= 0) {
            break;
        }
        done += (size_t)count;
    }
    return close(file) == 0 && done == bytes->length;
}

void kernel_dump(gdpa_kernel *kernel, const char *folder)
{
    static const char *const endings[] = {"", "cu", "plan", "ptx", "cubin", "log"};
    mkdir(folder, 0777);
    for (int what = GDPA_ARTIFACT_SOURCE; what <= GDPA_ARTIFACT_LOG; what++) {
        char path[4096];
        struct sbuf bytes;
        sbuf_init(&bytes, ARTIFACT_LIMIT);
        const bool there = kernel_artifact(kernel, (gdpa_artifact)what, &bytes, NULL) == GDPA_OK;
        const bool named =
            (size_t)snprintf(path, sizeof path, "%s/%s.%s", folder, kernel->name, endings[what]) < sizeof path;
        if (there && (!named || !file_write(path, &bytes))) {
            log_write(&kernel->ctx->log, GDPA_LOG_WARN, LOG_CONTEXT, "GDPAJIT_DUMP: cannot write %s: %s", path,
                      strerror(named ? errno : ENAMETOOLONG));
        }
        sbuf_deinit(&bytes);
    }
}
