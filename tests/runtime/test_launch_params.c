/*
 * Arguments to kernel parameters: every bad argument of spec.md section 6, strides, alignment, tiles, empty problems.
 */
#include "runtime/launch_checks.h"
#include "runtime/launch_params.h"
#include "tests/support/runtime_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static gdpa_spec normalised(const char *text)
{
    const gdpa_spec spec = runtime_spec(text);
    gdpa_spec result;
    struct sbuf why;
    sbuf_init(&why, 4096);
    if (spec_normalise(&spec, false, &result, &why) != GDPA_OK) {
        fail_msg("%s", why.text);
    }
    sbuf_deinit(&why);
    return result;
}

static struct kernel_plan plan_of(int block_m)
{
    const struct kernel_plan plan = {
        .family = KERNEL_FAMILY_PORTABLE, .block_m = block_m, .block_n = 64, .threads = 128, .smem_bytes = 4242};
    return plan;
}

#define DENSE "fwd head_dim=64 head_dim_v=32 activation=relu arch=sm_80"
#define JAGGED DENSE " layout_q=jagged layout_k=jagged"

static gdpa_args dense_args(void)
{
    return runtime_args();
}

static gdpa_args jagged_args(void)
{
    gdpa_args args = runtime_args();
    args.seqlen_q = args.seqlen_k = 0;
    args.total_q = 300;
    args.total_k = 500;
    args.cu_seqlens_q = (const int32_t *)(uintptr_t)0x1000;
    args.cu_seqlens_k = (const int32_t *)(uintptr_t)0x2000;
    return args;
}

static gdpa_status fill(const char *spec_text, const gdpa_args *args, struct launch_shape *shape)
{
    const gdpa_spec spec = normalised(spec_text);
    const struct kernel_plan plan = plan_of(64);
    return launch_shape_fill(&spec, &plan, args, shape);
}

/* ---------------------------------------------------------------------------------------------------------------
 * What is refused
 * ------------------------------------------------------------------------------------------------------------- */

static void strides_set(gdpa_tensor *tensor, int64_t batch, int64_t row, int64_t head)
{
    tensor->flags = GDPA_TENSOR_STRIDES;
    tensor->stride_batch = batch;
    tensor->stride_row = row;
    tensor->stride_head = head;
    tensor->stride_dim = 1;
}

