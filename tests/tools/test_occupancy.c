/*
 * occupancy: blocks of an SM worked out by hand from the tables of the CUDA C programming guide.
 */
#include "tools/occupancy.h"

#include "tests/tools/cli_test.h"

static void blocks_are_those_of_the_programming_guide(void **state)
{
    (void)state;
    static const struct {
        int arch, registers, smem, threads;
        int blocks;
        const char *limiter;
    } cases[] = {
        /* 128 registers: 4096 a warp, 4 warps a quarter of the SM, 16 warps, so four blocks of four warps. */
        {90, 128, 1024, 128, 4, "registers"},
        /* 168 registers are 5376 a warp: three warps a quarter, 12 warps, three blocks of four. */
        {90, 168, 32768, 128, 3, "registers"},
        /* 255 registers are taken as 256. */
        {80, 255, 0, 256, 1, "registers"},
        /* 96 KiB and 1 KiB for the system: two of 97 KiB in 228 KiB; in 164 KiB one. */
        {90, 64, 98304, 128, 2, "shared memory"},
        {80, 64, 98304, 128, 1, "shared memory"},
        /* Nothing but warps is short: 64 of them, or 48. */
        {90, 32, 0, 256, 8, "warps"},
        {86, 32, 0, 256, 6, "warps"},
        /* Small blocks meet the limit of blocks: 32, 16 or 24. */
        {90, 16, 0, 32, 32, "blocks"},
        {86, 16, 0, 32, 16, "blocks"},
        {89, 16, 0, 32, 24, "blocks"},
        {120, 16, 0, 32, 24, "blocks"},
        /* A block that asks for everything there is. */
        {90, 128, 232448, 256, 1, "shared memory"},
        /* 33 threads are two warps. */
        {90, 32, 0, 33, 32, "warps"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct occupancy occupancy;
        assert_true(occupancy_compute(cases[i].arch, cases[i].registers, cases[i].smem, cases[i].threads, &occupancy));
        assert_int_equal(occupancy.blocks, cases[i].blocks);
        assert_string_equal(occupancy.limiter, cases[i].limiter);
        assert_int_equal(occupancy.warps, cases[i].blocks * ((cases[i].threads + 31) / 32));
        assert_in_range(occupancy.warps, 0, occupancy.warps_limit);
    }
}

static void impossible_numbers_are_refused(void **state)
{
    (void)state;
    static const int cases[][4] = {
        {70, 32, 0, 128},  {0, 32, 0, 128}, {90, 0, 0, 128},   {90, 256, 0, 128},
        {90, 32, -1, 128}, {90, 32, 0, 0},  {90, 32, 0, 1025}, {90, 32, 300000, 128},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct occupancy occupancy = {.blocks = 42};
        assert_false(occupancy_compute(cases[i][0], cases[i][1], cases[i][2], cases[i][3], &occupancy));
        assert_int_equal(occupancy.blocks, 42);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_those_of_the_programming_guide),
        cmocka_unit_test(impossible_numbers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
