/*
 * templates/tile_schedule.cuh on the host: every query tile that there is has one number and is found under it, whatever the lengths; and no
 * offsets, however wrong, lead out of memory.
 */
#include <assert.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "templates/params.h"
#include "tests/support/host_build.h"
#include "tests/support/random.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* What two lanes of the warp found. */
struct found {
    int32_t batch[2], head[2];
    int64_t first_row[2];
};
typedef uint32_t (*step_fn)(const struct gdpa_fwd_params *params);
typedef void (*find_fn)(const struct gdpa_fwd_params *params, int64_t tile, struct found *found);

static struct host_build build;
static find_fn find_tile, find_tile_causal;
static step_fn first_step, first_step_causal;
static uint32_t *host_block, *host_grid;
static const int32_t **readable_begin, **readable_end;
static int64_t *reads_outside;
static int64_t block_m; /* of the build */

static void add_variant(FILE *text, const char *name, const char *words)
{
    static const char *const files[] = {"config_default.cuh", "params.h", "tile_schedule.cuh", NULL};
    char spec[120];
    snprintf(spec, sizeof(spec), "head_dim=64 activation=relu layout_q=jagged %s arch=80", words);
    fprintf(text, "namespace %s_templates {\n", name);
    host_build_add(&build, spec, NULL, files);
    fprintf(text,
            "}\n"
            "extern \"C\" void %s(const %s_templates::gdpa_fwd_params *params, int64_t tile, found *found)\n"
            "{\n"
            "    const auto lanes = run_warp([=] { return %s_templates::find_tile(*params, tile); });\n"
            "    *found = {{lanes.first.batch, lanes.second.batch}, {lanes.first.head, lanes.second.head},\n"
            "              {lanes.first.first_row, lanes.second.first_row}};\n"
            "}\n"
            "extern \"C\" uint32_t %s_step(const %s_templates::gdpa_fwd_params *params)\n"
            "{\n    return %s_templates::first_step(*params);\n}\n"
            "extern \"C\" const int64_t %s_block_m = %s_templates::kBlockM;\n",
            name, name, name, name, name, name, name, name);
}

static int build_all(void **state)
{
    (void)state;
    FILE *text = host_build_begin(&build);
    fputs("#include \"tests/templates/host_arithmetic.hpp\"\n"
          "struct found {\n    int32_t batch[2], head[2];\n    int64_t first_row[2];\n};\n",
          text);
    add_variant(text, "plain", "");
    add_variant(text, "causal", "causal");
    host_build_finish(&build);
    host_build_function(&build, "plain", &find_tile);
    host_build_function(&build, "causal", &find_tile_causal);
    host_build_function(&build, "plain_step", &first_step);
    host_build_function(&build, "causal_step", &first_step_causal);
    host_block = host_build_symbol(&build, "host_block");
    host_grid = host_build_symbol(&build, "host_grid");
    block_m = *(const int64_t *)host_build_symbol(&build, "plain_block_m");
    assert_true(block_m == *(const int64_t *)host_build_symbol(&build, "causal_block_m"));
    readable_begin = host_build_symbol(&build, "readable_begin");
    readable_end = host_build_symbol(&build, "readable_end");
    reads_outside = host_build_symbol(&build, "reads_outside");
    return 0;
}

static int remove_all(void **state)
{
    (void)state;
    host_build_end(&build);
    return 0;
}

/* The tile with a number; all lanes must agree. */
static void find(find_fn function, const struct gdpa_fwd_params *params, int64_t tile, int32_t *batch, int32_t *head,
                 int64_t *first_row)
{
    struct found found;
    function(params, tile, &found);
    assert_int_equal(found.batch[0], found.batch[1]);
    assert_int_equal(found.head[0], found.head[1]);
    assert_true(found.first_row[0] == found.first_row[1]);
    *batch = found.batch[0];
    *head = found.head[0];
    *first_row = found.first_row[0];
}

/* ---- direct ---- */