/* X(name, change of `a`, status, text of the error) */
#define BAD_DENSE(X)                                                                                                   \
    X(size_zero, a->size = 0, GDPA_E_VERSION, "gdpa_args.size is 0")                                                   \
    X(size_small, a->size = offsetof(gdpa_args, dout) - 4, GDPA_E_VERSION, "smaller than any version of it")           \
    X(size_huge, a->size = 1 << 20, GDPA_E_VERSION, "far larger than")                                                 \
    X(flags_of_gradients, a->flags = GDPA_ARGS_ACCUMULATE, GDPA_E_ARGUMENT, "but the kernel is a forward one")         \
    X(flags_unknown, a->flags = 0x80, GDPA_E_VERSION, "flags 0x80 of gdpa_args")                                       \
    X(batch_negative, a->batch = -1, GDPA_E_ARGUMENT, "batch -1 is not in 0 to 2147483646")                            \
    X(batch_large, a->batch = INT64_C(2147483647), GDPA_E_ARGUMENT, "batch 2147483647 is not in 0 to 2147483646")      \
    X(heads_q_zero, a->heads_q = 0, GDPA_E_ARGUMENT, "heads_q 0 is not in 1 to 2147483647")                            \
    X(heads_k_zero, a->heads_k = 0, GDPA_E_ARGUMENT, "heads_k 0 is not in 1 to")                                       \
    X(heads_negative, a->heads_q = -4, GDPA_E_ARGUMENT, "heads_q -4 is not in 1 to")                                   \
    X(heads_large, a->heads_q = INT64_C(1) << 31, GDPA_E_ARGUMENT, "heads_q 2147483648 is not in 1 to")                \
    X(heads_no_multiple, a->heads_k = 3, GDPA_E_ARGUMENT, "heads_q 4 is not a multiple of heads_k 3")                  \
    X(heads_fewer, a->heads_k = 8, GDPA_E_ARGUMENT, "heads_q 4 is not a multiple of heads_k 8")                        \
    X(seqlen_q_negative, a->seqlen_q = -1, GDPA_E_ARGUMENT, "seqlen_q -1 is not in 0 to 2147418112")                   \
    X(seqlen_k_large, a->seqlen_k = INT64_C(2147418113), GDPA_E_ARGUMENT, "seqlen_k 2147418113 is not in 0 to")        \
    X(total_q_given, a->total_q = 6, GDPA_E_ARGUMENT, "total_q is 6, but layout_q is dense")                           \
    X(total_k_given, a->total_k = 6, GDPA_E_ARGUMENT, "total_k is 6, but layout_k is dense")                           \
    X(max_q_given, a->max_seqlen_q = 3, GDPA_E_ARGUMENT, "max_seqlen_q is 3, but layout_q is dense")                   \
    X(max_k_given, a->max_seqlen_k = 3, GDPA_E_ARGUMENT, "max_seqlen_k is 3, but layout_k is dense")                   \
    X(cu_q_given, a->cu_seqlens_q = (void *)(uintptr_t)64, GDPA_E_ARGUMENT,                                            \
      "cu_seqlens_q is given, but layout_q is dense")                                                                  \
    X(cu_k_given, a->cu_seqlens_k = (void *)(uintptr_t)64, GDPA_E_ARGUMENT,                                            \
      "cu_seqlens_k is given, but layout_k is dense")                                                                  \
    X(seqused_odd, a->seqused_k = (void *)(uintptr_t)66, GDPA_E_ARGUMENT, "seqused_k 0x42 is not aligned to 4 bytes")  \
    X(q_null, a->q.data = NULL, GDPA_E_ARGUMENT, "q.data is NULL, but q has 2 x 3 x 4 x 64 elements")                  \
    X(k_null, a->k.data = NULL, GDPA_E_ARGUMENT, "k.data is NULL, but k has 2 x 5 x 2 x 64 elements")                  \
    X(v_null, a->v.data = NULL, GDPA_E_ARGUMENT, "v.data is NULL, but v has 2 x 5 x 2 x 32 elements")                  \
    X(o_null, a->o.data = NULL, GDPA_E_ARGUMENT, "o.data is NULL, but o has 2 x 3 x 4 x 32 elements")                  \
    X(tensor_flags, a->k.flags = 2, GDPA_E_VERSION, "k.flags 0x2 has bits")                                            \
    X(q_dtype, a->q.dtype = GDPA_DTYPE_FP16, GDPA_E_ARGUMENT, "q.dtype is 2 (fp16), but the kernel is made for bf16")  \
    X(o_dtype, a->o.dtype = GDPA_DTYPE_FP32, GDPA_E_ARGUMENT, "o.dtype is 3 (fp32), but the kernel is made for bf16")  \
    X(dtype_none, a->v.dtype = 9, GDPA_E_ARGUMENT, "v.dtype is 9 (no type)")                                           \
    X(stride_dim, strides_set(&a->q, 768, 256, 64); a->q.stride_dim = 2, GDPA_E_ARGUMENT, "q.stride_dim is 2")         \
    X(stride_dim_zero, strides_set(&a->v, 320, 64, 32); a->v.stride_dim = 0, GDPA_E_ARGUMENT, "v.stride_dim is 0")     \
    X(stride_batch_negative, strides_set(&a->q, -768, 256, 64), GDPA_E_ARGUMENT,                                       \
      "q.stride_batch is -768; strides must not be negative")                                                          \
    X(stride_row_negative, strides_set(&a->k, 640, -128, 64), GDPA_E_ARGUMENT, "k.stride_row is -128")                 \
    X(stride_head_negative, strides_set(&a->v, 320, 64, -32), GDPA_E_ARGUMENT, "v.stride_head is -32")                 \
    X(q_odd_pointer, a->q.data = (void *)(uintptr_t)0x10001, GDPA_E_ARGUMENT,                                          \
      "q.data 0x10001 is not aligned to its element size of 2 bytes")                                                  \
    X(q_unaligned, a->q.data = (void *)(uintptr_t)0x10008, GDPA_E_ARGUMENT, "q.data 0x10008 is not aligned to 16")     \
    X(o_unaligned, a->o.data = (void *)(uintptr_t)0x40002, GDPA_E_ARGUMENT, "o.data 0x40002 is not aligned to 16")     \
    X(row_unaligned, strides_set(&a->k, 660, 132, 64), GDPA_E_ARGUMENT,                                                \
      "k.stride_batch 660 elements is not a multiple of 8 (16 bytes of bf16); set unaligned in the spec, or call "     \
      "gdpa_forward")                                                                                                  \
    X(head_unaligned, strides_set(&a->v, 512, 128, 36), GDPA_E_ARGUMENT, "v.stride_head 36 elements")                  \
    X(o_stride_zero_row, strides_set(&a->o, 512, 0, 32), GDPA_E_ARGUMENT, "o.stride_row is 0, but 32 elements lie")    \
    X(o_stride_zero_head, strides_set(&a->o, 512, 128, 0), GDPA_E_ARGUMENT, "o.stride_head is 0")                      \
    X(o_stride_zero_batch, strides_set(&a->o, 0, 128, 32), GDPA_E_ARGUMENT, "o.stride_batch is 0")                     \
    X(o_overlap, strides_set(&a->o, 512, 64, 32), GDPA_E_ARGUMENT, "o.stride_row is 64, but 128 elements lie before")  \
    X(q_reach, strides_set(&a->q, INT64_MAX - 7, 256, 64), GDPA_E_ARGUMENT, "q does not fit into 2^63 bytes")          \
    X(k_reach, strides_set(&a->k, 640, INT64_C(1) << 62, 64), GDPA_E_ARGUMENT, "k does not fit into 2^63 bytes")       \
    X(packed_overflow, a->heads_q = 2147483646; a->heads_k = 1; a->seqlen_q = 2147418112;                              \
      a->batch = 2, GDPA_E_ARGUMENT, "q does not fit into 2^63")

