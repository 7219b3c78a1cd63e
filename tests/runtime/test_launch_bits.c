/*
 * Arguments to kernel parameters: fields that count by a bit of their flags, numbers and strides.
 */
#include "runtime/launch_params.h"
#include "tests/support/runtime_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define DENSE "fwd head_dim=64 head_dim_v=32 activation=relu arch=sm_80"

static gdpa_args dense_args(void)
{
    return runtime_args();
}

static gdpa_status fill(const char *spec_text, const gdpa_args *args, struct launch_shape *shape)
{
    const struct kernel_plan plan = {
        .family = KERNEL_FAMILY_PORTABLE, .block_m = 64, .block_n = 64, .threads = 128, .smem_bytes = 4242};
    const gdpa_spec spec = runtime_spec(spec_text);
    gdpa_spec normalised;
    assert_int_equal(spec_normalise(&spec, false, &normalised, NULL), GDPA_OK);
    return launch_shape_fill(&normalised, &plan, args, shape);
}

static void scales_and_parameters_default_as_the_table_says(void **state)
{
    (void)state;
    struct launch_shape shape;
    gdpa_args args = dense_args();
    args.scale = args.out_scale = 1.0f; /* what is the default anyway needs no bit */
    expect_ok(fill("fwd head_dim=64 activation=leaky_relu arch=sm_80", &args, &shape));
    assert_true(shape.params.scale == 1.0f && shape.params.out_scale == 1.0f);
    assert_true(shape.params.activation_param == 0.01f);
    args.flags = GDPA_ARGS_SCALE | GDPA_ARGS_OUT_SCALE | GDPA_ARGS_ACTIVATION_PARAM;
    args.scale = -0.5f;
    args.out_scale = 0.0f;
    args.activation_param = -0.25f;
    expect_ok(fill("fwd head_dim=64 activation=leaky_relu arch=sm_80", &args, &shape));
    assert_true(shape.params.scale == -0.5f && shape.params.out_scale == 0.0f);
    assert_true(shape.params.activation_param == -0.25f);
    args = dense_args();
    expect_ok(fill("fwd head_dim=64 activation=elu arch=sm_80", &args, &shape));
    assert_true(shape.params.activation_param == 1.0f);
}

static void scalars_that_are_not_finite_are_refused_by_name(void **state)
{
    (void)state;
    static const float wrong[] = {(float)INFINITY, -(float)INFINITY, (float)NAN};
    struct launch_shape shape;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        gdpa_args args = dense_args();
        args.flags = GDPA_ARGS_SCALE | GDPA_ARGS_OUT_SCALE | GDPA_ARGS_ACTIVATION_PARAM;
        args.scale = wrong[i];
        expect_failure(fill(DENSE, &args, &shape), GDPA_E_ARGUMENT, "scale is ");
        args.scale = 1.0f;
        args.out_scale = wrong[i];
        expect_failure(fill(DENSE, &args, &shape), GDPA_E_ARGUMENT, "out_scale is ");
        args.out_scale = 1.0f;
        args.activation_param = wrong[i];
        expect_failure(fill(DENSE, &args, &shape), GDPA_E_ARGUMENT, "activation_param is ");
    }
}

static void a_number_without_its_bit_is_refused(void **state)
{
    (void)state;
    struct launch_shape shape;
    gdpa_args args = dense_args();
    args.scale = 0.088f;
    expect_failure(fill(DENSE, &args, &shape), GDPA_E_ARGUMENT,
                   "scale is 0.088, but its bit in args.flags is not set; set GDPA_ARGS_SCALE, or leave the field 0");
    args.flags = GDPA_ARGS_SCALE;
    args.out_scale = (float)NAN;
    expect_failure(fill(DENSE, &args, &shape), GDPA_E_ARGUMENT, "set GDPA_ARGS_OUT_SCALE");
    args.flags |= GDPA_ARGS_OUT_SCALE;
    args.out_scale = 2.0f;
    args.activation_param = 0.5f;
    expect_failure(fill(DENSE, &args, &shape), GDPA_E_ARGUMENT, "set GDPA_ARGS_ACTIVATION_PARAM");
    args.flags |= GDPA_ARGS_ACTIVATION_PARAM;
    expect_ok(fill(DENSE, &args, &shape));
}

static void strides_without_their_bit_are_refused_unless_they_are_the_packed_ones(void **state)
{
    (void)state;
    struct launch_shape shape;
    gdpa_args args = dense_args();
    args.k.stride_batch = args.seqlen_k * args.heads_k * 64;
    args.k.stride_row = args.heads_k * 64;
    args.k.stride_head = 64;
    expect_ok(fill(DENSE, &args, &shape));
    args.k.stride_row *= 3; /* a packed qkv */
    expect_failure(fill(DENSE, &args, &shape), GDPA_E_ARGUMENT, "; set GDPA_TENSOR_STRIDES, or leave the strides 0");
    expect_text(gdpa_last_error(), "k.stride_row is ");
    args.seqlen_k = 1; /* then it is not used */
    args.k.stride_batch = 0;
    expect_ok(fill(DENSE, &args, &shape));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scales_and_parameters_default_as_the_table_says),
        cmocka_unit_test(scalars_that_are_not_finite_are_refused_by_name),
        cmocka_unit_test(a_number_without_its_bit_is_refused),
        cmocka_unit_test(strides_without_their_bit_are_refused_unless_they_are_the_packed_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
