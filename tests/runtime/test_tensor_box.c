/*
 * What the copy engine is told of the tensors.
 */
#include "runtime/launch_params.h"
#include "runtime/tensor_box.h"
#include "tests/support/runtime_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct launch_shape shape_of(const char *text, const gdpa_args *args)
{
    const gdpa_spec spec = runtime_spec(text);
    gdpa_spec normalised;
    struct kernel_plan plan;
    struct launch_shape shape;
    expect_ok(spec_normalise(&spec, false, &normalised, NULL));
    expect_ok(plan_make(&normalised, &plan, NULL, NULL));
    expect_ok(launch_shape_fill(&normalised, &plan, args, &shape));
    assert_true(shape.boxed);
    assert_int_equal(shape.boxes[0].rows, plan.block_m);
    assert_int_equal(shape.boxes[2].rows, plan.block_n);
    return shape;
}

#define SPEC "fwd head_dim=128 head_dim_v=64 activation=relu arch=sm_90a family=sm90"

static void dense_tensors_have_rows_heads_and_sequences(void **state)
{
    (void)state;
    const gdpa_args args = runtime_args();
    const struct launch_shape shape = shape_of(SPEC, &args);
    static const uint64_t extents[TENSOR_BOX_COUNT][TENSOR_BOX_RANK] = {
        {128, 3, 4, 2}, {128, 5, 2, 2}, {64, 5, 2, 2}, {64, 3, 4, 2}};
    static const uint64_t strides[TENSOR_BOX_COUNT][TENSOR_BOX_RANK - 1] = {{4 * 128 * 2, 128 * 2, 3 * 4 * 128 * 2},
                                                                            {2 * 128 * 2, 128 * 2, 5 * 2 * 128 * 2},
                                                                            {2 * 64 * 2, 64 * 2, 5 * 2 * 64 * 2},
                                                                            {4 * 64 * 2, 64 * 2, 3 * 4 * 64 * 2}};
    for (int i = 0; i < TENSOR_BOX_COUNT; i++) {
        assert_memory_equal(shape.boxes[i].extents, extents[i], sizeof extents[i]);
        assert_memory_equal(shape.boxes[i].strides, strides[i], sizeof strides[i]);
        assert_int_equal(shape.boxes[i].dtype, GDPA_DTYPE_BF16);
    }
    assert_ptr_equal(shape.boxes[0].data, args.q.data);
    assert_ptr_equal(shape.boxes[1].data, args.k.data);
    assert_ptr_equal(shape.boxes[2].data, args.v.data);
    assert_ptr_equal(shape.boxes[3].data, args.o.data);
    assert_int_equal(shape.boxes[3].rows, 64);
}

/* The copy engine stores what has 16 bits; o of fp32 has no box. */
static void the_box_of_the_output_is_of_its_own_type(void **state)
{
    (void)state;
    const gdpa_args args = runtime_args();
    const struct launch_shape half = shape_of(SPEC " out_dtype=fp16", &args);
    assert_ptr_equal(half.boxes[3].data, args.o.data);
    assert_int_equal(half.boxes[3].dtype, GDPA_DTYPE_FP16);
    const struct launch_shape wide = shape_of(SPEC " out_dtype=fp32", &args);
    assert_ptr_equal(wide.boxes[3].data, args.q.data);
}

static void jagged_tensors_are_one_sequence(void **state)
{
    (void)state;
    gdpa_args args = runtime_args();
    args.seqlen_q = args.seqlen_k = 0;
    args.total_q = 300;
    args.total_k = 500;
    args.cu_seqlens_q = args.cu_seqlens_k = (const int32_t *)(uintptr_t)0x1000;
    const struct launch_shape shape = shape_of(SPEC " layout_q=jagged layout_k=jagged", &args);
    assert_int_equal(shape.boxes[0].extents[1], 300);
    assert_int_equal(shape.boxes[0].extents[3], 1);
    assert_int_equal(shape.boxes[1].extents[1], 500);
}

static void without_keys_a_box_stands_in_that_is_never_copied(void **state)
{
    (void)state;
    gdpa_args args = runtime_args();
    args.seqlen_k = 0;
    args.k.data = args.v.data = NULL;
    const struct launch_shape shape = shape_of(SPEC, &args);
    for (int i = 1; i <= 2; i++) {
        assert_ptr_equal(shape.boxes[i].data, args.q.data);
        assert_int_equal(shape.boxes[i].extents[1], 1);
    }
}

static void strides_that_the_copy_engine_cannot_step_are_refused(void **state)
{
    (void)state;
    gdpa_args args = runtime_args();
    args.k.flags = GDPA_TENSOR_STRIDES;
    args.k.stride_dim = 1;
    args.k.stride_head = 128;
    args.k.stride_row = 256;
    args.k.stride_batch = INT64_C(1) << 39;
    const gdpa_spec spec = runtime_spec(SPEC);
    gdpa_spec normalised;
    struct kernel_plan plan;
    struct launch_shape shape;
    expect_ok(spec_normalise(&spec, false, &normalised, NULL));
    expect_ok(plan_make(&normalised, &plan, NULL, NULL));
    expect_failure(launch_shape_fill(&normalised, &plan, &args, &shape), GDPA_E_ARGUMENT,
                   "k.stride_batch 549755813888 is more than the copy engine can step");
    args.batch = 1;
    args.k.stride_batch = INT64_C(1) << 39; /* of a single sequence: not stepped */
    expect_ok(launch_shape_fill(&normalised, &plan, &args, &shape));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_tensors_have_rows_heads_and_sequences),
        cmocka_unit_test(the_box_of_the_output_is_of_its_own_type),
        cmocka_unit_test(jagged_tensors_are_one_sequence),
        cmocka_unit_test(without_keys_a_box_stands_in_that_is_never_copied),
        cmocka_unit_test(strides_that_the_copy_engine_cannot_step_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