#define BAD_JAGGED(X)                                                                                                  \
    X(seqlen_q_given, a->seqlen_q = 7, GDPA_E_ARGUMENT,                                                                \
      "seqlen_q is 7, but layout_q is jagged: leave it 0 and set "                                                     \
      "total_q")                                                                                                       \
    X(seqlen_k_given, a->seqlen_k = 7, GDPA_E_ARGUMENT, "seqlen_k is 7, but layout_k is jagged")                       \
    X(total_negative, a->total_q = -2, GDPA_E_ARGUMENT, "total_q -2 is not in 0 to 2147418112")                        \
    X(total_large, a->total_k = INT64_C(1) << 31, GDPA_E_ARGUMENT, "total_k 2147483648 is not in 0 to")                \
    X(max_negative, a->max_seqlen_q = -1, GDPA_E_ARGUMENT, "max_seqlen_q -1 is not in 0 to")                           \
    X(cu_q_missing, a->cu_seqlens_q = NULL, GDPA_E_ARGUMENT,                                                           \
      "cu_seqlens_q is NULL, but layout_q is jagged: it must hold batch + 1 = 3 int32 offsets on the device")          \
    X(cu_k_missing, a->cu_seqlens_k = NULL, GDPA_E_ARGUMENT, "cu_seqlens_k is NULL, but layout_k is jagged")           \
    X(cu_q_odd, a->cu_seqlens_q = (void *)(uintptr_t)0x1002, GDPA_E_ARGUMENT, "cu_seqlens_q 0x1002 is not aligned")    \
    X(jagged_q_null, a->q.data = NULL, GDPA_E_ARGUMENT, "q.data is NULL, but q has 1 x 300 x 4 x 64 elements")         \
    X(jagged_o_overlap, strides_set(&a->o, 0, 0, 32), GDPA_E_ARGUMENT, "o.stride_row is 0")

