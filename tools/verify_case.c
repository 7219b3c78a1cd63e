/*
 * Making one case of verify; see verify_case.h.
 */
#include "tools/verify_case.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/half.h"
#include "tests/support/parallel.h"
#include "tests/support/random.h"
#include "tests/support/reference.h"
#include "tools/verify_copy.h"

enum {
    LEADING_ROWS = 3,  /* of a jagged tensor, before the first sequence */
    TRAILING_ROWS = 5, /* after the last one */
    GUARD_ROWS = 128,  /* at least a tile of the largest kernel */
    GUARD_LEAST = 4096,
    GUARD_MOST = 1 << 20,
    PAYLOAD_ALIGNMENT = 512,
    POOL_SEED = 20,
    POOL_PARTS = 4,
};

/* Elements of the pool for one tensor. */
static const size_t pool_part = 1 << 20;

static int64_t larger(int64_t left, int64_t right)
{
    return left > right ? left : right;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Lengths
 * ------------------------------------------------------------------------------------------------------------- */

static int32_t length_draw(enum shape_lengths rule, int64_t fixed, struct random_source *source)
{
    static const int32_t edges[] = {0, 1, 15, 63, 64, 65, 127, 128, 129, 1000};
    static const int32_t up_to[] = {0, 1, 63, 64, 65, 127, 128, 129, 191, 192, 255, 256};
    int64_t count = 0;
    switch (rule) {
    case LENGTHS_UP_TO:
        while (count < (int64_t)(sizeof up_to / sizeof *up_to) && up_to[count] <= fixed) {
            count++;
        }
        return up_to[random_between(source, 0, count - 1)];
    case LENGTHS_EDGES:
        return edges[random_between(source, 0, (int64_t)(sizeof edges / sizeof *edges) - 1)];
    case LENGTHS_UNIFORM:
        return (int32_t)random_between(source, 1, fixed);
    case LENGTHS_SHORT:
        return (int32_t)random_between(source, 0, fixed);
    case LENGTHS_EMPTY:
        return 0;
    default:
        return (int32_t)fixed;
    }
}

/* ---------------------------------------------------------------------------------------------------------------
 * Buffers
 * ------------------------------------------------------------------------------------------------------------- */

size_t case_buffer_bytes(const struct case_buffer *buffer)
{
    return 2 * buffer->guard + buffer->payload;
}

static size_t round_up(size_t value, size_t step)
{
    return (value + step - 1) / step * step;
}

/* Memory of the pool when it is free, else memory of the buffer's own; NULL when there is none. */
static unsigned char *image_take(struct case_pool *pool, int number, size_t bytes, bool *pooled)
{
    struct case_memory *memory = &pool->images[number];
    *pooled = !memory->taken;
    if (memory->taken) {
        return aligned_alloc(PAYLOAD_ALIGNMENT, bytes);
    }
    if (memory->room < bytes) {
        free(memory->bytes);
        memory->bytes = aligned_alloc(PAYLOAD_ALIGNMENT, bytes);
        memory->room = memory->bytes != NULL ? bytes : 0;
    }
    memory->taken = memory->bytes != NULL;
    return memory->bytes;
}

/* Adds a buffer with `payload` bytes, all of them guard_byte; NULL when there is no memory. */
static struct case_buffer *buffer_add(struct verify_case *made, const char *name, size_t payload, size_t row_bytes,
                                      unsigned char guard_byte)
{
    struct case_buffer *buffer = &made->buffers[made->buffer_count];
    size_t guard = GUARD_ROWS * row_bytes;
    guard = guard < GUARD_LEAST ? GUARD_LEAST : guard > GUARD_MOST ? GUARD_MOST : guard;
    *buffer = (struct case_buffer){.name = name, .payload = payload, .guard_byte = guard_byte};
    buffer->guard = round_up(guard, PAYLOAD_ALIGNMENT);
    size_t bytes = round_up(case_buffer_bytes(buffer), PAYLOAD_ALIGNMENT);
    buffer->image = image_take(made->pool, made->buffer_count, bytes, &buffer->pooled);
    if (buffer->image == NULL) {
        return NULL;
    }
    bytes_fill(buffer->image, guard_byte, bytes, 0);
    made->buffer_count++;
    return buffer;
}

struct case_buffer *case_buffer_of(struct verify_case *made, const void *pointer)
{
    uintptr_t at = (uintptr_t)pointer;
    for (int i = 0; i < made->buffer_count; i++) {
        struct case_buffer *buffer = &made->buffers[i];
        uintptr_t begin = (uintptr_t)buffer->image;
        if (at >= begin && at < begin + case_buffer_bytes(buffer)) {
            return buffer;
        }
    }
    return NULL;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Tensors
 * ------------------------------------------------------------------------------------------------------------- */

/* A tensor to be placed: its extents, and where its elements are inside a buffer. */
struct placement {
    int64_t batch, rows, heads, dim; /* batch 1 for a jagged one */
    size_t element_bytes;
    int64_t stride_batch, stride_row, stride_head;
    int64_t offset; /* of the first element from the payload's start, in elements */
    int64_t extent; /* elements from the payload's start to the end of the last one, unused ones behind it included */
    bool strides_set;
};

static void placement_pack(struct placement *place)
{
    place->stride_head = place->dim;
    place->stride_row = place->heads * place->dim;
    place->stride_batch = place->rows * place->stride_row;
}

/* Strides of q, k, v and o by the shape's rule; joined tensors are moved together later. */
static void placement_stride(struct placement *place, const struct shape *shape, bool keys, bool dense, int64_t gap)
{
    placement_pack(place);
    place->strides_set = shape->strides != STRIDES_PACKED;
    if (shape->strides == STRIDES_HEAD_MAJOR) {
        place->stride_row = place->dim;
        place->stride_head = place->rows * place->dim;
    } else if (shape->strides == STRIDES_GAPS) {
        place->stride_head = place->dim + gap;
        place->stride_row = place->heads * place->stride_head + gap;
        place->stride_batch = place->rows * place->stride_row + gap;
    } else if (shape->strides == STRIDES_EXPANDED_HEADS && keys) {
        place->stride_head = 0;
        place->stride_row = place->dim;
        place->stride_batch = place->rows * place->dim;
    } else if (shape->strides == STRIDES_EXPANDED_BATCH && keys && dense) {
        place->stride_batch = 0;
    }
}

static bool placement_empty(const struct placement *place)
{
    return place->batch == 0 || place->rows == 0 || place->heads == 0;
}

static void placement_measure(struct placement *place)
{
    place->extent = place->offset + (place->batch - 1) * place->stride_batch + (place->rows - 1) * place->stride_row +
                    (place->heads - 1) * place->stride_head + place->dim;
}

/* Makes the tensors of one buffer: joined side by side in each row when there are several. */
static bool tensors_place(struct verify_case *made, const char *name, struct placement *const *places, int count,
                          gdpa_tensor *const *tensors, int32_t dtype)
{
    int64_t row = 0;
    bool output = name[0] == 'o' || (name[0] == 'd' && strcmp(name, "dout") != 0);
    for (int i = 0; i < count && count > 1; i++) {
        places[i]->offset += row;
        row += places[i]->heads * places[i]->dim;
    }
    int64_t extent = 0;
    int64_t row_elements = 0;
    for (int i = 0; i < count; i++) {
        if (count > 1) {
            places[i]->stride_head = places[i]->dim;
            places[i]->stride_row = row;
            places[i]->stride_batch = places[i]->rows * row;
        }
        placement_measure(places[i]);
        extent = larger(extent, places[i]->extent);
        row_elements = larger(row_elements, places[i]->stride_row);
    }
    if (placement_empty(places[0])) {
        return true;
    }
    size_t bytes = places[0]->element_bytes;
    struct case_buffer *buffer = buffer_add(made, name, (size_t)extent * bytes, (size_t)row_elements * bytes, 0xff);
    if (buffer == NULL) {
        return false;
    }
    buffer->output = output;
    for (int i = 0; i < count; i++) {
        tensors[i]->data = buffer->image + buffer->guard + (size_t)places[i]->offset * bytes;
        tensors[i]->dtype = dtype;
        if (places[i]->strides_set) {
            tensors[i]->flags = GDPA_TENSOR_STRIDES;
            tensors[i]->stride_batch = places[i]->stride_batch;
            tensors[i]->stride_row = places[i]->stride_row;
            tensors[i]->stride_head = places[i]->stride_head;
            tensors[i]->stride_dim = 1;
        }
    }
    return true;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Elements
 * ------------------------------------------------------------------------------------------------------------- */

void case_pool_deinit(struct case_pool *pool)
{
    free(pool->elements[0]);
    free(pool->elements[1]);
    for (int i = 0; i < CASE_BUFFERS; i++) {
        free(pool->images[i].bytes);
    }
    *pool = (struct case_pool){.elements = {NULL, NULL}};
}

/* The elements of a type; NULL when there is no memory. */
static const uint16_t *pool_elements(struct case_pool *pool, int32_t dtype)
{
    uint16_t **elements = &pool->elements[dtype == GDPA_DTYPE_FP16 ? 1 : 0];
    if (*elements == NULL) {
        *elements = malloc(POOL_PARTS * pool_part * sizeof **elements);
        if (*elements != NULL) {
            random_fill_normal(dtype, *elements, (int64_t)(POOL_PARTS * pool_part), 1, POOL_SEED, 0);
        }
    }
    return *elements;
}

/* Fills one side's rows inside sequences with slices of the pool from random places. */
struct fill_job {
    const struct reference_problem *problem;
    const struct placement *place;
    const uint16_t *elements; /* of the pool, for this tensor */
    uint16_t *data;           /* of the tensor's first element */
    bool keys, jagged;
    uint64_t seed;
};

static void fill_sequence(int64_t b, int thread, void *user)
{
    (void)thread;
    const struct fill_job *job = user;
    const struct placement *place = job->place;
    struct reference_sequence sequence = reference_sequence_find(job->problem, b);
    int64_t rows = job->keys ? sequence.rows_k : sequence.rows_q;
    int64_t first = job->keys ? sequence.first_k : sequence.first_q;
    int64_t base = job->jagged ? first * place->stride_row : b * place->stride_batch;
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t head = 0; head < place->heads; head++) {
            uint64_t number = (uint64_t)((b * place->rows + row) * place->heads + head);
            uint64_t from = random_hash(job->seed, number) % (pool_part - (size_t)place->dim);
            memcpy(job->data + base + row * place->stride_row + head * place->stride_head, job->elements + from,
                   (size_t)place->dim * sizeof(uint16_t));
        }
    }
}

static void tensor_fill(const struct verify_case *made, const struct placement *place, const gdpa_tensor *tensor,
                        bool keys, uint64_t seed, const uint16_t *elements)
{
    struct reference_problem problem = {.spec = &made->spec, .args = &made->args};
    int32_t layout = keys ? made->spec.layout_k : made->spec.layout_q;
    struct fill_job job = {
        .problem = &problem, .place = place, .elements = elements, .data = tensor->data, .keys = keys};
    job.jagged = layout == GDPA_LAYOUT_JAGGED;
    job.seed = seed;
    if (tensor->data != NULL) {
        /* Expanded sequences share their elements: one thread, so that the last one wins. */
        int threads = place->stride_batch == 0 && !job.jagged ? 1 : 0;
        parallel_for(made->args.batch, threads, fill_sequence, &job);
    }
}

/* ---------------------------------------------------------------------------------------------------------------
 * The whole
 * ------------------------------------------------------------------------------------------------------------- */

/* One side's lengths: offsets for a jagged one, seqused, and the totals and maxima in args. */
struct side {
    bool jagged;
    enum shape_lengths rule;
    int64_t fixed;
    bool shortened;
    int64_t rows; /* of the tensor */
    int64_t longest;
    int32_t *cu_seqlens, *seqused;
};

static int32_t *array_add(struct verify_case *made, const char *name, int64_t count)
{
    struct case_buffer *buffer = buffer_add(made, name, (size_t)count * sizeof(int32_t), sizeof(int32_t), 0x7b);
    return buffer != NULL ? (int32_t *)(void *)(buffer->image + buffer->guard) : NULL;
}

static bool side_make(struct verify_case *made, struct side *side, const char *const names[2], const struct side *other,
                      struct random_source *source)
{
    int64_t batch = made->args.batch;
    if (side->jagged && (side->cu_seqlens = array_add(made, names[0], batch + 1)) == NULL) {
        return false;
    }
    if (side->shortened && batch > 0 && (side->seqused = array_add(made, names[1], batch)) == NULL) {
        return false;
    }
    int32_t row = LEADING_ROWS;
    for (int64_t b = 0; b < batch; b++) {
        int32_t length = side->jagged ? length_draw(side->rule, side->fixed, source) : (int32_t)side->fixed;
        if (side->jagged && side->rule == LENGTHS_SAME && other != NULL && other->jagged) {
            length = other->cu_seqlens[b + 1] - other->cu_seqlens[b];
        }
        if (side->jagged) {
            side->cu_seqlens[b] = row;
        }
        if (side->seqused != NULL) {
            side->seqused[b] = (int32_t)random_between(source, 0, length);
        }
        row += length;
        side->longest = larger(side->longest, length);
    }
    side->rows = side->jagged ? row + TRAILING_ROWS : side->fixed;
    if (side->jagged) {
        side->cu_seqlens[batch] = row;
    }
    return true;
}

static int64_t maximum_given(const struct side *side, enum shape_maximum rule)
{
    if (!side->jagged || rule == MAXIMUM_UNKNOWN) {
        return 0;
    }
    return rule == MAXIMUM_LOOSE ? 2 * side->longest + 7 : side->longest;
}

static void sides_describe(gdpa_args *args, const struct side *q, const struct side *k, enum shape_maximum rule)
{
    args->seqlen_q = q->jagged ? 0 : q->rows;
    args->seqlen_k = k->jagged ? 0 : k->rows;
    args->total_q = q->jagged ? q->rows : 0;
    args->total_k = k->jagged ? k->rows : 0;
    args->max_seqlen_q = maximum_given(q, rule);
    args->max_seqlen_k = maximum_given(k, rule);
    args->cu_seqlens_q = q->cu_seqlens;
    args->cu_seqlens_k = k->cu_seqlens;
    args->seqused_q = q->seqused;
    args->seqused_k = k->seqused;
}

/*
 * Scales. Where f grows fast, S or the output is kept inside the range of the types: the accuracy rule says nothing about
 * results that do not fit.
 */
static void scales_choose(struct verify_case *made)
{
    const struct shape *shape = made->shape;
    gdpa_args *args = &made->args;
    double root = sqrt((double)made->spec.head_dim);
    bool narrow = made->spec.dtype == GDPA_DTYPE_FP16 || made->spec.out_dtype == GDPA_DTYPE_FP16;
    double sigma = shape->scale == SCALE_ONE ? root : 1;
    if (made->spec.activation == GDPA_ACTIVATION_EXP) {
        sigma = fmin(sigma, narrow ? 1.5 : 8);
    }
    double scale = shape->scale == SCALE_ZERO ? 0 : sigma / root;
    args->scale = (float)(shape->scale == SCALE_NEGATIVE_ROOT ? -scale : scale);
    args->flags = GDPA_ARGS_SCALE;
    args->out_scale = shape->out_scale;
    bool square =
        made->spec.activation == GDPA_ACTIVATION_SQUARE || made->spec.activation == GDPA_ACTIVATION_RELU_SQUARE;
    if (square && narrow && shape->scale == SCALE_ONE) {
        args->out_scale = (shape->out_scale != 0 ? shape->out_scale : 1) / 64;
    }
    args->flags |= args->out_scale != 0 ? GDPA_ARGS_OUT_SCALE : 0;
    args->activation_param = shape->parameter;
    args->flags |= shape->parameter != 0 ? GDPA_ARGS_ACTIVATION_PARAM : 0;
}

/* The tensors of one call; the gradients lie where q, k and v would. */
enum { PLACE_Q, PLACE_K, PLACE_V, PLACE_O, PLACE_DQ, PLACE_DK, PLACE_DV, PLACE_COUNT };

/* Tensors like q, k and v: as views of one buffer where the shape joins them. */
static bool triple_place(struct verify_case *made, const char *const names[5], struct placement places[3],
                         gdpa_tensor *const tensors[3], int32_t dtype)
{
    struct placement *all[] = {&places[0], &places[1], &places[2]};
    bool joined = made->shape->strides == STRIDES_JOINED;
    bool one = joined && places[0].rows == places[1].rows && places[0].batch == places[1].batch &&
               made->spec.layout_q == made->spec.layout_k;
    if (one) {
        return tensors_place(made, names[3], all, 3, tensors, dtype);
    }
    if (!tensors_place(made, names[0], all, 1, tensors, dtype)) {
        return false;
    }
    if (joined) {
        return tensors_place(made, names[4], all + 1, 2, tensors + 1, dtype);
    }
    return tensors_place(made, names[1], all + 1, 1, tensors + 1, dtype) &&
           tensors_place(made, names[2], all + 2, 1, tensors + 2, dtype);
}

static bool tensors_make(struct verify_case *made, const struct side *q, const struct side *k, uint64_t seed,
                         const uint16_t *elements)
{
    static const char *const input_names[] = {"q", "k", "v", "qkv", "kv"};
    static const char *const gradient_names[] = {"dq", "dk", "dv", "dqkv", "dkv"};
    gdpa_args *args = &made->args;
    const gdpa_spec *spec = &made->spec;
    bool backward = spec->pass == GDPA_PASS_BACKWARD;
    bool odd = spec->unaligned && !made->shape->aligned;
    struct placement places[PLACE_COUNT];
    for (int i = 0; i < PLACE_COUNT; i++) {
        bool keys = i == PLACE_K || i == PLACE_V || i == PLACE_DK || i == PLACE_DV;
        bool values = i == PLACE_V || i == PLACE_O || i == PLACE_DV;
        bool result = i >= PLACE_DQ || (i == PLACE_O && !backward); /* dout stands in the place of o */
        const struct side *side = keys ? k : q;
        places[i] = (struct placement){.batch = side->jagged ? 1 : args->batch,
                                       .rows = side->rows,
                                       .heads = keys ? args->heads_k : args->heads_q,
                                       .dim = values ? spec->head_dim_v : spec->head_dim,
                                       .element_bytes = result ? dtype_size(spec->out_dtype) : sizeof(uint16_t),
                                       .offset = odd ? 1 : 0};
        placement_stride(&places[i], made->shape, keys && !result, !side->jagged, odd ? 1 : 8);
    }
    struct placement *o = &places[PLACE_O];
    gdpa_tensor *const inputs[] = {&args->q, &args->k, &args->v};
    gdpa_tensor *const gradients[] = {&args->dq, &args->dk, &args->dv};
    gdpa_tensor *const output = backward ? &args->dout : &args->o;
    if (!triple_place(made, input_names, places, inputs, spec->dtype) ||
        !tensors_place(made, backward ? "dout" : "o", &o, 1, &output, backward ? spec->dtype : spec->out_dtype) ||
        (backward && !triple_place(made, gradient_names, &places[PLACE_DQ], gradients, spec->out_dtype))) {
        return false;
    }
    for (int i = 0; i < 3; i++) {
        tensor_fill(made, &places[i], inputs[i], i > 0, random_hash(seed, (uint64_t)i),
                    elements + (size_t)i * pool_part);
    }
    if (backward) {
        tensor_fill(made, o, output, false, random_hash(seed, 3), elements + (size_t)3 * pool_part);
    }
    return true;
}

bool case_make(struct verify_case *made, const gdpa_spec *spec, const struct shape *shape, uint64_t seed,
               struct case_pool *pool, char *why, size_t capacity)
{
    *made = (struct verify_case){.shape = shape, .pool = pool, .spec = *spec, .args = GDPA_ARGS_INIT};
    made->spec.dtype = spec->dtype != 0 ? spec->dtype : GDPA_DTYPE_BF16;
    made->spec.out_dtype = spec->out_dtype != 0 ? spec->out_dtype : made->spec.dtype;
    made->spec.head_dim_v = spec->head_dim_v != 0 ? spec->head_dim_v : spec->head_dim;
    gdpa_args *args = &made->args;
    args->batch = shape->batch;
    args->heads_q = shape->heads_q;
    args->heads_k = shape->heads_k;
    scales_choose(made);
    struct random_source source = {.seed = random_hash(seed, 1000)};
    struct side q = {.rule = shape->lengths_q, .fixed = shape->fixed_q, .shortened = shape->seqused_q};
    struct side k = {.rule = shape->lengths_k, .fixed = shape->fixed_k, .shortened = shape->seqused_k};
    q.jagged = spec->layout_q == GDPA_LAYOUT_JAGGED;
    k.jagged = spec->layout_k == GDPA_LAYOUT_JAGGED;
    const uint16_t *elements = pool_elements(pool, made->spec.dtype);
    bool good = elements != NULL &&
                side_make(made, &q, (const char *const[]){"cu_seqlens_q", "seqused_q"}, NULL, &source) &&
                side_make(made, &k, (const char *const[]){"cu_seqlens_k", "seqused_k"}, &q, &source);
    if (good) {
        sides_describe(args, &q, &k, shape->maximum);
        good = tensors_make(made, &q, &k, seed, elements);
    }
    if (!good) {
        case_free(made);
        snprintf(why, capacity, "out of host memory for shape %s", shape->name);
        return false;
    }
    return true;
}

void case_free(struct verify_case *made)
{
    for (int i = 0; i < made->buffer_count; i++) {
        if (made->buffers[i].pooled) {
            made->pool->images[i].taken = false;
        } else {
            free(made->buffers[i].image);
        }
    }
    made->buffer_count = 0;
}

static void *to_device(const struct verify_case *made, const void *pointer)
{
    uintptr_t at = (uintptr_t)pointer;
    for (int i = 0; i < made->buffer_count; i++) {
        const struct case_buffer *buffer = &made->buffers[i];
        uintptr_t begin = (uintptr_t)buffer->image;
        if (at >= begin && at < begin + case_buffer_bytes(buffer)) {
            return (unsigned char *)buffer->device + (at - begin);
        }
    }
    return NULL;
}

gdpa_args case_device_args(const struct verify_case *made)
{
    gdpa_args args = made->args;
    args.q.data = to_device(made, args.q.data);
    args.k.data = to_device(made, args.k.data);
    args.v.data = to_device(made, args.v.data);
    args.o.data = to_device(made, args.o.data);
    args.dout.data = to_device(made, args.dout.data);
    args.dq.data = to_device(made, args.dq.data);
    args.dk.data = to_device(made, args.dk.data);
    args.dv.data = to_device(made, args.dv.data);
    args.cu_seqlens_q = to_device(made, args.cu_seqlens_q);
    args.cu_seqlens_k = to_device(made, args.cu_seqlens_k);
    args.seqused_q = to_device(made, args.seqused_q);
    args.seqused_k = to_device(made, args.seqused_k);
    return args;
}