static void check_direct(find_fn function, int32_t batch, int32_t heads, int32_t tiles, int32_t full_tiles)
{
    struct gdpa_fwd_params params = {
        .batch = batch, .heads_q = heads, .tiles_per_seq = tiles, .full_tiles_per_seq = full_tiles};
    int64_t count = (int64_t)batch * heads * tiles;
    unsigned char *seen = calloc((size_t)count, 1);
    assert_non_null(seen);
    for (int64_t tile = 0; tile < count; ++tile) {
        int32_t b, h;
        int64_t row;
        find(function, &params, tile, &b, &h, &row);
        assert_true(b >= 0 && b < batch && h >= 0 && h < heads && row >= 0 && row % block_m == 0);
        int64_t place = row / block_m;
        assert_true(place < tiles);
        int64_t index = ((int64_t)b * heads + h) * tiles + place;
        assert_int_equal(seen[index]++, 0);
        /* Short tiles, the last of their sequences, come behind all others. */
        bool is_short = full_tiles > 0 && place == tiles - 1;
        assert_true(function == find_tile_causal || is_short == (full_tiles > 0 && tile >= count - batch * heads));
    }
    free(seen);
}

static void every_tile_has_one_number_where_sequences_have_equally_many(void **state)
{
    (void)state;
    static const int32_t sizes[] = {1, 2, 3, 7, 32};
    *readable_begin = *readable_end = NULL; /* no memory is read */
    for (size_t i = 0; i < COUNT_OF(sizes) * COUNT_OF(sizes) * COUNT_OF(sizes); ++i) {
        int32_t batch = sizes[i % 5], heads = sizes[i / 5 % 5], tiles = sizes[i / 25];
        check_direct(find_tile, batch, heads, tiles, 0);
        check_direct(find_tile_causal, batch, heads, tiles, 0);
        check_direct(find_tile, batch, heads, tiles, tiles - 1);
    }
    assert_true(*reads_outside == 0);
}

/* The last group of 16 (sequence, head) pairs goes from the longest rows to the shortest, the one before it the other way, and so on. */
static void causal_groups_go_forth_and_back(void **state)
{
    (void)state;
    struct gdpa_fwd_params params = {.batch = 9, .heads_q = 5, .tiles_per_seq = 7}; /* groups of 16, 16 and 13 pairs */
    int64_t tile = 0;
    for (int group = 0; group < 3; ++group) {
        for (int round = 0; round < 7; ++round) {
            for (int pair = group * 16; pair < 45 && pair < group * 16 + 16; ++pair) {
                int32_t batch, head;
                int64_t first_row;
                find(find_tile_causal, &params, tile++, &batch, &head, &first_row);
                assert_int_equal(batch * 5 + head, pair);
                assert_true(first_row == (group == 1 ? round : 6 - round) * block_m);
            }
        }
    }
    assert_true(tile == 9 * 5 * 7);
}

/* Steps alternate between the first one and what is left of two rounds; every place belongs to one block. */
static void check_places(step_fn step, const struct gdpa_fwd_params *params, uint32_t grid)
{
    enum { ROUNDS = 6 };
    unsigned char seen[ROUNDS * 8] = {0};
    assert_true(grid <= 8);
    *host_grid = grid;
    for (*host_block = 0; *host_block < grid; ++*host_block) {
        uint32_t first = step(params), place = *host_block;
        assert_in_range(first, 1, 2 * grid - 1);
        for (int round = 0; round < ROUNDS; ++round) {
            assert_in_range(place, 0, ROUNDS * grid - 1);
            assert_int_equal(seen[place]++, 0);
            place += round % 2 == 0 ? first : 2 * grid - first;
        }
    }
}