#define CHANGE_FUNCTION(name, change, status, text)                                                                    \
    static void change_##name(gdpa_args *a)                                                                            \
    {                                                                                                                  \
        change;                                                                                                        \
    }
BAD_DENSE(CHANGE_FUNCTION)
BAD_JAGGED(CHANGE_FUNCTION)

struct bad_case {
    const char *name;
    void (*change)(gdpa_args *args);
    gdpa_status status;
    const char *text;
};

#define BAD_ROW(name, change, status, text) {#name, change_##name, status, text},
static const struct bad_case bad_dense[] = {BAD_DENSE(BAD_ROW)};
static const struct bad_case bad_jagged[] = {BAD_JAGGED(BAD_ROW)};

static void check_bad(const char *spec_text, gdpa_args (*base)(void), const struct bad_case *cases, size_t count)
{
    const gdpa_spec spec = normalised(spec_text);
    const struct kernel_plan plan = plan_of(64);
    for (size_t i = 0; i < count; i++) {
        gdpa_args args = base();
        struct launch_shape shape, before;
        memset(&shape, 0xa5, sizeof shape);
        before = shape;
        cases[i].change(&args);
        const gdpa_status status = launch_shape_fill(&spec, &plan, &args, &shape);
        if (status != cases[i].status || strstr(gdpa_last_error(), cases[i].text) == NULL) {
            fail_msg("%s: %s \"%s\", expected %s \"%s\"", cases[i].name, gdpa_status_name(status), gdpa_last_error(),
                     gdpa_status_name(cases[i].status), cases[i].text);
        }
        assert_memory_equal(&shape, &before, sizeof shape);
    }
}

static void every_bad_dense_argument_is_refused_by_name_and_value(void **state)
{
    (void)state;
    check_bad(DENSE, dense_args, bad_dense, sizeof bad_dense / sizeof bad_dense[0]);
}

static void every_bad_jagged_argument_is_refused_by_name_and_value(void **state)
{
    (void)state;
    check_bad(JAGGED, jagged_args, bad_jagged, sizeof bad_jagged / sizeof bad_jagged[0]);
}

static void a_missing_struct_is_refused(void **state)
{
    (void)state;
    struct launch_shape shape;
    expect_failure(fill(DENSE, NULL, &shape), GDPA_E_ARGUMENT, "args is NULL");
}

static void a_newer_struct_is_accepted_while_its_unknown_part_is_zero(void **state)
{
    (void)state;
    struct {
        gdpa_args args;
        uint64_t later[2];
    } newer = {.args = dense_args()};
    struct launch_shape shape, plain;
    const gdpa_args args = dense_args();
    newer.args.size = sizeof newer;
    expect_ok(fill(DENSE, &newer.args, &shape));
    expect_ok(fill(DENSE, &args, &plain));
    assert_memory_equal(&shape.params, &plain.params, sizeof shape.params);
    assert_int_equal(shape.grid, plain.grid);
    newer.later[1] = 1;
    expect_failure(fill(DENSE, &newer.args, &shape), GDPA_E_VERSION, "does not know");
}

/* ---------------------------------------------------------------------------------------------------------------
 * What is filled in
 * ------------------------------------------------------------------------------------------------------------- */

