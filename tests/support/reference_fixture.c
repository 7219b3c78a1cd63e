/*
 * Small problems for the tests of the reference. See reference_fixture.h.
 */
#include "tests/support/reference_fixture.h"

#include <stdlib.h>

#include "tests/support/half.h"
#include "tests/support/random.h"

const struct variant fixture_variants[] = {
    {.name = "full", .heads_q = 1, .heads_k = 1},
    {.name = "causal", .causal = 1, .heads_q = 2, .heads_k = 2},
    {.name = "causal top left", .causal = 1, .align = GDPA_ALIGN_TOP_LEFT, .heads_q = 2, .heads_k = 1},
    {.name = "diagonal", .has_left = true, .has_right = true, .heads_q = 3, .heads_k = 1},
    {.name = "window", .has_left = true, .has_right = true, .left = 2, .right = 1, .heads_q = 2, .heads_k = 1},
    {.name = "band",
     .has_left = true,
     .has_right = true,
     .left = 3,
     .right = 3,
     .align = GDPA_ALIGN_TOP_LEFT,
     .heads_q = 1,
     .heads_k = 1},
    {.name = "left only", .has_left = true, .left = 1, .heads_q = 4, .heads_k = 2, .odd_strides = true},
    {.name = "right only", .has_right = true, .right = 0, .left = -1, .heads_q = 1, .heads_k = 1},
    {.name = "unbounded window",
     .has_left = true,
     .has_right = true,
     .left = -1,
     .right = -1,
     .heads_q = 1,
     .heads_k = 1},
    {.name = "causal window",
     .causal = 1,
     .has_left = true,
     .has_right = true,
     .left = 2,
     .right = 5,
     .heads_q = 2,
     .heads_k = 2},
    {.name = "jagged", .layout_q = GDPA_LAYOUT_JAGGED, .layout_k = GDPA_LAYOUT_JAGGED, .heads_q = 2, .heads_k = 1},
    {.name = "jagged causal",
     .layout_q = GDPA_LAYOUT_JAGGED,
     .layout_k = GDPA_LAYOUT_JAGGED,
     .causal = 1,
     .heads_q = 4,
     .heads_k = 2,
     .odd_strides = true},
    {.name = "jagged queries",
     .layout_q = GDPA_LAYOUT_JAGGED,
     .causal = 1,
     .seqused = true,
     .heads_q = 2,
     .heads_k = 2},
    {.name = "jagged keys", .layout_k = GDPA_LAYOUT_JAGGED, .seqused = true, .heads_q = 1, .heads_k = 1},
    {.name = "jagged shortened",
     .layout_q = GDPA_LAYOUT_JAGGED,
     .layout_k = GDPA_LAYOUT_JAGGED,
     .has_left = true,
     .left = 2,
     .seqused = true,
     .heads_q = 2,
     .heads_k = 1},
};
const int fixture_variant_count = sizeof fixture_variants / sizeof fixture_variants[0];

const int32_t fixture_lengths_q[3] = {5, 0, 7};
const int32_t fixture_lengths_k[3] = {6, 4, 3};
const int32_t fixture_shortened_q[3] = {3, 0, 9};
const int32_t fixture_shortened_k[3] = {6, 2, 0};

void *fixture_allocate(size_t bytes)
{
    void *memory = malloc(bytes > 0 ? bytes : 1);
    if (!memory) {
        abort();
    }
    return memory;
}

gdpa_tensor fixture_tensor(int32_t dtype, int64_t batch, int64_t rows, int64_t heads, int64_t dim, bool odd_strides,
                           uint64_t seed)
{
    gdpa_tensor tensor = {.dtype = dtype};
    int64_t pad = odd_strides ? 3 : 0;
    tensor.stride_head = dim + pad;
    tensor.stride_row = heads * tensor.stride_head + pad;
    tensor.stride_batch = rows * tensor.stride_row + pad;
    tensor.stride_dim = 1;
    tensor.flags = odd_strides ? GDPA_TENSOR_STRIDES : 0;
    int64_t count = batch * tensor.stride_batch + rows * tensor.stride_row;
    tensor.data = fixture_allocate((size_t)count * dtype_size(dtype));
    random_fill_normal(dtype, tensor.data, count, 1, seed, 1);
    return tensor;
}

