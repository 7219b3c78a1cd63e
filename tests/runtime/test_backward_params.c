/*
 * Arguments of a backward -> parameters, grids and workspace; what is refused.
 */
#include "gen/plan.h"
#include "runtime/backward_params.h"
#include "tests/support/runtime_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SPEC "bwd head_dim=40 head_dim_v=64 activation=relu family=portable arch=sm_80"
#define HOPPER "bwd head_dim=40 head_dim_v=64 activation=relu arch=sm_90a"
#define JAGGED SPEC " layout_q=jagged layout_k=jagged"

static const int32_t some_offsets[8];

static void *at(uintptr_t address)
{
    return (void *)address;
}

static gdpa_args dense_args(void)
{
    gdpa_args args = runtime_args();
    args.o.data = NULL;
    args.dout.data = at(0x50000);
    args.dq.data = at(0x60000);
    args.dk.data = at(0x70000);
    args.dv.data = at(0x80000);
    args.seqlen_q = 300;
    args.seqlen_k = 200;
    return args;
}

static gdpa_args jagged_args(void)
{
    gdpa_args args = dense_args();
    args.seqlen_q = args.seqlen_k = 0;
    args.total_q = 1000;
    args.total_k = 2000;
    args.cu_seqlens_q = args.cu_seqlens_k = some_offsets;
    return args;
}

static struct kernel_plan plan_for(const char *text, gdpa_spec *spec)
{
    struct sbuf why;
    struct kernel_plan plan;
    sbuf_init(&why, 4096);
    const gdpa_spec parsed = runtime_spec(text);
    assert_int_equal(spec_normalise(&parsed, false, spec, &why), GDPA_OK);
    assert_int_equal(plan_make(spec, &plan, NULL, &why), GDPA_OK);
    sbuf_deinit(&why);
    return plan;
}

static gdpa_status fill(const char *text, const gdpa_args *args, struct backward_shape *shape)
{
    gdpa_spec spec;
    const struct kernel_plan plan = plan_for(text, &spec);
    return backward_shape_fill(&spec, &plan, args, shape);
}

static void dense_gradients_take_both_kernels_and_a_workspace(void **state)
{
    (void)state;
    struct backward_shape shape;
    const gdpa_args args = dense_args();
    gdpa_spec spec;
    const struct kernel_plan plan = plan_for(SPEC, &spec);
    expect_ok(backward_shape_fill(&spec, &plan, &args, &shape));
    const struct gdpa_bwd_params *p = &shape.params;
    assert_int_equal(p->tiles_per_seq, (200 + plan.block_n - 1) / plan.block_n);
    assert_int_equal(p->num_tiles, p->tiles_per_seq * 2 * 2); /* batch, kv heads */
    assert_int_equal(p->query_tiles_per_seq, (300 + plan.block_m - 1) / plan.block_m);
    assert_int_equal(p->num_query_tiles, p->query_tiles_per_seq * 2 * 4);
    assert_int_equal(shape.main.x, p->num_tiles);
    assert_int_equal(shape.second.x, p->num_query_tiles);
    assert_int_equal(shape.main.block, plan.threads);
    assert_int_equal(shape.second.block, plan.dq_threads);
    assert_int_equal(shape.workspace, 2 * 304 * 4 * 48 * 4); /* 300 rows take 304, and 40 columns 48 */
    assert_int_equal(p->heads_per_group, 2);
    assert_ptr_equal(p->dq, args.dq.data);
    assert_ptr_equal(p->dout, args.dout.data);
    assert_int_equal(p->dv_stride_row, 2 * 64);
    assert_int_equal(p->dout_stride_row, 4 * 64);
    assert_null(p->dq_sum);
    assert_false(shape.boxed);
}

