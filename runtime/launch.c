/*
 * Launching: arguments are checked and packed on the stack, then the driver is called, once for each
 * kernel and for a workspace to be cleared. Nothing here allocates, locks,
 * logs or reads the environment once a kernel is loaded and the thread has its block (thread.h).
 */
#include "runtime/backward_params.h"
#include "runtime/kernel.h"
#include "runtime/launch_params.h"
#include "runtime/thread.h"

#include <inttypes.h>

#define WORKSPACE_ALIGNMENT 256

static gdpa_status schedule_check(size_t needed, const void *schedule, size_t bytes)
{
    FAIL_IF(schedule == NULL, GDPA_E_WORKSPACE,
            "schedule is NULL, but the batch needs one of %zu bytes (gdpa_schedule_size)", needed);
    FAIL_IF(bytes < needed, GDPA_E_WORKSPACE,
            "the schedule has %zu bytes, but the batch needs %zu; ask gdpa_schedule_size", bytes, needed);
    FAIL_IF((uintptr_t)schedule % WORKSPACE_ALIGNMENT != 0, GDPA_E_WORKSPACE,
            "the schedule %p is not aligned to %d bytes", schedule, WORKSPACE_ALIGNMENT);
    return GDPA_OK;
}

static gdpa_status workspace_check(size_t needed, const void *workspace, size_t bytes)
{
    if (needed == 0) {
        return GDPA_OK;
    }
    FAIL_IF(workspace == NULL || bytes < needed, GDPA_E_WORKSPACE,
            "the workspace has %zu bytes, but these arguments need %zu; ask gdpa_workspace_size or "
            "gdpa_backward_workspace_size",
            workspace == NULL ? 0 : bytes, needed);
    FAIL_IF((uintptr_t)workspace % WORKSPACE_ALIGNMENT != 0, GDPA_E_WORKSPACE,
            "the workspace %p is not aligned to %d bytes", workspace, WORKSPACE_ALIGNMENT);
    return GDPA_OK;
}

/* In the caller's schedule, if it gave one, else in the workspace, where it is made first. */
static gdpa_status schedule_place(struct launch_shape *shape, void *workspace, size_t bytes, bool *to_be_made)
{
    *to_be_made = shape->params.schedule == NULL;
    if (!*to_be_made) {
        return schedule_check(shape->schedule, shape->params.schedule, shape->schedule_given);
    }
    FAIL_IF(workspace == NULL, GDPA_E_WORKSPACE,
            "schedule zigzag and dynamic find their tiles in a schedule of %zu bytes on the device: set args.schedule "
            "(gdpa_schedule_build), or give gdpa_launch a workspace to make one in",
            shape->schedule);
    TRY(workspace_check(shape->schedule, workspace, bytes));
    shape->params.schedule = workspace;
    return GDPA_OK;
}

gdpa_status gdpa_workspace_size(gdpa_kernel *kernel, const gdpa_args *args, size_t *bytes)
{
    FAIL_IF(kernel == NULL || bytes == NULL, GDPA_E_ARGUMENT, "%s is NULL", kernel == NULL ? "kernel" : "bytes");
    if (kernel->spec.pass == GDPA_PASS_BACKWARD) {
        struct backward_shape shape;
        TRY(backward_shape_fill(&kernel->spec, &kernel->plan, args, &shape));
        *bytes = shape.workspace;
        return GDPA_OK;
    }
    struct launch_shape shape;
    TRY(launch_shape_fill(&kernel->spec, &kernel->plan, args, &shape));
    *bytes = shape.params.schedule == NULL && shape.grid > 0 ? shape.schedule : 0;
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
    } else if (result == CUDA_CONTEXT_IS_DESTROYED || result == CUDA_INVALID_HANDLE) {
        sbuf_addstr(&why, "; after a device was reset or a context destroyed, call gdpa_ctx_reset");
    }
    error_set_why(GDPA_E_DRIVER, &why);
    sbuf_deinit(&why);
    return GDPA_E_DRIVER;
}

/* What is queued one behind the other: a fill of memory, when it has any words, then launches. */
struct queue {
    uint64_t words_at; /* device address */
    size_t words;
    int count;
    struct {
        struct launch_config config;
        struct CUkern_st *function;
        void *parameters;
    } launches[2];
};