static void packed_tensors_get_the_strides_of_their_layout(void **state)
{
    (void)state;
    struct launch_shape shape;
    gdpa_args args = dense_args();
    expect_ok(fill(DENSE, &args, &shape));
    const struct gdpa_fwd_params *p = &shape.params;
    assert_int_equal(p->q_stride_batch, 3 * 4 * 64);
    assert_int_equal(p->q_stride_row, 4 * 64);
    assert_int_equal(p->q_stride_head, 64);
    assert_int_equal(p->k_stride_batch, 5 * 2 * 64);
    assert_int_equal(p->k_stride_row, 2 * 64);
    assert_int_equal(p->v_stride_batch, 5 * 2 * 32);
    assert_int_equal(p->v_stride_row, 2 * 32);
    assert_int_equal(p->v_stride_head, 32);
    assert_int_equal(p->o_stride_batch, 3 * 4 * 32);
    assert_int_equal(p->o_stride_row, 4 * 32);
    assert_ptr_equal(p->q, args.q.data);
    assert_ptr_equal(p->o, args.o.data);
    assert_int_equal(p->rows_q, 3);
    assert_int_equal(p->rows_k, 5);
    assert_int_equal(p->heads_per_group, 2);
    assert_int_equal(shape.block, 128);
    assert_int_equal(shape.smem, 4242);
    args = jagged_args();
    expect_ok(fill(JAGGED, &args, &shape));
    assert_int_equal(p->q_stride_batch, 0);
    assert_int_equal(p->q_stride_row, 4 * 64);
    assert_int_equal(p->rows_q, 300);
    assert_int_equal(p->rows_k, 500);
    assert_ptr_equal(p->cu_seqlens_k, args.cu_seqlens_k);
}

static void strides_of_extents_of_one_do_not_matter(void **state)
{
    (void)state;
    struct launch_shape shape;
    gdpa_args args = dense_args();
    args.batch = 1;
    args.heads_q = args.heads_k = 1;
    args.seqlen_q = 1;
    strides_set(&args.q, 7, 5, 3);
    strides_set(&args.o, 0, 0, 0);
    strides_set(&args.k, 1, 64, 1);
    expect_ok(fill(DENSE, &args, &shape));
    assert_int_equal(shape.params.q_stride_batch, 0);
    assert_int_equal(shape.params.q_stride_row, 0);
    assert_int_equal(shape.params.q_stride_head, 0);
    assert_int_equal(shape.params.k_stride_row, 64);
}

static void views_and_expanded_keys_are_legal(void **state)
{
    (void)state;
    struct launch_shape shape;
    gdpa_args args = dense_args();
    strides_set(&args.q, 3 * 4 * 3 * 64, 4 * 3 * 64, 3 * 64); /* one part of a packed [B, S, H, 3 D] */
    strides_set(&args.k, 0, 128, 64);                         /* one batch for all */
    strides_set(&args.v, 160, 32, 0);                         /* one head for all */
    strides_set(&args.o, 4 * 3 * 32, 32, 3 * 32);             /* [B, H, S, D] */
    expect_ok(fill(DENSE, &args, &shape));
    assert_int_equal(shape.params.k_stride_batch, 0);
    assert_int_equal(shape.params.v_stride_head, 0);
    assert_int_equal(shape.params.o_stride_row, 32);
    assert_int_equal(shape.params.q_stride_head, 192);
}

static void the_unaligned_kernel_takes_element_alignment(void **state)
{
    (void)state;
    struct launch_shape shape;
    gdpa_args args = dense_args();
    args.q.data = (void *)(uintptr_t)0x10002;
    strides_set(&args.k, 131 * 5, 131, 65);
    expect_ok(fill(DENSE " unaligned", &args, &shape));
    args.q.data = (void *)(uintptr_t)0x10003;
    expect_failure(fill(DENSE " unaligned", &args, &shape), GDPA_E_ARGUMENT, "element size of 2 bytes");
}

static void fp32_outputs_count_their_alignment_in_bytes(void **state)
{
    (void)state;
    struct launch_shape shape;
    gdpa_args args = dense_args();
    strides_set(&args.o, 4 * 3 * 36, 4 * 36, 36);
    expect_ok(fill(DENSE " out_dtype=fp32", &args, &shape));
    expect_failure(fill(DENSE, &args, &shape), GDPA_E_ARGUMENT, "o.stride_head 36 elements is not a multiple of 8");
    strides_set(&args.o, 4 * 3 * 34, 4 * 34, 34);
    expect_failure(fill(DENSE " out_dtype=fp32", &args, &shape), GDPA_E_ARGUMENT,
                   "o.stride_head 34 elements is not a multiple of 4 (16 bytes of fp32)");
}