static void keys_that_fit_one_tile_need_no_workspace(void **state)
{
    (void)state;
    struct backward_shape shape;
    gdpa_args args = dense_args();
    for (int64_t keys = 0; keys <= 128; keys += 128) {
        args.seqlen_k = keys;
        expect_ok(fill(SPEC, &args, &shape));
        assert_int_equal(shape.workspace, 0);
        assert_int_equal(shape.params.tiles_per_seq, 1); /* also without keys: dq is zero */
        assert_int_equal(shape.main.x, 4);
        assert_int_equal(shape.second.x, 0);
    }
    args = jagged_args();
    args.max_seqlen_k = 128;
    expect_ok(fill(JAGGED, &args, &shape));
    assert_int_equal(shape.workspace, 0);
    assert_int_equal(shape.params.tiles_per_seq, 1);
    args.max_seqlen_k = 129;
    expect_ok(fill(JAGGED, &args, &shape));
    assert_int_equal(shape.workspace, (1000 / 16 + 2) * 16 * 4 * 48 * 4);
    assert_int_equal(shape.params.tiles_per_seq, 2);
    args.max_seqlen_k = 0;
    expect_ok(fill(JAGGED, &args, &shape));
    assert_int_equal(shape.params.tiles_per_seq, 0);
    assert_int_equal(shape.params.num_tiles, (2000 / 128 + 2) * 2);
    assert_int_equal(shape.params.query_tiles_per_seq, 0);
    args.total_k = 128; /* no sequence can have more */
    expect_ok(fill(JAGGED, &args, &shape));
    assert_int_equal(shape.workspace, 0);
}

static void only_what_is_wanted_is_launched(void **state)
{
    (void)state;
    struct backward_shape shape;
    gdpa_args args = dense_args();
    args.dq.data = NULL;
    expect_ok(fill(SPEC, &args, &shape));
    assert_int_equal(shape.workspace, 0);
    assert_int_equal(shape.second.x, 0);
    assert_true(shape.main.x > 0);
    args.dk.data = args.dv.data = NULL;
    expect_ok(fill(SPEC, &args, &shape));
    assert_int_equal(shape.main.x, 0);
    args.dq.data = at(0x60000);
    expect_ok(fill(SPEC, &args, &shape));
    assert_true(shape.main.x > 0 && shape.second.x > 0);
    expect_ok(fill(SPEC " deterministic", &args, &shape));
    assert_int_equal(shape.main.x, 0); /* the second kernel needs no help */
    assert_true(shape.second.x > 0);
    assert_int_equal(shape.workspace, 0);
    args = dense_args();
    args.batch = 0;
    expect_ok(fill(SPEC, &args, &shape));
    assert_int_equal(shape.main.x + shape.second.x, 0);
    args = dense_args();
    args.seqlen_q = 0; /* keys without queries: zeros */
    args.q.data = args.dout.data = NULL;
    expect_ok(fill(SPEC, &args, &shape));
    assert_true(shape.main.x > 0);
    assert_int_equal(shape.second.x, 0);
    assert_null(shape.params.dq);
}

/* On Hopper both kernels of a deterministic backward are persistent, each with tensor maps of its own boxes. */
static void a_deterministic_backward_on_hopper_has_boxes_for_each_kernel(void **state)
{
    (void)state;
    struct backward_shape shape;
    gdpa_args args = dense_args();
    gdpa_spec spec;
    const struct kernel_plan plan = plan_for(HOPPER " deterministic", &spec);
    expect_ok(backward_shape_fill(&spec, &plan, &args, &shape));
    assert_true(shape.boxed && shape.persistent && shape.second_boxed);
    assert_int_equal(shape.params.query_tiles_per_seq, (300 + plan.dq_rows - 1) / plan.dq_rows);
    assert_int_equal(shape.second.x, shape.params.query_tiles_per_seq * 2 * 4);
    assert_int_equal(shape.second.block, plan.dq_threads);
    assert_int_equal(shape.second.smem, plan.dq_smem_bytes);
    const int32_t main_rows[] = {plan.block_m, plan.block_n, plan.block_n, plan.block_m};
    const int32_t second_rows[] = {plan.dq_rows, plan.dq_keys, plan.dq_keys, plan.dq_rows};
    const void *const data[] = {args.q.data, args.k.data, args.v.data, args.dout.data};
    assert_int_equal(backward_boxes_count(shape.boxes), 4);
    assert_int_equal(backward_boxes_count(shape.second_boxes), 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(shape.boxes[i].rows, main_rows[i]);
        assert_int_equal(shape.second_boxes[i].rows, second_rows[i]);
        assert_ptr_equal(shape.second_boxes[i].data, data[i]);
    }
    backward_shape_fit(&shape, 3);
    assert_int_equal(shape.main.x, 3);
    assert_int_equal(shape.second.x, 3);
    args.dk.data = args.dv.data = NULL;
    expect_ok(backward_shape_fill(&spec, &plan, &args, &shape));
    assert_true(!shape.boxed && shape.second_boxed);
    assert_int_equal(shape.main.x, 0);
    expect_ok(fill(HOPPER, &args, &shape));
    assert_true(shape.boxed && !shape.second_boxed);
    assert_true(shape.second.x > 3);
    const uint32_t blocks = shape.second.x; /* the conversion is not persistent */
    backward_shape_fit(&shape, 3);
    assert_int_equal(shape.second.x, blocks);
}

