/*
 * Kernels: made from code, loaded into the driver once, counted, freed with their context.
 */
#include "runtime/kernel.h"
#include "gen/body.h"
#include "runtime/process.h"
#include "runtime/structs.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define STATIC_SHARED_LIMIT (48 * 1024) /* what a block may use without asking */

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

/* ---------------------------------------------------------------------------------------------------------------
 * Loading
 * ------------------------------------------------------------------------------------------------------------- */

/*
 * Attributes belong to a (kernel, device) pair and their setting takes locks inside the driver: so they are set here, on
 * every device that can run the code, and a launch needs not to know which device it is for.
 */
static gdpa_status attributes_set(gdpa_kernel *kernel, const struct driver *driver, struct CUkern_st *function,
                                  int bytes, struct sbuf *why)
{
    const struct arch_row *row = arch_find(kernel->spec.arch);
    const struct log *log = &kernel->ctx->log;
    int running = 0, set = 0;
    gdpa_status status = GDPA_OK;
    for (int i = 0; i < driver->device_total; i++) {
        const struct device *device = &driver->devices[i];
        if (!device_runs(device, row)) {
            continue;
        }
        running++;
        kernel->most_sms = device->sms > (int)kernel->most_sms ? (uint32_t)device->sms : kernel->most_sms;
        const int result = bytes <= STATIC_SHARED_LIMIT
                               ? CUDA_OK
                               : driver->kernel_set(CUDA_KERNEL_MAX_DYNAMIC_SHARED, bytes, function, device->handle);
        if (result == CUDA_OK) {
            set++;
            continue;
        }
        status = driver_fail(driver, result, why, "%s cannot have %d bytes of shared memory on device %d (%s)",
                             kernel->name, bytes, i, device->name);
        log_write(log, GDPA_LOG_WARN, LOG_DRIVER, "%s", why->text);
    }
    if (running == 0) {
        fail(why, GDPA_E_NO_DRIVER, "%s is code for %s, which no device here runs (", kernel->name, kernel->target);
        driver_list_devices(driver, why);
        sbuf_addstr(why, "); leave spec.arch 0 to get a kernel for the device in use");
        return GDPA_E_NO_DRIVER;
    }
    return set > 0 ? GDPA_OK : status;
}

/*
 * The driver puts code on a device at its first launch there. Done beforehand in the context that the launch will use,
 * first launches are as fast as later ones, and legal inside a stream capture. Where this fails the launch still works.
 */
static void function_load_now(const struct driver *driver, struct CUkern_st *kernel, struct CUstream_st *stream)
{
    struct CUctx_st *context = NULL;
    void *function = NULL;
    int device = 0;
    if (driver->kernel_function == NULL || driver->function_load == NULL) {
        return;
    }
    const bool pushed = stream != NULL && driver->stream_context(stream, &context) == CUDA_OK && context != NULL &&
                        driver->context_push(context) == CUDA_OK;
    if ((pushed || driver->current_device(&device) == CUDA_OK) &&
        driver->kernel_function(&function, kernel) == CUDA_OK) {
        driver->function_load(function);
    }
    if (pushed) {
        driver->context_pop(&context);
    }
}

/* A function of the loaded library, ready to be launched with so many bytes of dynamic shared memory. */
static gdpa_status function_find(gdpa_kernel *kernel, const struct driver *driver, const char *name, int bytes,
                                 struct CUkern_st **function, struct sbuf *why)
{
    const int result = driver->library_kernel(function, kernel->library, name);
    if (result != CUDA_OK) {
        return driver_fail(driver, result, why, "the driver does not find %s in its own code", name);
    }
    return attributes_set(kernel, driver, *function, bytes, why);
}

static gdpa_status functions_find(gdpa_kernel *kernel, const struct driver *driver, struct CUkern_st **function,
                                  struct sbuf *why)
{
    TRY(function_find(kernel, driver, kernel->name, kernel->plan.smem_bytes, function, why));
    if (kernel->spec.pass != GDPA_PASS_BACKWARD) {
        return GDPA_OK;
    }
    char name[512];
    snprintf(name, sizeof name, "%s" SECOND_ENTRY_SUFFIX, kernel->name);
    return function_find(kernel, driver, name, kernel->plan.dq_smem_bytes, &kernel->second, why);
}