static void the_need_for_the_unaligned_kernel_is_seen(void **state)
{
    (void)state;
    gdpa_spec spec = runtime_spec("fwd head_dim=64 activation=relu");
    gdpa_args args = dense_args();
    assert_false(args_are_unaligned(&spec, &args));
    args.v.data = (void *)(uintptr_t)0x30002;
    assert_true(args_are_unaligned(&spec, &args));
    args.seqlen_k = 0; /* nothing is read from v */
    assert_false(args_are_unaligned(&spec, &args));
    args = dense_args();
    strides_set(&args.q, 3 * 4 * 68, 4 * 68, 68);
    assert_true(args_are_unaligned(&spec, &args));
    args = dense_args();
    strides_set(&args.k, args.seqlen_k * (INT64_C(1) << 39), INT64_C(1) << 39,
                64); /* more than the copy engine steps */
    assert_true(args_are_unaligned(&spec, &args));
    args.size = 0;
    assert_false(args_are_unaligned(&spec, &args));
}

static void empty_problems_launch_nothing_and_need_no_memory(void **state)
{
    (void)state;
    struct launch_shape shape;
    gdpa_args args = GDPA_ARGS_INIT;
    args.heads_q = args.heads_k = 1;
    expect_ok(fill(DENSE, &args, &shape));
    assert_int_equal(shape.grid, 0);
    args.batch = 5;
    args.seqlen_k = 100;
    expect_ok(fill(DENSE, &args, &shape));
    assert_int_equal(shape.grid, 0);
    args.seqlen_k = 0;
    args.batch = 0; /* a jagged batch of no sequences needs no offsets either */
    expect_ok(fill(JAGGED, &args, &shape));
    assert_int_equal(shape.grid, 0);
    args = jagged_args();
    args.total_q = 0;
    args.q.data = args.o.data = args.k.data = args.v.data = NULL;
    expect_ok(fill(JAGGED, &args, &shape));
    assert_int_equal(shape.grid, 0);
}

static void without_keys_the_kernel_still_runs_to_write_zeros(void **state)
{
    (void)state;
    struct launch_shape shape;
    gdpa_args args = dense_args();
    args.seqlen_k = 0;
    args.k.data = args.v.data = NULL;
    expect_ok(fill(DENSE, &args, &shape));
    assert_int_equal(shape.grid, 2 * 4);
    assert_int_equal(shape.params.rows_k, 0);
    args.o.data = NULL;
    expect_failure(fill(DENSE, &args, &shape), GDPA_E_ARGUMENT, "o.data is NULL");
}

/* ---------------------------------------------------------------------------------------------------------------
 * Tiles
 * ------------------------------------------------------------------------------------------------------------- */

static void dense_tiles_cover_each_sequence(void **state)
{
    (void)state;
    static const struct {
        int64_t batch, rows, tiles_per_seq, tiles;
    } cases[] = {{1, 1, 1, 4},    {1, 64, 1, 4},         {1, 65, 2, 8},         {2, 128, 2, 16},
                 {3, 129, 3, 36}, {65536, 4, 1, 262144}, {200000, 1, 1, 800000}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct launch_shape shape;
        gdpa_args args = dense_args();
        args.batch = cases[i].batch;
        args.seqlen_q = cases[i].rows;
        expect_ok(fill(DENSE, &args, &shape));
        assert_int_equal(shape.params.tiles_per_seq, cases[i].tiles_per_seq);
        assert_int_equal(shape.params.num_tiles, cases[i].tiles);
        assert_int_equal(shape.grid, cases[i].tiles);
    }
}