static void on_hopper_the_last_tiles_are_shared(void **state)
{
    (void)state;
    struct backward_shape shape;
    struct gdpa_bwd_sm90_main_params boxed;
    gdpa_args args = dense_args();
    args.batch = 8;
    args.heads_q = args.heads_k = 16;
    args.seqlen_q = args.seqlen_k = 4096;
    expect_ok(fill(HOPPER, &args, &shape));
    const size_t sums = (size_t)8 * 4096 * 16 * 48 * 4;
    assert_int_equal(shape.sums, sums);
    assert_int_equal(shape.zeros, sums + 512);
    assert_true(shape.workspace > shape.zeros && shape.workspace <= shape.zeros + (8 << 20));
    backward_shape_place(&shape, at(0x100000));
    backward_shape_fit(&shape, 132);
    assert_int_equal(shape.main.x, 132);
    assert_int_equal(shape.first_shared, 4096 - 4); /* 31 rounds of 132, and four tiles */
    assert_int_equal(shape.pieces, 8);
    assert_int_equal(shape.num_numbers, 4092 + 4 * 8);
    backward_boxed_fill(&shape, &boxed);
    assert_ptr_equal(boxed.tiles.common.dq_sum, at(0x100000));
    assert_ptr_equal(boxed.order.counter, at(0x100000 + sums));
    assert_ptr_equal(boxed.order.records, at(0x100000 + sums + 512));
    assert_int_equal(boxed.order.num_numbers, shape.num_numbers);
    backward_shape_fit(&shape, 128); /* no tile is left */
    assert_int_equal(shape.pieces, 1);
    backward_shape_fit(&shape, 100); /* too many are */
    assert_int_equal(shape.num_numbers, 4096);
}

static void on_hopper_tiles_of_causal_pairs_take_turns(void **state)
{
    (void)state;
    struct backward_shape shape;
    gdpa_args args = dense_args();
    expect_ok(fill(HOPPER " causal", &args, &shape));
    assert_int_equal(shape.turns, 4); /* 2 sequences of 2 heads */
    assert_false(shape.shares);
    args.batch = 3;
    expect_ok(fill(HOPPER " causal", &args, &shape));
    assert_int_equal(shape.turns, 1);
    expect_ok(fill(SPEC " causal", &args, &shape));
    assert_false(shape.ordered);
    assert_int_equal(shape.zeros, shape.workspace);
}

static void on_hopper_keys_of_one_tile_are_claimed_where_there_is_memory(void **state)
{
    (void)state;
    struct backward_shape shape;
    struct gdpa_bwd_sm90_main_params boxed;
    gdpa_args args = dense_args();
    args.seqlen_k = 128;
    expect_ok(fill(HOPPER, &args, &shape));
    assert_int_equal(shape.sums, 0);
    assert_int_equal(shape.workspace, 512);
    backward_shape_place(&shape, at(0x100000));
    backward_shape_fit(&shape, 132);
    backward_boxed_fill(&shape, &boxed);
    assert_ptr_equal(boxed.order.counter, at(0x100000));
    assert_null(boxed.tiles.common.dq_sum);
    backward_shape_place(&shape, NULL);
    backward_shape_fit(&shape, 132);
    backward_boxed_fill(&shape, &boxed);
    assert_null(boxed.order.counter);
    assert_int_equal(shape.zeros, 0);
    expect_ok(fill(HOPPER " deterministic", &args, &shape));
    assert_int_equal(shape.workspace, 0);
}

#define PAIRS "bwd head_dim=128 head_dim_v=64 activation=relu family=pairs arch=sm_90a"
#define WHOLE "bwd head_dim=40 activation=relu family=whole arch=sm_90a"

