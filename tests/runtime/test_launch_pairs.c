/*
 * Grids of kernels whose warps take (sequence, head) pairs.
 */
#include "runtime/launch_params.h"
#include "tests/support/runtime_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* A warp of 4 takes whole (sequence, head) pairs: the lengths do not matter. */
static void blocks_of_short_sequences_share_the_pairs_out(void **state)
{
    (void)state;
    static const struct {
        int64_t batch, heads;
        uint32_t multiprocessors, grid;
    } cases[] = {
        {1, 1, 132, 1},          /* a pair, a block */
        {3, 3, 132, 3},          /* as many warps as pairs, at least */
        {1000, 4, 132, 528},     /* as many as are resident */
        {100000, 4, 132, 25000}, /* some 4 pairs a warp */
        {1000000, 64, 1, 4000000},
        {2147483646, 3, 1, 402653184},
    };
    const gdpa_spec asked = runtime_spec("fwd head_dim=64 activation=relu family=short arch=sm_90a");
    gdpa_spec spec;
    struct kernel_plan plan;
    assert_int_equal(spec_normalise(&asked, false, &spec, NULL), GDPA_OK);
    assert_int_equal(plan_make(&spec, &plan, NULL, NULL), GDPA_OK);
    assert_int_equal(plan.warps * plan.min_blocks, 16);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gdpa_args args = runtime_args();
        struct launch_shape shape;
        args.batch = cases[i].batch;
        args.heads_q = args.heads_k = cases[i].heads;
        expect_ok(launch_shape_fill(&spec, &plan, &args, &shape));
        assert_int_equal(shape.params.num_tiles, cases[i].batch * cases[i].heads);
        launch_shape_fit(&shape, &plan, cases[i].multiprocessors);
        assert_int_equal(shape.grid, cases[i].grid);
        assert_int_equal(shape.grid_y, 1);
        assert_false(shape.boxed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_of_short_sequences_share_the_pairs_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