static void jagged_tiles_are_direct_when_the_longest_is_known_and_that_is_not_more(void **state)
{
    (void)state;
    static const struct {
        int64_t batch, total, longest, tiles_per_seq, tiles;
    } cases[] = {
        {2, 300, 0, 0, 4 * (300 / 64 + 2)},      /* unknown: search */
        {2, 300, 150, 3, 4 * 2 * 3},             /* 6 tiles a head, as few as by search */
        {2, 300, 200, 0, 4 * (300 / 64 + 2)},    /* 8 direct, 6 by search */
        {2, 300, 192, 3, 4 * 6},                 /* exactly as many: direct */
        {2, 300, 100000, 0, 4 * (300 / 64 + 2)}, /* a bound larger than the total is one all the same */
        {1, 300, 100000, 5, 4 * 5},
        {1, 300, INT64_MAX, 5, 4 * 5},
        {1000, 16000, 16, 1, 4 * 1000},
        {1152, 1152 * 1024, 2048, 0, 4 * (1152 * 1024 / 64 + 1152)},
        {1152, 1152 * 2048, 2048, 32, 4 * 1152 * 32},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct launch_shape shape;
        gdpa_args args = jagged_args();
        args.batch = cases[i].batch;
        args.total_q = cases[i].total;
        args.max_seqlen_q = cases[i].longest;
        expect_ok(fill(JAGGED, &args, &shape));
        assert_int_equal(shape.params.tiles_per_seq, cases[i].tiles_per_seq);
        assert_int_equal(shape.params.num_tiles, cases[i].tiles);
    }
}

static void the_search_numbering_gives_every_sequence_the_tiles_it_needs(void **state)
{
    (void)state;
    uint32_t random = 12345;
    for (int round = 0; round < 2000; round++) {
        int64_t lengths[20], start = 0, owner_end = 0;
        random = random * 1664525u + 1013904223u;
        const int batch = 1 + (int)(random >> 16) % 20;
        const int64_t block_m = (int64_t[]){16, 64, 128}[(random >> 8) % 3];
        for (int b = 0; b < batch; b++) {
            random = random * 1664525u + 1013904223u;
            lengths[b] = (random >> 12) % 4 == 0 ? 0 : (random >> 16) % 300;
        }
        for (int b = 0; b < batch; b++) {
            const int64_t first = start / block_m + b;
            const int64_t next = (start + lengths[b]) / block_m + b + 1;
            assert_int_equal(first, owner_end);
            assert_true(next - first >= (lengths[b] + block_m - 1) / block_m);
            owner_end = next;
            start += lengths[b];
        }
        assert_int_equal(owner_end, start / block_m + batch);
    }
}

static void more_tiles_than_a_launch_can_have_are_refused(void **state)
{
    (void)state;
    struct launch_shape shape;
    gdpa_args args = dense_args();
    args.batch = 2147483646;
    args.heads_q = args.heads_k = 1 << 20;
    args.seqlen_q = 1;
    args.seqlen_k = 0;
    strides_set(&args.q, 0, 0, 0);
    strides_set(&args.o, 32 * (1 << 20), 0, 32);
    expect_failure(fill(DENSE, &args, &shape), GDPA_E_ARGUMENT, "more than one launch can have; split the batch");
}

static void very_many_tiles_are_counted_in_64_bits_and_the_grid_is_limited(void **state)
{
    (void)state;
    struct launch_shape shape;
    gdpa_args args = dense_args();
    args.batch = 2147483646;
    args.heads_q = args.heads_k = 4;
    args.seqlen_q = 65;
    args.seqlen_k = 0;
    strides_set(&args.q, 0, 64, 0);
    strides_set(&args.o, 32 * 65 * 4, 32, 32 * 65);
    expect_ok(fill(DENSE, &args, &shape));
    assert_true(shape.params.num_tiles == INT64_C(2147483646) * 4 * 2);
    assert_int_equal(shape.grid_y, 8); /* 2^34 - 16 tiles */
    assert_true((int64_t)shape.grid * shape.grid_y >= shape.params.num_tiles);
    assert_true((int64_t)shape.grid * shape.grid_y < shape.params.num_tiles + shape.grid_y);
    args.heads_q = args.heads_k = 2147483646;
    args.batch = 2147483646;
    args.seqlen_q = 2147418112;
    strides_set(&args.q, 0, 0, 0);
    args.o.flags = 0;
    expect_failure(fill(DENSE, &args, &shape), GDPA_E_ARGUMENT, "o does not fit into 2^63");
}