static void families_that_have_all_keys_write_dq_themselves(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t keys;
        uint32_t cluster;
    } cases[] = {{WHOLE, 0, 1}, {WHOLE, 128, 1}, {PAIRS, 0, 2}, {PAIRS, 100, 2}, {PAIRS, 256, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct backward_shape shape;
        struct gdpa_bwd_sm90_main_params boxed;
        gdpa_args args = dense_args();
        args.seqlen_k = cases[i].keys;
        expect_ok(fill(cases[i].text, &args, &shape));
        assert_true(shape.boxed && shape.persistent && shape.ordered && !shape.shares);
        assert_int_equal(shape.cluster, cases[i].cluster);
        assert_int_equal(shape.params.tiles_per_seq, 1); /* also without keys: dq is zero */
        assert_int_equal(shape.params.num_tiles, 4);
        assert_int_equal(shape.second.x, 0);
        assert_int_equal(shape.sums, 0);
        assert_int_equal(shape.workspace, 512);
        backward_shape_place(&shape, NULL);
        backward_shape_fit(&shape, 132);
        backward_boxed_fill(&shape, &boxed);
        assert_int_equal(shape.main.x, 4 * cases[i].cluster);
        assert_null(boxed.order.counter);
        assert_int_equal(shape.zeros, 0);
    }
}