static void persistent_blocks_share_the_places(void **state)
{
    (void)state;
    struct gdpa_fwd_params few = {.batch = 4, .heads_q = 4, .tiles_per_seq = 5};
    struct gdpa_fwd_params many = {.batch = 4, .heads_q = 5, .tiles_per_seq = 5};
    struct gdpa_fwd_params searched = {.batch = 1, .heads_q = 1};
    for (uint32_t grid = 1; grid <= 8; ++grid) {
        check_places(first_step, &few, grid);
        check_places(first_step_causal, &few, grid);
        check_places(first_step_causal, &many, grid);
        check_places(first_step_causal, &searched, grid);
    }
    /* There and back: the block of the longest tile gets the shortest next. */
    *host_grid = 8;
    *host_block = 0;
    assert_int_equal(first_step_causal(&few), 15);
    assert_int_equal(first_step_causal(&many), 8);
    assert_int_equal(first_step(&few), 8);
}

/* The number of a tile of a causal kernel, from the words of the template's comment. */
static int64_t causal_number(const struct gdpa_fwd_params *params, int64_t pair, int64_t place)
{
    int64_t pairs = (int64_t)params->batch * params->heads_q, groups = (pairs + 15) / 16, group = pair / 16;
    int64_t in_group = pairs - group * 16 < 16 ? pairs - group * 16 : 16;
    bool longest_first = (groups - 1 - group) % 2 == 0;
    int64_t round = longest_first ? params->tiles_per_seq - 1 - place : place;
    return group * 16 * params->tiles_per_seq + round * in_group + pair % 16;
}

static void numbers_of_more_than_32_bits_are_taken_apart(void **state)
{
    (void)state;
    struct gdpa_fwd_params params = {.batch = 2147483646, .heads_q = 999, .tiles_per_seq = 12345};
    static const int64_t batches[] = {0, 348, 349, 100000, 2147483645};
    for (size_t i = 0; i < COUNT_OF(batches); ++i) {
        for (int64_t head = 0; head < 999; head += 499) {
            for (int64_t place = 0; place < 12345; place += 6172) {
                int64_t pair = batches[i] * 999 + head, row;
                int32_t b, h;
                find(find_tile, &params, pair * 12345 + place, &b, &h, &row);
                assert_true(b == batches[i] && h == head && row == place * block_m);
                find(find_tile_causal, &params, causal_number(&params, pair, place), &b, &h, &row);
                assert_true(b == batches[i] && h == head && row == place * block_m);
            }
        }
    }
}

/* ---- search ---- */

static struct gdpa_fwd_params search_params(const int32_t *offsets, int32_t batch, int32_t heads)
{
    *readable_begin = offsets;
    *readable_end = offsets + batch + 1;
    return (struct gdpa_fwd_params){.cu_seqlens_q = offsets, .batch = batch, .heads_q = heads};
}

/* Rows [covered[b], ...) of each sequence are found in order, once for each head; numbers without rows are allowed. */
static void check_search(const int32_t *offsets, int32_t batch, int32_t heads, int64_t total)
{
    struct gdpa_fwd_params params = search_params(offsets, batch, heads);
    int64_t *covered = calloc((size_t)batch * (size_t)heads + 1, sizeof(*covered));
    assert_non_null(covered);
    int64_t tiles = (total / block_m + batch) * heads; /* as the host counts them */
    for (int64_t tile = 0; tile < tiles; ++tile) {
        int32_t b, h;
        int64_t row;
        find(find_tile, &params, tile, &b, &h, &row);
        assert_true(b >= -1 && b < batch && h >= 0 && h < heads && (b == -1 || row >= 0));
        if (b >= 0 && row < offsets[b + 1] - offsets[b]) {
            int64_t *next = &covered[(int64_t)b * heads + h];
            assert_true(row == *next);
            *next += block_m;
        }
    }
    for (int64_t i = 0; i < (int64_t)batch * heads; ++i) {
        int64_t length = offsets[i / heads + 1] - offsets[i / heads];
        assert_true(covered[i] == (length + block_m - 1) / block_m * block_m);
    }
    assert_true(*reads_outside == 0);
    free(covered);
}