/* *failed: the launch that the result is of; the first one for a fill. */
static int queue_run(const struct driver *driver, struct queue *queue, struct CUstream_st *stream, int *failed)
{
    int result = CUDA_OK;
    *failed = 0;
    if (queue->words > 0) {
        result = driver->fill_words(queue->words_at, 0, queue->words, stream);
    }
    for (int i = 0; i < queue->count && result == CUDA_OK; i++) {
        void *parameters[] = {queue->launches[i].parameters};
        *failed = i;
        result = driver->launch(&queue->launches[i].config, queue->launches[i].function, parameters, NULL);
    }
    return result;
}

/*
 * For threads that have no current context. A stream knows its own, and drivers that take it from there never get here.
 */
static int queue_run_in_context_of_stream(const struct driver *driver, struct queue *queue, struct CUstream_st *stream,
                                          int *failed)
{
    struct CUctx_st *context = NULL;
    int result = driver->stream_context(stream, &context);
    if (result == CUDA_OK) {
        result = driver->context_push(context);
    }
    if (result != CUDA_OK) {
        return result;
    }
    result = queue_run(driver, queue, stream, failed);
    driver->context_pop(&context);
    return result;
}

static void queue_add(struct queue *queue, struct CUkern_st *function, void *parameters,
                      const struct launch_config *config)
{
    queue->launches[queue->count].config = *config;
    queue->launches[queue->count].function = function;
    queue->launches[queue->count].parameters = parameters;
    queue->count++;
}

/* By the thread that launches, so that threads do not wait for each other's counting. */
static void launches_count(const gdpa_kernel *kernel, struct thread_block *own, int count)
{
    if (own == NULL) {
        counter_add(&kernel->ctx->counters.launches, (uint64_t)count);
        return;
    }
    atomic_uint_fast64_t *launches = &thread_counts_get(own, kernel->ctx->number)->launches;
    for (int i = 0; i < count; i++) {
        thread_count(launches);
    }
}

static gdpa_status queue_send(gdpa_kernel *kernel, struct queue *queue, struct CUstream_st *stream)
{
    int failed = 0;
    int result = queue_run(kernel->driver, queue, stream, &failed);
    if (result == CUDA_INVALID_CONTEXT && stream != NULL) {
        result = queue_run_in_context_of_stream(kernel->driver, queue, stream, &failed);
    }
    if (result != CUDA_OK) {
        return launch_failed(kernel, result, &queue->launches[failed].config);
    }
    launches_count(kernel, thread_block_get(), queue->count);
    return GDPA_OK;
}

