/*
 * templates/shared_tile.cuh on the host: the swizzle is a bijection, and what one instruction touches lies in different banks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/host_build.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

enum { UNIT_BYTES = 16, BANK_BYTES = 4, BANKS = 32, UNITS_A_PASS = BANKS * BANK_BYTES / UNIT_BYTES };

struct tile {
    int32_t rows, columns, bytes, units, chunk_units;
};
typedef void (*describe_fn)(struct tile *tile);
typedef uint32_t (*address_fn)(uint32_t base, uint32_t row, uint32_t unit);

/* Rows and columns of the tiles that are tried. */
static const struct {
    int32_t rows, columns;
} shapes[] = {{16, 8},  {16, 16},  {32, 24},   {32, 32},  {64, 40},  {16, 64},  {64, 72},
              {32, 96}, {64, 120}, {128, 128}, {16, 160}, {32, 192}, {64, 248}, {128, 256}};

static struct host_build build;
static describe_fn describe[COUNT_OF(shapes)];
static address_fn unit_address[COUNT_OF(shapes)];

static int build_all(void **state)
{
    (void)state;
    static const char *const files[] = {"shared_tile.cuh", NULL};
    FILE *text = host_build_begin(&build);
    fputs("#include \"tests/templates/host_arithmetic.hpp\"\n"
          "struct tile {\n    int32_t rows, columns, bytes, units, chunk_units;\n};\n",
          text);
    host_build_add(&build, "head_dim=64 activation=relu arch=80", NULL, files);
    for (size_t i = 0; i < COUNT_OF(shapes); ++i) {
        fprintf(text,
                "using Tile%zu = SharedTile<%d, %d>;\n"
                "extern \"C\" void describe_%zu(tile *tile)\n"
                "{\n    *tile = {Tile%zu::kRows, Tile%zu::kColumns, Tile%zu::kBytes, Tile%zu::kUnits, "
                "Tile%zu::kChunkUnits};\n}\n"
                "extern \"C\" uint32_t address_%zu(uint32_t base, uint32_t row, uint32_t unit)\n"
                "{\n    return Tile%zu{base}.unit_address(row, unit);\n}\n",
                i, (int)shapes[i].rows, (int)shapes[i].columns, i, i, i, i, i, i, i, i);
    }
    host_build_finish(&build);
    for (size_t i = 0; i < COUNT_OF(shapes); ++i) {
        char name[32];
        snprintf(name, sizeof(name), "describe_%zu", i);
        host_build_function(&build, name, &describe[i]);
        snprintf(name, sizeof(name), "address_%zu", i);
        host_build_function(&build, name, &unit_address[i]);
    }
    return 0;
}

static int remove_all(void **state)
{
    (void)state;
    host_build_end(&build);
    return 0;
}

static struct tile tile_of(size_t i)
{
    struct tile tile;
    describe[i](&tile);
    assert_int_equal(tile.rows, shapes[i].rows);
    assert_int_equal(tile.columns, shapes[i].columns);
    return tile;
}

static void units_fill_the_tile_once_each(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(shapes); ++i) {
        struct tile tile = tile_of(i);
        int32_t padded = plan_padded_dim(tile.columns);
        assert_int_equal(tile.bytes, tile.rows * padded * 2); /* what the plan counts with */
        assert_int_equal(tile.units, (tile.columns + 15) / 16 * 2);
        unsigned char *used = calloc((size_t)tile.bytes / UNIT_BYTES, 1);
        assert_non_null(used);
        for (int32_t row = 0; row < tile.rows; ++row) {
            for (int32_t unit = 0; unit < padded / 8; ++unit) {
                uint32_t address = unit_address[i](4096, (uint32_t)row, (uint32_t)unit) - 4096;
                assert_int_equal(address % UNIT_BYTES, 0);
                assert_in_range(address, 0, tile.bytes - UNIT_BYTES);
                assert_int_equal(used[address / UNIT_BYTES]++, 0);
            }
        }
        free(used);
    }
}

/* 8 units of 16 bytes are what shared memory reads or writes at a time: each in banks of its own. */
static void assert_no_conflict(size_t i, const uint32_t addresses[UNITS_A_PASS])
{
    uint32_t used = 0;
    for (size_t j = 0; j < UNITS_A_PASS; ++j) {
        used |= 1u << addresses[j] / UNIT_BYTES % UNITS_A_PASS;
    }
    if (used != (1u << UNITS_A_PASS) - 1) {
        fail_msg("%d x %d: units in the same banks", (int)shapes[i].rows, (int)shapes[i].columns);
    }
}

/* ldmatrix reads 8 rows of one unit each at a time, stmatrix-like stores write them. */
static void eight_rows_of_a_unit_are_in_different_banks(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(shapes); ++i) {
        struct tile tile = tile_of(i);
        for (uint32_t unit = 0; unit < (uint32_t)tile.units; ++unit) {
            for (uint32_t first_row = 0; first_row < (uint32_t)tile.rows; first_row += 8) {
                uint32_t addresses[UNITS_A_PASS];
                for (uint32_t row = 0; row < UNITS_A_PASS; ++row) {
                    addresses[row] = unit_address[i](0, first_row + row, unit);
                }
                assert_no_conflict(i, addresses);
            }
        }
    }
}

/* A copy writes neighbouring units of a row, and goes on in the next row where a chunk has fewer than 8. */
static void eight_neighbouring_units_are_in_different_banks(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(shapes); ++i) {
        struct tile tile = tile_of(i);
        uint32_t chunk_units = (uint32_t)tile.chunk_units;
        for (uint32_t row = 0; row < (uint32_t)tile.rows; row += UNITS_A_PASS / chunk_units) {
            for (uint32_t unit = 0; unit + chunk_units <= (uint32_t)tile.units; unit += chunk_units) {
                uint32_t addresses[UNITS_A_PASS];
                for (uint32_t j = 0; j < UNITS_A_PASS; ++j) {
                    addresses[j] = unit_address[i](0, row + j / chunk_units, unit + j % chunk_units);
                }
                assert_no_conflict(i, addresses);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_fill_the_tile_once_each),
        cmocka_unit_test(eight_rows_of_a_unit_are_in_different_banks),
        cmocka_unit_test(eight_neighbouring_units_are_in_different_banks),
    };
    return cmocka_run_group_tests(tests, build_all, remove_all);
}