static void every_tile_has_one_number_where_it_is_searched_for(void **state)
{
    (void)state;
    static const int32_t batches[] = {1, 2, 3, 31, 32, 33, 63, 64, 65, 100, 1023, 1024, 1025, 1100};
    static const int32_t lengths[] = {0, 0, 1, 15, 63, 64, 65, 127, 128, 129, 1000};
    struct random_source random = {.seed = 3};
    int32_t offsets[1101];
    for (int round = 0; round < 60; ++round) {
        int32_t batch = batches[(size_t)round % COUNT_OF(batches)];
        int kind = round / (int)COUNT_OF(batches); /* mixed; all empty; few long ones; mixed behind a gap */
        offsets[0] = kind == 3 ? (int32_t)random_between(&random, 1, 3000) : 0;
        for (int32_t b = 0; b < batch; ++b) {
            int32_t length = lengths[random_between(&random, 0, COUNT_OF(lengths) - 1)];
            length = kind == 1 ? 0 : kind == 2 && random_between(&random, 0, 9) > 0 ? 0 : length;
            offsets[b + 1] = offsets[b] + length;
        }
        check_search(offsets, batch, 1 + round % 3, offsets[batch]);
        check_search(offsets, batch, 1, offsets[batch] + 777); /* rows behind the last sequence */
    }
}

static void batches_above_65535_are_searched_too(void **state)
{
    (void)state;
    enum { BATCH = 200000 };
    int32_t *offsets = calloc(BATCH + 1, sizeof(*offsets));
    assert_non_null(offsets);
    for (int32_t b = 0; b < BATCH; ++b) {
        offsets[b + 1] = offsets[b] + b % 3 * 90;
    }
    struct gdpa_fwd_params params = search_params(offsets, BATCH, 1);
    for (int32_t b = 0; b < BATCH; b += 997) {
        int32_t batch, head;
        int64_t first_row;
        find(find_tile, &params, offsets[b] / block_m + b, &batch, &head, &first_row);
        assert_true(batch == b && first_row == 0);
    }
    assert_true(*reads_outside == 0);
    free(offsets);
}

/* Offsets may be anything. What is found is a sequence that exists, or none, and a row that is not before its first. */
static void no_offsets_lead_out_of_memory(void **state)
{
    (void)state;
    static const int32_t edges[] = {INT32_MIN, -1000000, -1, 0, 1, 127, 128, 5000, 1000000, INT32_MAX};
    struct random_source random = {.seed = 11};
    int32_t offsets[101];
    for (int round = 0; round < 3000; ++round) {
        int32_t batch = 1 + round % 100;
        for (int32_t i = 0; i <= batch; ++i) {
            offsets[i] = round % 3 == 0   ? edges[random_between(&random, 0, COUNT_OF(edges) - 1)]
                         : round % 3 == 1 ? (int32_t)random_between(&random, 0, 10000)
                                          : (int32_t)random_between(&random, INT32_MIN, INT32_MAX);
        }
        struct gdpa_fwd_params params = search_params(offsets, batch, 2);
        for (int64_t tile = 0; tile < 400; tile += 1 + tile / 16) {
            int32_t b, h;
            int64_t row;
            find(find_tile, &params, tile, &b, &h, &row);
            assert_true(b >= -1 && b < batch && h >= 0 && h < 2);
            assert_true(b == -1 || row >= 0);
        }
    }
    assert_true(*reads_outside == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tile_has_one_number_where_sequences_have_equally_many),
        cmocka_unit_test(causal_groups_go_forth_and_back),
        cmocka_unit_test(persistent_blocks_share_the_places),
        cmocka_unit_test(numbers_of_more_than_32_bits_are_taken_apart),
        cmocka_unit_test(every_tile_has_one_number_where_it_is_searched_for),
        cmocka_unit_test(batches_above_65535_are_searched_too),
        cmocka_unit_test(no_offsets_lead_out_of_memory),
    };
    return cmocka_run_group_tests(tests, build_all, remove_all);
}
