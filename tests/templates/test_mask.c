/*
 * templates/mask.cuh on the host, for many windows, against the definition: query i stands at key i + off, off = Sk - Sq (bottom_right) or 0
 * (top_left), and sees the existing keys from there - left to there + right.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/host_build.h"
#include "tests/templates/host_mask.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

enum { BLOCK_N = 16, UNBOUNDED = -1, LONGEST = INT32_MAX - 1 };

static const int32_t sides[] = {UNBOUNDED, 0, 1, 2, 5, 16, 40, LONGEST};

struct variant {
    int32_t left, right;
    bool top_left, masked;
    struct host_mask functions;
};

enum { MOST_VARIANTS = 2 * COUNT_OF(sides) * COUNT_OF(sides) };

static struct host_build build;
static struct variant variants[MOST_VARIANTS];
static size_t variant_count;

/* ---- the host build ---- */

static void add_variant(FILE *text, const struct variant *variant, size_t number)
{
    static const char *const files[] = {"config_default.cuh", "mask.cuh", NULL};
    static const struct kernel_plan plan = {.family = KERNEL_FAMILY_PORTABLE,
                                            .block_m = 16,
                                            .block_n = BLOCK_N,
                                            .slice_n = 16,
                                            .warps = 1,
                                            .threads = 32,
                                            .stages = 2,
                                            .min_blocks = 1,
                                            .smem_bytes = 2 * (16 * 32 + 2 * BLOCK_N * (32 + 32)) + 16};
    char spec[200];
    snprintf(spec, sizeof(spec), "head_dim=32 activation=relu window_left=%d window_right=%d align=%s arch=80",
             (int)variant->left, (int)variant->right, variant->top_left ? "top_left" : "bottom_right");
    fprintf(text, "namespace variant_%zu {\n", number);
    host_build_add(&build, spec, &plan, files);
    fputs("static void keys(int64_t first_row, int64_t last_row, int32_t length_q, int32_t length_k, int32_t *begin, "
          "int32_t *end)\n"
          "{\n    const KeyRange range = visible_keys(first_row, last_row, length_q, length_k);\n"
          "    *begin = range.begin;\n    *end = range.end;\n}\n} // namespace\n",
          text);
    fprintf(text, "extern \"C\" { extern const host_mask functions_%zu;\n", number);
    if (variant->masked) {
        fprintf(text,
                "const host_mask functions_%zu = {variant_%zu::key_offset, variant_%zu::keys,\n"
                "    variant_%zu::tile_needs_mask, variant_%zu::is_visible, variant_%zu::hide}; }\n",
                number, number, number, number, number, number);
    } else {
        fprintf(text, "const host_mask functions_%zu = {variant_%zu::key_offset, variant_%zu::keys}; }\n", number,
                number, number);
    }
}

static void add_all(FILE *text)
{
    for (size_t i = 0; i < 2 * COUNT_OF(sides) * COUNT_OF(sides); ++i) {
        struct variant variant = {
            .left = sides[i / 2 % COUNT_OF(sides)], .right = sides[i / 2 / COUNT_OF(sides)], .top_left = i % 2 == 1};
        variant.masked = variant.left != UNBOUNDED || variant.right != UNBOUNDED;
        if (variant.masked || !variant.top_left) { /* without a mask nothing depends on align */
            add_variant(text, &variant, variant_count);
            variants[variant_count++] = variant;
        }
    }
}

static int build_all(void **state)
{
    (void)state;
    FILE *text = host_build_begin(&build);
    fputs("#include \"tests/templates/host_arithmetic.hpp\"\n"
          "#include \"tests/templates/host_mask.h\"\n",
          text);
    add_all(text);
    host_build_finish(&build);
    for (size_t i = 0; i < variant_count; ++i) {
        char name[32];
        snprintf(name, sizeof(name), "functions_%zu", i);
        variants[i].functions = *(const struct host_mask *)host_build_symbol(&build, name);
    }
    return 0;
}

static int remove_all(void **state)
{
    (void)state;
    host_build_end(&build);
    return 0;
}

/* ---- the definition ---- */

static int64_t offset_of(const struct variant *variant, int64_t length_q, int64_t length_k)
{
    return variant->top_left || !variant->masked ? 0 : length_k - length_q;
}

static bool in_band(const struct variant *variant, int64_t aligned_row, int64_t key)
{
    return (variant->left == UNBOUNDED || key >= aligned_row - variant->left) &&
           (variant->right == UNBOUNDED || key <= aligned_row + variant->right);
}

/* The lowest and behind the highest key that one of the rows sees; equal: none. */
static void brute_force(const struct variant *variant, int64_t first_row, int64_t last_row, int64_t length_q,
                        int64_t length_k, int64_t *begin, int64_t *end)
{
    int64_t offset = offset_of(variant, length_q, length_k);
    *begin = *end = 0;
    for (int64_t key = 0; key < length_k; ++key) {
        bool seen = false;
        for (int64_t row = first_row; row <= last_row && !seen; ++row) {
            seen = in_band(variant, row + offset, key);
        }
        *begin = seen && *end == 0 ? key : *begin;
        *end = seen ? key + 1 : *end;
    }
}

/* ---- tests ---- */

