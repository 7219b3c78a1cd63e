/*
 * Launching: arguments are checked and packed on the stack, then one call of the driver. Nothing here allocates, locks,
 * logs or reads the environment once a kernel is loaded.
 */
#include "runtime/kernel.h"
#include "runtime/launch_params.h"

#include <inttypes.h>

#define WORKSPACE_ALIGNMENT 256

/* No forward kernel needs any. */
static size_t workspace_bytes_of(const gdpa_kernel *kernel)
{
    (void)kernel;
    return 0;
}

static gdpa_status workspace_check(const gdpa_kernel *kernel, const void *workspace, size_t bytes)
{
    const size_t needed = workspace_bytes_of(kernel);
    if (needed == 0) {
        return GDPA_OK;
    }
    FAIL_IF(workspace == NULL || bytes < needed, GDPA_E_WORKSPACE,
            "the workspace has %zu bytes, but these arguments need %zu; ask gdpa_workspace_size",
            workspace == NULL ? 0 : bytes, needed);
    FAIL_IF((uintptr_t)workspace % WORKSPACE_ALIGNMENT != 0, GDPA_E_WORKSPACE,
            "the workspace %p is not aligned to %d bytes", workspace, WORKSPACE_ALIGNMENT);
    return GDPA_OK;
}

gdpa_status gdpa_workspace_size(gdpa_kernel *kernel, const gdpa_args *args, size_t *bytes)
{
    FAIL_IF(kernel == NULL || bytes == NULL, GDPA_E_ARGUMENT, "%s is NULL", kernel == NULL ? "kernel" : "bytes");
    struct launch_shape shape;
    TRY(launch_shape_fill(&kernel->spec, &kernel->plan, args, &shape));
    *bytes = workspace_bytes_of(kernel);
    return GDPA_OK;
}

static gdpa_status launch_failed(const gdpa_kernel *kernel, int result, const struct launch_config *config)
{
    struct sbuf why;
    sbuf_init(&why, 4096);
    driver_fail(kernel->driver, result, &why,
                "launching %s (%s) with %u x %u blocks of %u threads and %u bytes of shared memory", kernel->name,
                kernel->target, config->grid_x, config->grid_y, config->block_x, config->shared_bytes);
    if (result == CUDA_NO_BINARY_FOR_GPU) {
        sbuf_addstr(&why, "; the stream is on another device than the kernel is for (devices: ");
        driver_list_devices(kernel->driver, &why);
        sbuf_addstr(&why, ")");
    } else if (result == CUDA_INVALID_CONTEXT && config->stream == NULL) {
        sbuf_addstr(&why, "; the NULL stream needs a context that is current on the calling thread: make one current, "
                          "or pass a stream");
    }
    error_set_why(GDPA_E_DRIVER, &why);
    sbuf_deinit(&why);
    return GDPA_E_DRIVER;
}

/*
 * For threads that have no current context. A stream knows its own, and drivers that take it from there never get here.
 */
static int launch_in_context_of_stream(const gdpa_kernel *kernel, const struct launch_config *config,
                                       struct CUkern_st *function, void **parameters)
{
    const struct driver *driver = kernel->driver;
    struct CUctx_st *context = NULL;
    int result = driver->stream_context(config->stream, &context);
    if (result == CUDA_OK) {
        result = driver->context_push(context);
    }
    if (result != CUDA_OK) {
        return result;
    }
    result = driver->launch(config, function, parameters, NULL);
    driver->context_pop(&context);
    return result;
}