/* Tensor maps of boxes of the tensors with these names, as the kernel reads them. */
static gdpa_status maps_encode(const gdpa_kernel *kernel, const struct tensor_box *boxes, const char *const *names,
                               int count, struct gdpa_tensor_map *maps)
{
    const struct driver *driver = kernel->driver;
    FAIL_IF(
        driver->tensor_map_encode == NULL, GDPA_E_DRIVER,
        "the driver %s (CUDA %d.%d) has no cuTensorMapEncodeTiled, which kernels of family sm90 need; update it, or "
        "set spec.family to portable",
        driver->path, driver->version / 1000, driver->version % 1000 / 10);
    for (int i = 0; i < count; i++) {
        const struct tensor_box *box = &boxes[i];
        const uint32_t extents[TENSOR_BOX_RANK] = {TENSOR_BOX_COLUMNS, box->rows, 1, 1};
        const uint32_t steps[TENSOR_BOX_RANK] = {1, 1, 1, 1};
        const int type = box->dtype == GDPA_DTYPE_FP16 ? CUDA_TENSOR_MAP_FLOAT16 : CUDA_TENSOR_MAP_BFLOAT16;
        const int result = driver->tensor_map_encode(&maps[i], type, TENSOR_BOX_RANK, (void *)(uintptr_t)box->data,
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
    return GDPA_OK;
}

static gdpa_status kernel_ready(gdpa_kernel *kernel, struct CUstream_st *stream, struct CUkern_st **function)
{
    *function = atomic_load_explicit(&kernel->function, memory_order_acquire);
    if (*function == NULL) {
        TRY(kernel_load(kernel, stream));
        *function = atomic_load_explicit(&kernel->function, memory_order_acquire);
    }
    return GDPA_OK;
}

/* Everything that tensor_boxes_fill reads of the parameters, but what is of o alone; the rest is fixed by the kernel. */
static struct thread_maps_key maps_key(const gdpa_kernel *kernel, const struct gdpa_fwd_params *params)
{
    return (struct thread_maps_key){.kernel = kernel->number,
                                    .data = {params->q, params->k, params->v},
                                    .strides = {params->q_stride_batch, params->q_stride_row, params->q_stride_head,
                                                params->k_stride_batch, params->k_stride_row, params->k_stride_head,
                                                params->v_stride_batch, params->v_stride_row, params->v_stride_head},
                                    .rows_q = params->rows_q,
                                    .rows_k = params->rows_k,
                                    .batch = params->batch,
                                    .heads_q = params->heads_q,
                                    .heads_per_group = params->heads_per_group};
}

static bool maps_key_equal(const struct thread_maps_key *a, const struct thread_maps_key *b)
{
    uint64_t left[sizeof *a / sizeof(uint64_t)], right[sizeof *a / sizeof(uint64_t)], different = 0;
    memcpy(left, a, sizeof left);
    memcpy(right, b, sizeof right);
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++) {
        different |= left[i] ^ right[i];
    }
    return different == 0;
}

static struct thread_maps *maps_place(struct thread_block *own, const gdpa_kernel *kernel,
                                      const struct gdpa_fwd_params *params)
{
    const uint64_t mixed = kernel->number * 7 ^ (uintptr_t)params->q ^ (uintptr_t)params->k >> 3;
    return &own->maps[mixed * UINT64_C(0x9e3779b97f4a7c15) >> (64 - THREAD_MAPS_BITS)];
}

static bool output_equal(const struct thread_maps *place, const struct gdpa_fwd_params *params)
{
    return place->output == params->o && place->output_strides[0] == params->o_stride_batch &&
           place->output_strides[1] == params->o_stride_row && place->output_strides[2] == params->o_stride_head;
}

/* Of all tensors, or of o alone. */
static gdpa_status forward_maps_encode(const gdpa_kernel *kernel, const struct gdpa_fwd_params *common, bool all,
                                       struct gdpa_fwd_sm90_params *params)
{
    static const char *const names[TENSOR_BOX_COUNT] = {"q", "k", "v", "o"};
    const int first = all ? 0 : TENSOR_BOX_COUNT - 1;
    struct tensor_box boxes[TENSOR_BOX_COUNT];
    TRY(tensor_boxes_fill(&kernel->spec, &kernel->plan, common, boxes));
    return maps_encode(kernel, boxes + first, names + first, TENSOR_BOX_COUNT - first,
                       (struct gdpa_tensor_map *)params + first);
}

/* Makes what is kept in a place that of these parameters. What fails half way is not kept. */
static gdpa_status maps_renew(const gdpa_kernel *kernel, const struct gdpa_fwd_params *common,
                              struct thread_maps *place)
{
    const struct thread_maps_key key = maps_key(kernel, common);
    const bool inputs_equal = maps_key_equal(&place->key, &key);
    if (!inputs_equal || !output_equal(place, common)) {
        place->key.kernel = 0;
        TRY(forward_maps_encode(kernel, common, !inputs_equal, &place->params));
        place->key = key;
        place->output = common->o;
        place->output_strides[0] = common->o_stride_batch;
        place->output_strides[1] = common->o_stride_row;
        place->output_strides[2] = common->o_stride_head;
    }
    return GDPA_OK;
}

/*
 * A tensor map says nothing but its arguments, so that the same arguments may take the map of the last time. *params is
 * `fresh`, or belongs to the thread until its next launch; the driver copies it.
 */
static gdpa_status maps_find(const gdpa_kernel *kernel, const struct gdpa_fwd_params *common, struct thread_block *own,
                             struct gdpa_fwd_sm90_params *fresh, struct gdpa_fwd_sm90_params **params)
{
    *params = fresh;
    if (own == NULL) {
        TRY(forward_maps_encode(kernel, common, true, fresh));
    } else {
        struct thread_maps *place = maps_place(own, kernel, common);
        *params = &place->params;
        TRY(maps_renew(kernel, common, place));
    }
    (*params)->common = *common;
    return GDPA_OK;
}

static struct launch_config forward_config(const struct launch_shape *shape, struct CUstream_st *stream)
{
    return (struct launch_config){.grid_x = shape->grid,
                                  .grid_y = shape->grid_y,
                                  .grid_z = 1,
                                  .block_x = shape->block,
                                  .block_y = 1,
                                  .block_z = 1,
                                  .shared_bytes = shape->smem,
                                  .stream = stream};
}

/* One launch needs no queue, but where the thread has no context. */
static gdpa_status launch_one(gdpa_kernel *kernel, const struct launch_shape *shape, struct CUkern_st *function,
                              void *params, struct thread_block *own, struct CUstream_st *stream)
{
    const struct launch_config config = forward_config(shape, stream);
    void *parameters[] = {params};
    const int result = kernel->driver->launch(&config, function, parameters, NULL);
    if (__builtin_expect(result == CUDA_OK, 1)) {
        launches_count(kernel, own, 1);
        return GDPA_OK;
    }
    if (result == CUDA_INVALID_CONTEXT && stream != NULL) {
        struct queue queue = {.count = 0};
        queue_add(&queue, function, params, &config);
        return queue_send(kernel, &queue, stream);
    }
    return launch_failed(kernel, result, &config);
}

static gdpa_status shape_launch(gdpa_kernel *kernel, struct launch_shape *shape, struct CUstream_st *stream)
{
    struct CUkern_st *function = NULL;
    struct thread_block *own = thread_block_get();
    TRY(kernel_ready(kernel, stream, &function));
    launch_shape_fit(shape, &kernel->plan, kernel->most_sms);
    if (!shape->boxed) {
        return launch_one(kernel, shape, function, &shape->params, own, stream);
    }
    struct gdpa_fwd_sm90_params fresh, *boxed = NULL;
    TRY(maps_find(kernel, &shape->params, own, &fresh, &boxed));
    return launch_one(kernel, shape, function, boxed, own, stream);
}

static void queue_add_schedule(struct queue *queue, const gdpa_kernel *kernel, struct gdpa_fwd_params *params,
                               struct CUstream_st *stream)
{
    const struct launch_config config = {.grid_x = kScheduleLists,
                                         .grid_y = 1,
                                         .grid_z = 1,
                                         .block_x = kScheduleThreads,
                                         .block_y = 1,
                                         .block_z = 1,
                                         .shared_bytes = kScheduleSmemBytes,
                                         .stream = stream};
    queue_add(queue, kernel->second, params, &config);
}

gdpa_status kernel_make_schedule(gdpa_kernel *kernel, const gdpa_args *args, void *schedule, size_t bytes,
                                 struct CUstream_st *stream)
{
    struct gdpa_fwd_params params;
    TRY(schedule_params_fill(&kernel->spec, args, &params));
    if (!spec_is_listed(&kernel->spec) || params.batch == 0) {
        return GDPA_OK;
    }
    TRY(schedule_check((size_t)schedule_bytes(params.batch), schedule, bytes));
    struct CUkern_st *function = NULL;
    TRY(kernel_ready(kernel, stream, &function));
    params.schedule = schedule;
    struct queue queue = {.count = 0};
    queue_add_schedule(&queue, kernel, &params, stream);
    return queue_send(kernel, &queue, stream);
}

/* A forward whose blocks find their tiles in a schedule. All kernels of that kind take boxes. */
static gdpa_status listed_launch(gdpa_kernel *kernel, struct launch_shape *shape, void *workspace,
                                 size_t workspace_bytes, struct CUstream_st *stream)
{
    bool to_be_made = false;
    TRY(schedule_place(shape, workspace, workspace_bytes, &to_be_made));
    struct CUkern_st *function = NULL;
    TRY(kernel_ready(kernel, stream, &function));
    launch_shape_fit(shape, &kernel->plan, kernel->most_sms);
    struct gdpa_fwd_sm90_params fresh, *boxed = NULL;
    TRY(maps_find(kernel, &shape->params, thread_block_get(), &fresh, &boxed));
    struct queue queue = {.count = 0};
    if (to_be_made) {
        queue_add_schedule(&queue, kernel, &shape->params, stream);
    }
    const struct launch_config config = forward_config(shape, stream);
    queue_add(&queue, function, boxed, &config);
    return queue_send(kernel, &queue, stream);
}

static struct launch_config backward_config(const struct backward_grid *grid, struct CUstream_st *stream)
{
    return (struct launch_config){.grid_x = grid->x,
                                  .grid_y = grid->y,
                                  .grid_z = 1,
                                  .block_x = grid->block,
                                  .block_y = 1,
                                  .block_z = 1,
                                  .shared_bytes = grid->smem,
                                  .stream = stream};
}

/*
 * A kernel of a backward, if it has any blocks. It takes shape->params, or, where it has boxes, *boxed: tensor maps and a copy of them. Both stay
 * where they are until the queue was sent.
 */
static gdpa_status queue_add_backward(struct queue *queue, const gdpa_kernel *kernel, struct CUkern_st *function,
                                      const struct launch_config *config, const struct tensor_box *boxes,
                                      struct backward_shape *shape, struct gdpa_bwd_sm90_main_params *boxed)
{
    if (config->grid_x == 0) {
        return GDPA_OK;
    }
    if (boxes == NULL) {
        queue_add(queue, function, &shape->params, config);
        return GDPA_OK;
    }
    static const char *const names[BACKWARD_BOX_COUNT] = {"q", "k", "v", "dout", "dq"};
    TRY(maps_encode(kernel, boxes, names, backward_boxes_count(boxes), (struct gdpa_tensor_map *)boxed));
    backward_boxed_fill(shape, boxed);
    queue_add(queue, function, boxed, config);
    return GDPA_OK;
}

/* No kernel of a backward makes one. */
static gdpa_status backward_schedule_check(const struct backward_shape *shape)
{
    FAIL_IF(shape->schedule == NULL, GDPA_E_WORKSPACE,
            "schedule zigzag and dynamic find their tiles in a schedule of %zu bytes on the device: set args.schedule, "
            "made by gdpa_schedule_build, or leave schedule auto",
            shape->schedule_bytes);
    return schedule_check(shape->schedule_bytes, shape->schedule, shape->schedule_given);
}

static gdpa_status backward_launch(gdpa_kernel *kernel, const gdpa_args *args, void *workspace, size_t workspace_bytes,
                                   struct CUstream_st *stream)
{
    struct backward_shape shape;
    TRY(backward_shape_fill(&kernel->spec, &kernel->plan, args, &shape));
    if (shape.schedule_bytes > 0) {
        TRY(backward_schedule_check(&shape));
    }
    if (shape.sums == 0 && (workspace == NULL || workspace_bytes < shape.workspace)) {
        workspace = NULL; /* another order, then */
    } else {
        TRY(workspace_check(shape.workspace, workspace, workspace_bytes));
    }
    if (shape.main.x == 0 && shape.second.x == 0) {
        return GDPA_OK;
    }
    struct CUkern_st *function = NULL;
    TRY(kernel_ready(kernel, stream, &function));
    backward_shape_place(&shape, shape.workspace > 0 ? workspace : NULL);
    backward_shape_fit(&shape, kernel->most_sms);
    struct queue queue = {.words_at = (uint64_t)(uintptr_t)shape.memory, .words = shape.zeros / sizeof(uint32_t)};
    struct gdpa_bwd_sm90_main_params boxed[2];
    struct launch_config config = backward_config(&shape.main, stream);
    TRY(queue_add_backward(&queue, kernel, function, &config, shape.boxed ? shape.boxes : NULL, &shape, &boxed[0]));
    config = backward_config(&shape.second, stream);
    TRY(queue_add_backward(&queue, kernel, kernel->second, &config, shape.second_boxed ? shape.second_boxes : NULL,
                           &shape, &boxed[1]));
    return queue_send(kernel, &queue, stream);
}

bool kernel_launch_quickly(gdpa_kernel *kernel, const gdpa_args *args, struct CUstream_st *stream, gdpa_status *status)
{
    struct launch_shape shape;
    if (!launch_quick_fill(&kernel->quick, args, &shape)) {
        return false;
    }
    *status = shape_launch(kernel, &shape, stream);
    return true;
}

gdpa_status gdpa_launch(gdpa_kernel *kernel, const gdpa_args *args, void *workspace, size_t workspace_bytes,
                        struct CUstream_st *stream)
{
    FAIL_IF(kernel == NULL, GDPA_E_ARGUMENT, "kernel is NULL");
    struct launch_shape shape;
    if (launch_quick_fill(&kernel->quick, args, &shape)) {
        return shape_launch(kernel, &shape, stream);
    }
    if (kernel->spec.pass == GDPA_PASS_BACKWARD) {
        return backward_launch(kernel, args, workspace, workspace_bytes, stream);
    }
    TRY(launch_shape_fill(&kernel->spec, &kernel->plan, args, &shape));
    if (shape.grid == 0) {
        return GDPA_OK;
    }
    return shape.schedule > 0 ? listed_launch(kernel, &shape, workspace, workspace_bytes, stream)
                              : shape_launch(kernel, &shape, stream);
}
