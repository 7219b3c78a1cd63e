/*
 * Kernels are loaded into the driver once. Code that the driver refuses is made anew, once, and by an older NVRTC where
 * the one that made it is newer than the driver.
 */
#include "gen/body.h"
#include "runtime/kernel_job.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define STATIC_SHARED_LIMIT (48 * 1024) /* what a block may use without asking */

/* One attempt to load. */
struct load {
    gdpa_kernel *kernel;
    struct driver *driver;
    struct CUstream_st *stream;
    bool refused; /* it is the code that the driver does not take */
};

static bool is_refusal(int result)
{
    return result == CUDA_INVALID_IMAGE || result == CUDA_NO_BINARY_FOR_GPU || result == CUDA_INVALID_SOURCE ||
           result == CUDA_UNSUPPORTED_PTX_VERSION || result == CUDA_NOT_FOUND;
}

/*
 * Attributes belong to a (kernel, device) pair and their setting takes locks inside the driver: so they are set here, on
 * every device that can run the code, and a launch needs not to know which device it is for.
 */
static gdpa_status attributes_set(struct load *load, struct CUkern_st *function, int bytes, struct sbuf *why)
{
    gdpa_kernel *kernel = load->kernel;
    const struct driver *driver = load->driver;
    const struct arch_row *row = arch_find(kernel->spec.arch);
    const struct log *log = &kernel->ctx->log;
    int running = 0, set = 0;
    bool refused = false;
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
        refused = refused || is_refusal(result);
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
    load->refused = set == 0 && refused;
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
static gdpa_status function_find(struct load *load, const char *name, int bytes, struct CUkern_st **function,
                                 struct sbuf *why)
{
    const struct driver *driver = load->driver;
    const int result = driver->library_kernel(function, load->kernel->library, name);
    if (result != CUDA_OK) {
        load->refused = is_refusal(result);
        return driver_fail(driver, result, why, "the driver %s (CUDA %d.%d) does not find %s in its own code",
                           driver->path, driver->version / 1000, driver->version % 1000 / 10, name);
    }
    return attributes_set(load, *function, bytes, why);
}

static gdpa_status functions_find(struct load *load, struct CUkern_st **function, struct sbuf *why)
{
    gdpa_kernel *kernel = load->kernel;
    TRY(function_find(load, kernel->name, kernel->plan.smem_bytes, function, why));
    const char *suffix = second_entry_suffix(&kernel->spec);
    if (suffix == NULL) {
        return GDPA_OK;
    }
    char name[512];
    snprintf(name, sizeof name, "%s%s", kernel->name, suffix);
    const int32_t bytes = kernel->spec.pass == GDPA_PASS_BACKWARD ? kernel->plan.dq_smem_bytes : kScheduleSmemBytes;
    return function_find(load, name, bytes, &kernel->second, why);
}

/* Of the code that counts. */
static gdpa_status library_load(struct load *load, struct sbuf *why)
{
    gdpa_kernel *kernel = load->kernel;
    const struct driver *driver = load->driver;
    const gdpa_kernel *facts = kernel->remade != NULL ? kernel->remade : kernel;
    struct CUkern_st *function = NULL;
    const int result = driver->library_load(&kernel->library, facts->code, NULL, NULL, 0, NULL, NULL, 0);
    if (result != CUDA_OK) {
        kernel->library = NULL;
        load->refused = is_refusal(result);
        return driver_fail(driver, result, why, "the driver %s (CUDA %d.%d) does not load %s, made for %s by NVRTC %s",
                           driver->path, driver->version / 1000, driver->version % 1000 / 10, kernel->name,
                           kernel->target, facts->nvrtc);
    }
    const gdpa_status status = functions_find(load, &function, why);
    if (status != GDPA_OK) {
        driver->library_unload(kernel->library);
        kernel->library = NULL;
        return status;
    }
    function_load_now(driver, function, load->stream);
    if (kernel->second != NULL) {
        function_load_now(driver, kernel->second, load->stream);
    }
    kernel->driver = load->driver;
    atomic_store_explicit(&kernel->function, function, memory_order_release);
    return GDPA_OK;
}

/* What may help against a refusal, after its reason; `trouble` is why no other code was made, or empty. */
static void refusal_explain(const struct load *load, const struct sbuf *trouble, struct sbuf *why)
{
    const struct driver *driver = load->driver;
    const gdpa_kernel *kernel = load->kernel;
    const char *nvrtc = kernel->remade != NULL ? kernel->remade->nvrtc : kernel->nvrtc;
    if (trouble->length == 0) {
        sbuf_addstr(why, "; it was compiled anew, and is refused again");
    }
    if (driver->version != 0 && nvrtc_number(nvrtc) > driver->version) {
        sbuf_addf(why,
                  "; NVRTC %s is newer than the driver, which may be why: install a driver of CUDA %s or later, or "
                  "name an NVRTC of CUDA %d.%d or older with GDPAJIT_NVRTC",
                  nvrtc, nvrtc, driver->version / 1000, driver->version % 1000 / 10);
    } else {
        sbuf_addstr(why,
                    "; the code is whole and for this target, so look at the driver: gdpa-jit doctor shows it, and "
                    "another version of it may help");
    }
    if (trouble->length > 0) {
        sbuf_addf(why, ". It cannot be compiled anew: %s", trouble->text);
    }
}

/* Code that the driver does not take is made anew, once. */
static gdpa_status library_load_or_remake(struct load *load, struct sbuf *why)
{
    gdpa_kernel *kernel = load->kernel;
    struct sbuf trouble;
    gdpa_status status = library_load(load, why);
    if (!load->refused) {
        return status;
    }
    sbuf_init(&trouble, WHY_LIMIT);
    if (kernel->remade == NULL && kernel_remake(kernel, load->driver, &kernel->remade, &trouble) == GDPA_OK) {
        log_write(&kernel->ctx->log, GDPA_LOG_WARN, LOG_DRIVER, "%s; compiled anew by NVRTC %s", why->text,
                  kernel->remade->nvrtc);
        load->refused = false;
        status = library_load(load, why);
    }
    if (load->refused) {
        refusal_explain(load, &trouble, why);
    }
    sbuf_deinit(&trouble);
    return status;
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
    struct load load = {.kernel = kernel, .driver = driver, .stream = stream};
    const gdpa_status status = library_load_or_remake(&load, why);
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