/* Tensor maps of the boxes, as the kernel reads them. */
static gdpa_status maps_encode(const gdpa_kernel *kernel, const struct launch_shape *shape,
                               struct gdpa_fwd_sm90_params *params)
{
    static const char *const names[] = {"q", "k", "v"};
    struct gdpa_tensor_map *const maps[] = {&params->q_map, &params->k_map, &params->v_map};
    const struct driver *driver = kernel->driver;
    FAIL_IF(
        driver->tensor_map_encode == NULL, GDPA_E_DRIVER,
        "the driver %s (CUDA %d.%d) has no cuTensorMapEncodeTiled, which kernels of family sm90 need; update it, or "
        "set spec.family to portable",
        driver->path, driver->version / 1000, driver->version % 1000 / 10);
    for (int i = 0; i < TENSOR_BOX_COUNT; i++) {
        const struct tensor_box *box = &shape->boxes[i];
        const uint32_t extents[TENSOR_BOX_RANK] = {TENSOR_BOX_COLUMNS, box->rows, 1, 1};
        const uint32_t steps[TENSOR_BOX_RANK] = {1, 1, 1, 1};
        const int type = box->dtype == GDPA_DTYPE_FP16 ? CUDA_TENSOR_MAP_FLOAT16 : CUDA_TENSOR_MAP_BFLOAT16;
        const int result = driver->tensor_map_encode(maps[i], type, TENSOR_BOX_RANK, (void *)(uintptr_t)box->data,
                                                     box->extents, box->strides, extents, steps, 0,
                                                     CUDA_TENSOR_MAP_SWIZZLE_128B, CUDA_TENSOR_MAP_L2_256B, 0);
        if (result != CUDA_OK) {
            struct sbuf why;
            sbuf_init(&why, 4096);
            driver_fail(driver, result, &why, "no tensor map describes %s, with strides of %llu, %llu and %llu bytes",
                        names[i], (unsigned long long)box->strides[0], (unsigned long long)box->strides[1],
                        (unsigned long long)box->strides[2]);
            sbuf_addstr(&why, "; set spec.unaligned to do without");
            error_set_why(GDPA_E_DRIVER, &why);
            sbuf_deinit(&why);
            return GDPA_E_DRIVER;
        }
    }
    params->common = shape->params;
    return GDPA_OK;
}

static gdpa_status shape_launch(gdpa_kernel *kernel, struct launch_shape *shape, struct CUstream_st *stream)
{
    struct CUkern_st *function = atomic_load_explicit(&kernel->function, memory_order_acquire);
    if (function == NULL) {
        TRY(kernel_load(kernel, stream));
        function = atomic_load_explicit(&kernel->function, memory_order_acquire);
    }
    launch_shape_fit(shape, &kernel->plan, kernel->most_sms);
    struct gdpa_fwd_sm90_params boxed;
    if (shape->boxed) {
        TRY(maps_encode(kernel, shape, &boxed));
    }
    const struct launch_config config = {.grid_x = shape->grid,
                                         .grid_y = shape->grid_y,
                                         .grid_z = 1,
                                         .block_x = shape->block,
                                         .block_y = 1,
                                         .block_z = 1,
                                         .shared_bytes = shape->smem,
                                         .stream = stream};
    void *parameters[] = {shape->boxed ? (void *)&boxed : (void *)&shape->params};
    int result = kernel->driver->launch(&config, function, parameters, NULL);
    if (result == CUDA_INVALID_CONTEXT && stream != NULL) {
        result = launch_in_context_of_stream(kernel, &config, function, parameters);
    }
    if (result != CUDA_OK) {
        return launch_failed(kernel, result, &config);
    }
    counter_add(&kernel->ctx->counters.launches, 1);
    return GDPA_OK;
}

gdpa_status gdpa_launch(gdpa_kernel *kernel, const gdpa_args *args, void *workspace, size_t workspace_bytes,
                        struct CUstream_st *stream)
{
    FAIL_IF(kernel == NULL, GDPA_E_ARGUMENT, "kernel is NULL");
    struct launch_shape shape;
    TRY(launch_shape_fill(&kernel->spec, &kernel->plan, args, &shape));
    TRY(workspace_check(kernel, workspace, workspace_bytes));
    return shape.grid == 0 ? GDPA_OK : shape_launch(kernel, &shape, stream);
}