static gdpa_status library_load(gdpa_kernel *kernel, struct driver *driver, struct CUstream_st *stream,
                                struct sbuf *why)
{
    struct CUkern_st *function = NULL;
    const int result = driver->library_load(&kernel->library, kernel->code, NULL, NULL, 0, NULL, NULL, 0);
    if (result != CUDA_OK) {
        kernel->library = NULL;
        return driver_fail(driver, result, why, "the driver %s (CUDA %d.%d) does not load %s, made for %s by NVRTC %s",
                           driver->path, driver->version / 1000, driver->version % 1000 / 10, kernel->name,
                           kernel->target, kernel->nvrtc);
    }
    const gdpa_status status = functions_find(kernel, driver, &function, why);
    if (status != GDPA_OK) {
        driver->library_unload(kernel->library);
        kernel->library = NULL;
        return status;
    }
    function_load_now(driver, function, stream);
    if (kernel->second != NULL) {
        function_load_now(driver, kernel->second, stream);
    }
    kernel->driver = driver;
    atomic_store_explicit(&kernel->function, function, memory_order_release);
    return GDPA_OK;
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* A context that wants no surprise in a capture; drivers that cannot say whether a stream captures get the benefit. */
static gdpa_status capture_check(const gdpa_kernel *kernel, const struct driver *driver, struct CUstream_st *stream,
                                 struct sbuf *why)
{
    int capturing = CUDA_CAPTURE_NONE;
    if (kernel->ctx->capture != GDPA_CAPTURE_STRICT || driver->is_capturing == NULL ||
        driver->is_capturing(stream, &capturing) != CUDA_OK || capturing == CUDA_CAPTURE_NONE) {
        return GDPA_OK;
    }
    return fail(why, GDPA_E_CAPTURE,
                "the stream captures, and %s (\"%s\") is not loaded yet: capture strict does not load then, and the "
                "capture is left as it is; call gdpa_kernel_prepare before the capture, or launch once outside of it",
                kernel->name, kernel->spec_text);
}

/* With the lock held, not yet loaded. Loading is not a stream operation, so it is allowed while the thread captures. */
static gdpa_status load_first(gdpa_kernel *kernel, struct CUstream_st *stream, struct sbuf *why)
{
    struct driver *driver = NULL;
    TRY(context_devices(kernel->ctx, &driver, why));
    TRY(capture_check(kernel, driver, stream, why));
    const int64_t start = now_ns();
    int mode = CUDA_CAPTURE_RELAXED;
    const bool relaxed = driver->capture_mode(&mode) == CUDA_OK;
    const gdpa_status status = library_load(kernel, driver, stream, why);
    if (relaxed) {
        driver->capture_mode(&mode);
    }
    TRY(status);
    const int64_t nanoseconds = now_ns() - start;
    kernel->load_ms = (double)nanoseconds * 1e-6;
    counter_add(&kernel->ctx->counters.load_ns, (uint64_t)nanoseconds);
    log_write(&kernel->ctx->log, GDPA_LOG_DEBUG, LOG_DRIVER, "event=load name=%s ms=%.3f", kernel->name,
              kernel->load_ms);
    return GDPA_OK;
}

gdpa_status kernel_load(gdpa_kernel *kernel, struct CUstream_st *stream)
{
    struct sbuf why;
    sbuf_init(&why, WHY_LIMIT);
    gdpa_status status = GDPA_OK;
    pthread_mutex_lock(&kernel->load_lock);
    if (atomic_load_explicit(&kernel->function, memory_order_relaxed) == NULL) {
        status = load_first(kernel, stream, &why);
    }
    pthread_mutex_unlock(&kernel->load_lock);
    if (status != GDPA_OK) {
        error_set_why(status, &why);
    }
    sbuf_deinit(&why);
    return status;
}

gdpa_status gdpa_kernel_prepare(gdpa_kernel *kernel)
{
    FAIL_IF(kernel == NULL, GDPA_E_ARGUMENT, "kernel is NULL");
    return kernel_load(kernel, NULL);
}

gdpa_status gdpa_kernel_info_get(gdpa_kernel *kernel, gdpa_kernel_info *info)
{
    FAIL_IF(kernel == NULL || info == NULL, GDPA_E_ARGUMENT, "%s is NULL", kernel == NULL ? "kernel" : "info");
    pthread_mutex_lock(&kernel->load_lock);
    const double load_ms = kernel->load_ms;
    pthread_mutex_unlock(&kernel->load_lock);
    const gdpa_kernel_info own = {.size = sizeof own,
                                  .name = kernel->name,
                                  .spec = kernel->spec_text,
                                  .target = kernel->target,
                                  .key = kernel->key,
                                  .source_hash = kernel->source_hash,
                                  .origin = kernel->origin,
                                  .nvrtc = kernel->nvrtc,
                                  .registers = kernel->resources.registers,
                                  .spill_bytes = kernel->resources.spill_bytes,
                                  .stack_bytes = kernel->resources.stack_bytes,
                                  .smem_static = kernel->resources.smem_static,
                                  .smem_dynamic = kernel->plan.smem_bytes,
                                  .threads = kernel->plan.threads,
                                  .binary_bytes = (int32_t)kernel->code_size,
                                  .generate_ms = kernel->generate_ms,
                                  .compile_ms = kernel->compile_ms,
                                  .load_ms = load_ms};
    return struct_write(&rule_kernel_info, &own, info);
}