static void check_range(const struct variant *variant, int64_t first_row, int64_t last_row, int32_t length_q,
                        int32_t length_k)
{
    int64_t begin, end;
    int32_t got_begin = -7, got_end = -7;
    brute_force(variant, first_row, last_row, length_q, length_k, &begin, &end);
    variant->functions.visible_keys(first_row, last_row, length_q, length_k, &got_begin, &got_end);
    if (got_begin != begin || got_end != end) {
        fail_msg("left %d, right %d, %s, Sq %d, Sk %d: rows %d to %d see [%d, %d), not [%d, %d)", (int)variant->left,
                 (int)variant->right, variant->top_left ? "top_left" : "bottom_right", (int)length_q, (int)length_k,
                 (int)first_row, (int)last_row, (int)begin, (int)end, (int)got_begin, (int)got_end);
    }
}

static void the_range_of_a_query_tile_is_what_its_rows_see_and_no_more(void **state)
{
    (void)state;
    for (size_t v = 0; v < variant_count; ++v) {
        for (int32_t length_q = 1; length_q <= 20; ++length_q) {
            for (int32_t length_k = 0; length_k <= 20; ++length_k) {
                for (int32_t first_row = 0; first_row < length_q; first_row += 3) {
                    for (int32_t last_row = first_row; last_row < length_q; last_row += 4) {
                        check_range(&variants[v], first_row, last_row, length_q, length_k);
                    }
                }
            }
        }
    }
}

static void the_offset_is_that_of_the_alignment(void **state)
{
    (void)state;
    static const int32_t lengths[] = {0, 1, 17, 1000, LONGEST};
    for (size_t v = 0; v < variant_count; ++v) {
        for (size_t i = 0; i < COUNT_OF(lengths) * COUNT_OF(lengths) && variants[v].masked; ++i) {
            int32_t length_q = lengths[i % COUNT_OF(lengths)], length_k = lengths[i / COUNT_OF(lengths)];
            assert_true(variants[v].functions.key_offset(length_q, length_k) ==
                        offset_of(&variants[v], length_q, length_k));
        }
    }
}

static void single_pairs_follow_the_definition(void **state)
{
    (void)state;
    for (size_t v = 0; v < variant_count; ++v) {
        const struct host_mask *functions = &variants[v].functions;
        for (int64_t row = -45; row < 60 && variants[v].masked; ++row) {
            for (int64_t key = 0; key < 60; ++key) {
                bool low = in_band(&variants[v], row, key), high = in_band(&variants[v], row, key + 1);
                uint32_t kept = (low ? 0x0000ffffu : 0) | (high ? 0xffff0000u : 0);
                assert_int_equal(functions->is_visible(row, key), low);
                assert_int_equal(functions->hide(0xffffffffu, row, key), kept);
                assert_int_equal(functions->hide(0x3c01be02u, row, key), kept & 0x3c01be02u);
            }
        }
    }
}

static void a_tile_needs_the_mask_exactly_when_a_pair_in_it_is_hidden(void **state)
{
    (void)state;
    for (size_t v = 0; v < variant_count; ++v) {
        const struct variant *variant = &variants[v];
        for (int64_t offset = -30; offset <= 30 && variant->masked; offset += 3) {
            for (int64_t first_row = 0; first_row < 48; first_row += 16) {
                for (int32_t key = 0; key < 80; key += BLOCK_N) {
                    bool hidden = false;
                    for (int64_t pair = 0; pair < 13 * BLOCK_N && !hidden; ++pair) {
                        hidden = !in_band(variant, first_row + pair / BLOCK_N + offset, key + pair % BLOCK_N);
                    }
                    assert_int_equal(variant->functions.tile_needs_mask(first_row, first_row + 12, offset, key),
                                     hidden);
                }
            }
        }
    }
}

static int64_t largest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t smallest(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Sums of positions and windows pass 2^31. */
static void the_longest_sequences_and_windows_do_not_overflow(void **state)
{
    (void)state;
    static const int32_t lengths[] = {1, 2, 40, LONGEST - 1, LONGEST};
    for (size_t v = 0; v < variant_count; ++v) {
        const struct variant *variant = &variants[v];
        for (size_t i = 0; i < COUNT_OF(lengths) * COUNT_OF(lengths); ++i) {
            int32_t length_q = lengths[i % COUNT_OF(lengths)], length_k = lengths[i / COUNT_OF(lengths)];
            int64_t rows[] = {0, length_q / 2, length_q - 1};
            for (size_t r = 0; r < COUNT_OF(rows); ++r) {
                int64_t aligned = rows[r] + offset_of(variant, length_q, length_k);
                int64_t begin = variant->left == UNBOUNDED ? 0 : largest(0, aligned - variant->left);
                int64_t end = variant->right == UNBOUNDED ? length_k : smallest(length_k, aligned + variant->right + 1);
                int32_t got_begin, got_end;
                variant->functions.visible_keys(rows[r], rows[r], length_q, length_k, &got_begin, &got_end);
                assert_true(got_begin == (begin < end ? begin : 0) && got_end == (begin < end ? end : 0));
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_range_of_a_query_tile_is_what_its_rows_see_and_no_more),
        cmocka_unit_test(the_offset_is_that_of_the_alignment),
        cmocka_unit_test(single_pairs_follow_the_definition),
        cmocka_unit_test(a_tile_needs_the_mask_exactly_when_a_pair_in_it_is_hidden),
        cmocka_unit_test(the_longest_sequences_and_windows_do_not_overflow),
    };
    return cmocka_run_group_tests(tests, build_all, remove_all);
}