static void one_layout_may_be_jagged_and_the_other_dense(void **state)
{
    (void)state;
    struct launch_shape shape;
    gdpa_args args = jagged_args();
    args.total_k = 0;
    args.cu_seqlens_k = NULL;
    args.seqlen_k = 250;
    args.seqused_k = (const int32_t *)(uintptr_t)0x3000;
    expect_ok(fill(DENSE " layout_q=jagged", &args, &shape));
    assert_int_equal(shape.params.rows_q, 300);
    assert_int_equal(shape.params.rows_k, 250);
    assert_int_equal(shape.params.k_stride_batch, 250 * 2 * 64);
    assert_null(shape.params.cu_seqlens_k);
    assert_ptr_equal(shape.params.seqused_k, args.seqused_k);
}

/* A block takes one place of every round of the grid; in so many rounds as a sequence has tiles, each of its places is another tile of one. */
static void persistent_blocks_meet_all_tiles_of_a_sequence_in_turn(void **state)
{
    (void)state;
    const struct kernel_plan plan = {.family = KERNEL_FAMILY_SM90};
    for (uint32_t grid = 3; grid <= 150; grid++) {
        for (uint32_t tiles = 1; tiles < 40 && tiles < grid - 1; tiles++) {
            struct launch_shape shape = {.grid = grid + 1, .grid_y = 1, .persistent = true};
            shape.params.tiles_per_seq = (int32_t)tiles;
            launch_shape_fit(&shape, &plan, grid);
            const uint32_t shift = (uint32_t)shape.params.round_shift;
            assert_true(shape.grid == grid && shift < grid);
            bool seen[40] = {false};
            for (uint32_t round = 0; round < tiles; round++) {
                assert_false(seen[round * (grid + shift) % tiles]);
                seen[round * (grid + shift) % tiles] = true;
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bad_dense_argument_is_refused_by_name_and_value),
        cmocka_unit_test(every_bad_jagged_argument_is_refused_by_name_and_value),
        cmocka_unit_test(a_missing_struct_is_refused),
        cmocka_unit_test(a_newer_struct_is_accepted_while_its_unknown_part_is_zero),
        cmocka_unit_test(packed_tensors_get_the_strides_of_their_layout),
        cmocka_unit_test(strides_of_extents_of_one_do_not_matter),
        cmocka_unit_test(views_and_expanded_keys_are_legal),
        cmocka_unit_test(the_unaligned_kernel_takes_element_alignment),
        cmocka_unit_test(fp32_outputs_count_their_alignment_in_bytes),
        cmocka_unit_test(the_need_for_the_unaligned_kernel_is_seen),
        cmocka_unit_test(empty_problems_launch_nothing_and_need_no_memory),
        cmocka_unit_test(without_keys_the_kernel_still_runs_to_write_zeros),
        cmocka_unit_test(dense_tiles_cover_each_sequence),
        cmocka_unit_test(jagged_tiles_are_direct_when_the_longest_is_known_and_that_is_not_more),
        cmocka_unit_test(the_search_numbering_gives_every_sequence_the_tiles_it_needs),
        cmocka_unit_test(more_tiles_than_a_launch_can_have_are_refused),
        cmocka_unit_test(very_many_tiles_are_counted_in_64_bits_and_the_grid_is_limited),
        cmocka_unit_test(one_layout_may_be_jagged_and_the_other_dense),
        cmocka_unit_test(persistent_blocks_meet_all_tiles_of_a_sequence_in_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
