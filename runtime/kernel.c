/*
 * Kernels: made from code, counted, freed with their context. Loading is in kernel_load.c.
 */
#include "runtime/kernel.h"
#include "gen/body.h"
#include "runtime/process.h"
#include "runtime/structs.h"

#include <string.h>

/* ---------------------------------------------------------------------------------------------------------------
 * Making and freeing
 * ------------------------------------------------------------------------------------------------------------- */

static bool parts_copy(gdpa_kernel *kernel, const gdpa_allocator *allocator, const struct kernel_parts *parts)
{
    kernel->name = memory_text(allocator, parts->name);
    kernel->spec_text = memory_text(allocator, parts->spec_text);
    kernel->nvrtc = memory_text(allocator, parts->nvrtc);
    kernel->code = memory_copy(allocator, parts->code, parts->code_size);
    kernel->code_size = parts->code_size;
    if (parts->ptx != NULL) {
        kernel->ptx = memory_copy(allocator, parts->ptx, parts->ptx_size);
        kernel->ptx_size = parts->ptx_size;
    }
    if (parts->log != NULL) {
        kernel->log = memory_copy(allocator, parts->log, parts->log_size);
        kernel->log_size = parts->log_size;
    }
    return kernel->name != NULL && kernel->spec_text != NULL && kernel->nvrtc != NULL && kernel->code != NULL &&
           (kernel->ptx != NULL || parts->ptx == NULL) && (kernel->log != NULL || parts->log == NULL);
}

gdpa_kernel *kernel_make(gdpa_ctx *ctx, const struct kernel_parts *parts)
{
    gdpa_kernel *kernel = memory_alloc(&ctx->allocator, sizeof *kernel);
    if (kernel == NULL) {
        return NULL;
    }
    kernel->number = process_number();
    kernel->ctx = ctx;
    kernel->spec = *parts->spec;
    kernel->plan = *parts->plan;
    launch_quick_make(parts->spec, parts->plan, &kernel->quick);
    kernel->target = parts->target;
    kernel->origin = parts->origin;
    kernel->disk_key = *parts->disk_key;
    kernel->resources = *parts->resources;
    kernel->generate_ms = parts->generate_ms;
    kernel->compile_ms = parts->compile_ms;
    cache_key_hex(parts->disk_key, kernel->key);
    memcpy(kernel->source_hash, parts->source_hash, sizeof kernel->source_hash);
    atomic_init(&kernel->function, NULL);
    atomic_init(&kernel->references, 0);
    pthread_mutex_init(&kernel->load_lock, NULL);
    if (!parts_copy(kernel, &ctx->allocator, parts)) {
        kernel_free(kernel);
        return NULL;
    }
    return kernel;
}

/* Other threads may be capturing. Fails harmlessly while the process ends. */
static void library_unload(gdpa_kernel *kernel)
{
    const struct driver *driver = kernel->driver;
    int mode = CUDA_CAPTURE_RELAXED;
    const bool relaxed = driver->capture_mode(&mode) == CUDA_OK;
    driver->library_unload(kernel->library);
    if (relaxed) {
        driver->capture_mode(&mode);
    }
    kernel->library = NULL;
}

void kernel_free(gdpa_kernel *kernel)
{
    const gdpa_allocator *allocator = &kernel->ctx->allocator;
    if (kernel->library != NULL) {
        library_unload(kernel);
    }
    if (kernel->remade != NULL) {
        kernel_free(kernel->remade);
    }
    memory_free(allocator, kernel->name);
    memory_free(allocator, kernel->spec_text);
    memory_free(allocator, kernel->nvrtc);
    memory_free(allocator, kernel->code);
    memory_free(allocator, kernel->ptx);
    memory_free(allocator, kernel->log);
    pthread_mutex_destroy(&kernel->load_lock);
    memory_free(allocator, kernel);
}

/* What the parent loaded belongs to a CUDA that this process does not have: not even unloading it is allowed. */
void kernel_in_child(gdpa_kernel *kernel)
{
    pthread_mutex_init(&kernel->load_lock, NULL);
    atomic_store_explicit(&kernel->function, NULL, memory_order_relaxed);
    kernel->second = NULL;
    kernel->library = NULL;
}

bool kernel_unload(gdpa_kernel *kernel, bool unload)
{
    pthread_mutex_lock(&kernel->load_lock);
    const bool loaded = kernel->library != NULL;
    atomic_store_explicit(&kernel->function, NULL, memory_order_release);
    if (loaded && unload) {
        library_unload(kernel);
    }
    kernel->library = NULL;
    pthread_mutex_unlock(&kernel->load_lock);
    return loaded;
}

const gdpa_kernel *kernel_facts(gdpa_kernel *kernel)
{
    pthread_mutex_lock(&kernel->load_lock);
    const gdpa_kernel *facts = kernel->remade != NULL ? kernel->remade : kernel;
    pthread_mutex_unlock(&kernel->load_lock);
    return facts;
}

bool kernel_code_is(const gdpa_kernel *kernel, const void *code, size_t size)
{
    return kernel != NULL && kernel->code_size == size && memcmp(kernel->code, code, size) == 0;
}

/* A kernel that somebody holds keeps its context; one that nobody holds stays in it. */
gdpa_kernel *gdpa_kernel_retain(gdpa_kernel *kernel)
{
    if (kernel != NULL && atomic_fetch_add_explicit(&kernel->references, 1, memory_order_relaxed) == 0) {
        context_retain(kernel->ctx);
    }
    return kernel;
}

void gdpa_kernel_release(gdpa_kernel *kernel)
{
    if (kernel != NULL && atomic_fetch_sub_explicit(&kernel->references, 1, memory_order_acq_rel) == 1) {
        context_release(kernel->ctx);
    }
}

gdpa_status gdpa_kernel_prepare(gdpa_kernel *kernel)
{
    FAIL_IF(kernel == NULL, GDPA_E_ARGUMENT, "kernel is NULL");
    return kernel_load(kernel, NULL);
}

gdpa_status gdpa_kernel_info_get(gdpa_kernel *kernel, gdpa_kernel_info *info)
{
    FAIL_IF(kernel == NULL || info == NULL, GDPA_E_ARGUMENT, "%s is NULL", kernel == NULL ? "kernel" : "info");
    const gdpa_kernel *facts = kernel_facts(kernel);
    pthread_mutex_lock(&kernel->load_lock);
    const double load_ms = kernel->load_ms;
    pthread_mutex_unlock(&kernel->load_lock);
    const gdpa_kernel_info own = {.size = sizeof own,
                                  .name = kernel->name,
                                  .spec = kernel->spec_text,
                                  .target = kernel->target,
                                  .key = facts->key,
                                  .source_hash = kernel->source_hash,
                                  .origin = facts->origin,
                                  .nvrtc = facts->nvrtc,
                                  .registers = facts->resources.registers,
                                  .spill_bytes = facts->resources.spill_bytes,
                                  .stack_bytes = facts->resources.stack_bytes,
                                  .smem_static = facts->resources.smem_static,
                                  .smem_dynamic = kernel->plan.smem_bytes,
                                  .threads = kernel->plan.threads,
                                  .binary_bytes = (int32_t)facts->code_size,
                                  .generate_ms = facts->generate_ms,
                                  .compile_ms = facts->compile_ms,
                                  .load_ms = load_ms};
    return struct_write(&rule_kernel_info, &own, info);
}