static void blocks_of_pairs_come_in_whole_clusters(void **state)
{
    (void)state;
    static const struct {
        uint32_t multiprocessors;
        int32_t margin;
        uint32_t blocks;
    } cases[] = {{132, 0, 132}, {131, 0, 130}, {132, 1, 130}, {132, 3, 128},
                 {3, 0, 2},     {2, 1, 2},     {1, 0, 2},     {1, 5, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct backward_shape shape;
        gdpa_args args = dense_args();
        args.batch = 1000;
        args.sm_margin = cases[i].margin;
        expect_ok(fill(PAIRS, &args, &shape));
        backward_shape_fit(&shape, cases[i].multiprocessors);
        assert_int_equal(shape.main.x, cases[i].blocks);
        assert_int_equal(shape.main.y, 1);
    }
}

static void keys_that_a_family_cannot_have_all_are_refused_where_dq_is_wanted(void **state)
{
    (void)state;
    struct backward_shape shape;
    gdpa_args args = dense_args();
    args.seqlen_k = 129;
    expect_failure(fill(WHOLE, &args, &shape), GDPA_E_ARGUMENT,
                   "a sequence may have 129 keys (seqlen_k), and family whole makes dq from all of them at a time, at "
                   "most 128; take family sm90, or leave family auto");
    args.seqlen_k = 257;
    expect_failure(fill(PAIRS, &args, &shape), GDPA_E_ARGUMENT, "257 keys (seqlen_k), and family pairs");
    args.dq.data = NULL;
    expect_ok(fill(PAIRS, &args, &shape));
    assert_int_equal(shape.params.tiles_per_seq, 2); /* of 256 keys */
    args = jagged_args();
    expect_failure(
        fill(PAIRS " layout_q=jagged layout_k=jagged", &args, &shape), GDPA_E_ARGUMENT,
        "2000 keys (total_k, max_seqlen_k is 0), and family pairs makes dq from all of them at a time, at most "
        "256; give the true max_seqlen_k");
    args.max_seqlen_k = 300;
    expect_failure(fill(PAIRS " layout_q=jagged layout_k=jagged", &args, &shape), GDPA_E_ARGUMENT,
                   "300 keys (max_seqlen_k)");
    args.max_seqlen_k = 256;
    expect_ok(fill(PAIRS " layout_q=jagged layout_k=jagged", &args, &shape));
    assert_int_equal(shape.params.tiles_per_seq, 1);
    args.max_seqlen_k = 0;
    args.total_k = 256;
    expect_ok(fill(PAIRS " layout_q=jagged layout_k=jagged", &args, &shape));
}

static void the_box_of_dq_is_sixteen_rows_where_the_copy_engine_stores_them(void **state)
{
    (void)state;
    struct backward_shape shape;
    gdpa_args args = dense_args();
    args.seqlen_k = 100;
    expect_ok(fill(PAIRS, &args, &shape));
    const struct tensor_box *box = &shape.boxes[4];
    static const uint64_t extents[TENSOR_BOX_RANK] = {128, 300, 4, 2};
    static const uint64_t strides[TENSOR_BOX_RANK - 1] = {4 * 128 * 2, 128 * 2, 300 * 4 * 128 * 2};
    assert_int_equal(backward_boxes_count(shape.boxes), 5);
    assert_ptr_equal(box->data, args.dq.data);
    assert_int_equal(box->rows, 16);
    assert_int_equal(box->dtype, GDPA_DTYPE_BF16);
    assert_memory_equal(box->extents, extents, sizeof extents);
    assert_memory_equal(box->strides, strides, sizeof strides);
    expect_ok(fill(PAIRS " out_dtype=fp16", &args, &shape));
    assert_int_equal(shape.boxes[4].dtype, GDPA_DTYPE_FP16);
    /* None of fp32, without dq, and of the other families. */
    expect_ok(fill(PAIRS " out_dtype=fp32", &args, &shape));
    assert_int_equal(backward_boxes_count(shape.boxes), 4);
    expect_ok(fill(HOPPER, &args, &shape));
    assert_int_equal(backward_boxes_count(shape.boxes), 4);
    expect_ok(fill(WHOLE " head_dim_v=128", &args, &shape)); /* whose warpgroups have half of a box */
    assert_int_equal(backward_boxes_count(shape.boxes), 4);
    args.dq.data = NULL;
    expect_ok(fill(PAIRS, &args, &shape));
    assert_int_equal(backward_boxes_count(shape.boxes), 4);
}

/* X(change of `a`, status, text of the error) */
#define BAD(X)                                                                                                         \
    X(a->dout.data = NULL, GDPA_E_ARGUMENT, "dout.data is NULL")                                                       \
    X(a->q.data = NULL, GDPA_E_ARGUMENT, "q.data is NULL")                                                             \
    X(a->dq.data = at(0x60002), GDPA_E_ARGUMENT, "dq.data")                                                            \
    X(a->dk.dtype = GDPA_DTYPE_FP32, GDPA_E_ARGUMENT, "dk.dtype is 3 (fp32), but the kernel is made for bf16")         \
    X(a->dout.dtype = GDPA_DTYPE_FP16, GDPA_E_ARGUMENT, "dout.dtype is 2")                                             \
    X(a->dv.data = a->dk.data, GDPA_E_ARGUMENT, "dk.data is")                                                          \
    X(a->dq.data = a->q.data, GDPA_E_ARGUMENT, "and so is q.data: a gradient needs memory of its own")                 \
    X((a->dk.flags = GDPA_TENSOR_STRIDES, a->dk.stride_dim = 1), GDPA_E_ARGUMENT,                                      \
      "results would overwrite each other")                                                                            \
    X(a->dv.flags = 8, GDPA_E_VERSION, "dv.flags 0x8")                                                                 \
    X(a->flags |= GDPA_ARGS_ACCUMULATE, GDPA_E_ARGUMENT, "GDPA_ARGS_ACCUMULATE is set, but out_dtype is bf16")         \
    X(a->flags |= 0x10, GDPA_E_VERSION, "flags 0x10 of gdpa_args")                                                     \
    X((a->flags |= GDPA_ARGS_SCALE, a->scale = 1e30f * 1e30f), GDPA_E_ARGUMENT, "scale is inf")                        \
    X(a->heads_k = 3, GDPA_E_ARGUMENT, "heads_q 4 is not a multiple of heads_k 3")

static void bad_arguments_are_refused_by_name(void **state)
{
    (void)state;
    struct backward_shape shape, before;
    memset(&shape, 0xa5, sizeof shape);
    before = shape;
#define BAD_CHECK(change, status, text)                                                                                \
    {                                                                                                                  \
        gdpa_args args = dense_args();                                                                                 \
        gdpa_args *const a = &args;                                                                                    \
        change;                                                                                                        \
        expect_failure(fill(SPEC, a, &shape), status, text);                                                           \
        assert_memory_equal(&shape, &before, sizeof shape);                                                            \
    }
    BAD(BAD_CHECK)
#undef BAD_CHECK
    expect_failure(fill(SPEC, NULL, &shape), GDPA_E_ARGUMENT, "args is NULL");
}

static void gradients_may_be_views_of_one_buffer(void **state)
{
    (void)state;
    struct backward_shape shape;
    gdpa_args args = dense_args();
    const int64_t row = 4 * 40 + 2 * 40 + 2 * 64;
    gdpa_tensor *const tensors[] = {&args.dq, &args.dk, &args.dv};
    const int64_t offsets[] = {0, 4 * 40 * 2, 6 * 40 * 2}, heads[] = {40, 40, 64}, rows[] = {300, 200, 200};
    for (int i = 0; i < 3; i++) {
        tensors[i]->data = at(0x100000 + (uintptr_t)offsets[i]);
        tensors[i]->flags = GDPA_TENSOR_STRIDES;
        tensors[i]->stride_dim = 1;
        tensors[i]->stride_head = heads[i];
        tensors[i]->stride_row = row;
        tensors[i]->stride_batch = row * rows[i];
    }
    expect_ok(fill(SPEC, &args, &shape));
    assert_int_equal(shape.params.dk_stride_row, row);
}

/* One buffer for all gradients, in which a part without elements begins where the next one does. */
static void what_has_no_elements_shares_no_memory(void **state)
{
    (void)state;
    struct backward_shape shape;
    gdpa_args args = dense_args();
    args.seqlen_k = 0;
    args.dk.data = args.dv.data = args.dq.data;
    args.k.data = args.v.data = args.q.data;
    expect_ok(fill(SPEC, &args, &shape));
    assert_null(shape.params.dk);
    assert_true(shape.main.x > 0);
    args = dense_args();
    args.seqlen_q = 0;
    args.dq.data = args.dk.data;
    args.q.data = args.dout.data = args.dv.data;
    expect_ok(fill(HOPPER, &args, &shape));
    assert_null(shape.params.dq);
    args = dense_args();
    args.batch = 0;
    args.dq.data = args.dk.data = args.dv.data = args.q.data;
    expect_ok(fill(SPEC, &args, &shape));
    assert_int_equal(shape.main.x + shape.second.x, 0);
    args = jagged_args();
    args.total_q = 0;
    args.dq.data = args.dk.data;
    expect_ok(fill(JAGGED, &args, &shape));
    args.total_q = 1;
    expect_failure(fill(JAGGED, &args, &shape), GDPA_E_ARGUMENT, "and so is dk.data");
}

static void an_older_struct_has_no_gradients(void **state)
{
    (void)state;
    struct backward_shape shape;
    gdpa_args args = dense_args();
    args.size = offsetof(gdpa_args, dout);
    expect_ok(fill(SPEC, &args, &shape));
    assert_int_equal(shape.main.x + shape.second.x, 0);
}

static void accumulating_gradients_is_said_to_the_kernel(void **state)
{
    (void)state;
    struct backward_shape shape;
    gdpa_args args = dense_args();
    args.flags |= GDPA_ARGS_ACCUMULATE;
    expect_ok(fill(SPEC " out_dtype=fp32", &args, &shape));
    assert_int_equal(shape.params.accumulate, 1);
}

static void huge_problems_do_not_overflow(void **state)
{
    (void)state;
    struct backward_shape shape;
    gdpa_args args = dense_args();
    args.batch = INT64_C(2147483646);
    args.seqlen_q = args.seqlen_k = INT64_C(2147418112);
    args.heads_q = args.heads_k = 1000000;
    gdpa_tensor *const tensors[] = {&args.q, &args.k, &args.v, &args.dout, &args.dq, &args.dk, &args.dv};
    for (int i = 0; i < 7; i++) {
        tensors[i]->data = i < 4 ? tensors[i]->data : NULL;
        tensors[i]->flags = GDPA_TENSOR_STRIDES;
        tensors[i]->stride_dim = 1;
    }
    args.dq.data = at(0x60000);
    args.dq.stride_head = 40;
    args.dq.stride_row = 40000000;
    args.dq.stride_batch = INT64_C(40000000) * 2147418112;
    expect_failure(fill(SPEC, &args, &shape), GDPA_E_ARGUMENT, "2^63");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_gradients_take_both_kernels_and_a_workspace),
        cmocka_unit_test(keys_that_fit_one_tile_need_no_workspace),
        cmocka_unit_test(only_what_is_wanted_is_launched),
        cmocka_unit_test(a_deterministic_backward_on_hopper_has_boxes_for_each_kernel),
        cmocka_unit_test(on_hopper_the_last_tiles_are_shared),
        cmocka_unit_test(on_hopper_tiles_of_causal_pairs_take_turns),
        cmocka_unit_test(on_hopper_keys_of_one_tile_are_claimed_where_there_is_memory),
        cmocka_unit_test(families_that_have_all_keys_write_dq_themselves),
        cmocka_unit_test(blocks_of_pairs_come_in_whole_clusters),
        cmocka_unit_test(keys_that_a_family_cannot_have_all_are_refused_where_dq_is_wanted),
        cmocka_unit_test(the_box_of_dq_is_sixteen_rows_where_the_copy_engine_stores_them),
        cmocka_unit_test(bad_arguments_are_refused_by_name),
        cmocka_unit_test(gradients_may_be_views_of_one_buffer),
        cmocka_unit_test(what_has_no_elements_shares_no_memory),
        cmocka_unit_test(an_older_struct_has_no_gradients),
        cmocka_unit_test(accumulating_gradients_is_said_to_the_kernel),
        cmocka_unit_test(huge_problems_do_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