void fixture_make(struct fixture *fixture, const struct variant *variant, int32_t activation, int32_t dtype)
{
    *fixture = (struct fixture){.spec = GDPA_SPEC_INIT, .args = GDPA_ARGS_INIT};
    gdpa_spec *spec = &fixture->spec;
    spec->head_dim = DIM, spec->head_dim_v = DIM_V, spec->activation = activation;
    spec->layout_q = variant->layout_q, spec->layout_k = variant->layout_k;
    spec->causal = variant->causal, spec->align = variant->align;
    spec->flags |= variant->has_left ? GDPA_SPEC_WINDOW_LEFT : 0;
    spec->flags |= variant->has_right ? GDPA_SPEC_WINDOW_RIGHT : 0;
    spec->window_left = variant->left, spec->window_right = variant->right;
    gdpa_args *args = &fixture->args;
    args->batch = 3, args->heads_q = variant->heads_q, args->heads_k = variant->heads_k;
    bool jagged_q = variant->layout_q == GDPA_LAYOUT_JAGGED;
    bool jagged_k = variant->layout_k == GDPA_LAYOUT_JAGGED;
    fixture->cu_q[0] = fixture->cu_k[0] = 1; /* a row before the first sequence */
    for (int b = 0; b < 3; b++) {
        fixture->cu_q[b + 1] = fixture->cu_q[b] + fixture_lengths_q[b];
        fixture->cu_k[b + 1] = fixture->cu_k[b] + fixture_lengths_k[b];
        fixture->used_q[b] = fixture_shortened_q[b];
        fixture->used_k[b] = fixture_shortened_k[b];
    }
    args->total_q = fixture->cu_q[3] + 2, args->total_k = fixture->cu_k[3] + 1;
    args->seqlen_q = 5, args->seqlen_k = 6;
    args->cu_seqlens_q = jagged_q ? fixture->cu_q : NULL, args->cu_seqlens_k = jagged_k ? fixture->cu_k : NULL;
    args->seqused_q = variant->seqused ? fixture->used_q : NULL;
    args->seqused_k = variant->seqused ? fixture->used_k : NULL;
    args->flags = GDPA_ARGS_SCALE | GDPA_ARGS_OUT_SCALE | GDPA_ARGS_ACTIVATION_PARAM;
    args->scale = 0.5f, args->out_scale = -0.75f, args->activation_param = 0.3f;
    int64_t batch_q = jagged_q ? 1 : 3, rows_q = jagged_q ? args->total_q : args->seqlen_q;
    int64_t batch_k = jagged_k ? 1 : 3, rows_k = jagged_k ? args->total_k : args->seqlen_k;
    bool odd = variant->odd_strides;
    args->q = fixture_tensor(dtype, batch_q, rows_q, args->heads_q, DIM, odd, 101);
    args->k = fixture_tensor(dtype, batch_k, rows_k, args->heads_k, DIM, odd, 102);
    args->v = fixture_tensor(dtype, batch_k, rows_k, args->heads_k, DIM_V, odd, 103);
    fixture->problem.d_out = fixture_tensor(dtype, batch_q, rows_q, args->heads_q, DIM_V, odd, 104);
    fixture->problem.spec = spec;
    fixture->problem.args = args;
    fixture->problem.threads = 2;
}

void fixture_free(struct fixture *fixture)
{
    free(fixture->args.q.data);
    free(fixture->args.k.data);
    free(fixture->args.v.data);
    free(fixture->problem.d_out.data);
}

struct fixture_results fixture_results_allocate(const struct reference_sizes *sizes)
{
    struct fixture_results results = {
        fixture_allocate(sizeof(double) * (size_t)sizes->o),
        fixture_allocate(sizeof(double) * (size_t)sizes->dq),
        fixture_allocate(sizeof(double) * (size_t)sizes->dk),
        fixture_allocate(sizeof(double) * (size_t)sizes->dv),
    };
    for (int64_t i = 0; i < sizes->o; i++) {
        results.o[i] = 12345;
    }
    for (int64_t i = 0; i < sizes->dq; i++) {
        results.dq[i] = 12345;
    }
    for (int64_t i = 0; i < sizes->dk; i++) {
        results.dk[i] = 12345;
    }
    for (int64_t i = 0; i < sizes->dv; i++) {
        results.dv[i] = 12345;
    }
    return results;
}

void fixture_results_free(struct fixture_results *results)
{
    free(results->o);
    free(results->dq);
    free(results->dk);
    free(results->dv);
}
