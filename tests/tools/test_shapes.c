/*
 * The table of shapes and the parsing of --shapes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "include/gdpajit.h"
#include "tools/shapes.h"

static void names_are_unique_and_every_row_is_sound(void **state)
{
    (void)state;
    for (size_t i = 0; i < shape_count(); i++) {
        assert_int_equal(shape_find(shapes[i].name), (int)i);
        assert_true(shapes[i].doc != NULL && shapes[i].doc[0] != 0);
        assert_true(shapes[i].heads_k > 0 && shapes[i].heads_q % shapes[i].heads_k == 0);
        assert_true(shapes[i].batch >= 0 && shapes[i].fixed_q >= 0 && shapes[i].fixed_k >= 0);
    }
    assert_true(shape_count() <= 64);
    assert_int_equal(shape_find("nothing"), -1);
}

/* What the specification asks to be tried. */
static void shapes_cover_groups_strides_maxima_and_scales(void **state)
{
    (void)state;
    bool ratios[17] = {false};
    bool strides[STRIDES_GAPS + 1] = {false};
    bool maxima[MAXIMUM_UNKNOWN + 1] = {false};
    bool scales[SCALE_ZERO + 1] = {false};
    bool lengths[LENGTHS_SAME + 1] = {false};
    bool mqa = false, large = false, seqused_q = false, seqused_k = false, parameter = false, out_scale = false;
    for (int i = 0; strncmp(shapes[i].name, "public-", 7) != 0; i++) {
        const struct shape *shape = &shapes[i];
        ratios[shape->heads_q / shape->heads_k] = true;
        strides[shape->strides] = true;
        maxima[shape->maximum] = true;
        scales[shape->scale] = true;
        lengths[shape->lengths_q] = true;
        lengths[shape->lengths_k] = true;
        mqa = mqa || (shape->heads_k == 1 && shape->heads_q >= 8);
        large = large || shape->batch > 65535;
        seqused_q = seqused_q || shape->seqused_q;
        seqused_k = seqused_k || shape->seqused_k;
        parameter = parameter || shape->parameter != 0;
        out_scale = out_scale || shape->out_scale < 0;
    }
    assert_true(ratios[1] && ratios[2] && ratios[3] && ratios[5] && ratios[8]);
    for (int i = 0; i <= STRIDES_GAPS; i++) {
        assert_true(strides[i]);
    }
    for (int i = 0; i <= MAXIMUM_UNKNOWN; i++) {
        assert_true(maxima[i]);
    }
    for (int i = 0; i <= SCALE_ZERO; i++) {
        assert_true(scales[i]);
    }
    for (int i = 0; i <= LENGTHS_SAME; i++) {
        assert_true(lengths[i]);
    }
    assert_true(mqa && large && seqused_q && seqused_k && parameter && out_scale);
}

static void lists_of_names_become_bits(void **state)
{
    (void)state;
    unsigned long long bits = 0;
    char why[256] = "";
    assert_true(shapes_parse("edges,single", &bits, why, sizeof why));
    assert_true(bits == (1ULL << shape_find("edges") | 1ULL << shape_find("single")));
    assert_true(shapes_parse("single,", &bits, why, sizeof why));
    assert_true(bits == 1ULL << shape_find("single"));
}

static void unknown_names_are_refused_with_the_nearest(void **state)
{
    (void)state;
    unsigned long long bits = 5;
    char why[256] = "";
    assert_false(shapes_parse("edges,singles", &bits, why, sizeof why));
    assert_non_null(strstr(why, "unknown shape singles (did you mean single?)"));
    assert_false(shapes_parse("", &bits, why, sizeof why));
    assert_string_equal(why, "no shape in ''");
    assert_false(shapes_parse(",", &bits, why, sizeof why));
    assert_string_equal(why, "no shape in ','");
    assert_true(bits == 5);
}

static void general_shapes_are_those_before_the_large_batch(void **state)
{
    (void)state;
    unsigned long long bits = shapes_general(GDPA_FAMILY_DEFAULT);
    assert_true(bits == shapes_general(GDPA_FAMILY_SM90));
    assert_true((bits >> shape_find("edges") & 1) && (bits >> shape_find("no-sequences") & 1));
    assert_false(bits >> shape_find("large-batch") & 1);
    assert_false(bits >> shape_find("small") & 1);
}

/* The host must know it: a family that has all keys of a sequence refuses what may be more. */
static void shapes_of_few_keys_promise_how_few_they_are(void **state)
{
    (void)state;
    for (int32_t family = GDPA_FAMILY_WHOLE; family <= GDPA_FAMILY_PAIRS; family++) {
        const unsigned long long bits = shapes_of_few_keys(family);
        int64_t most = 0;
        int count = 0;
        assert_true(bits == shapes_general(family));
        for (size_t row = 0; row < shape_count(); row++) {
            const struct shape *shape = &shapes[row];
            const bool empty = shape->lengths_k == LENGTHS_EMPTY;
            if ((bits >> row & 1) != 0) {
                count++;
                assert_true(shape->maximum == MAXIMUM_EXACT || empty);
                assert_true(shape->lengths_k != LENGTHS_EDGES || shape->batch == 0 || shape->fixed_k <= 1);
                assert_true(shape->lengths_k != LENGTHS_SAME || shape->lengths_q == LENGTHS_SHORT);
                most = shape->fixed_k > most ? shape->fixed_k : most;
                most = shape->lengths_k == LENGTHS_SAME && shape->fixed_q > most ? shape->fixed_q : most;
            }
        }
        assert_int_equal(most, family == GDPA_FAMILY_WHOLE ? 128 : 256);
        assert_int_equal(count, family == GDPA_FAMILY_WHOLE ? 12 : 17);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_unique_and_every_row_is_sound),
        cmocka_unit_test(shapes_cover_groups_strides_maxima_and_scales),
        cmocka_unit_test(lists_of_names_become_bits),
        cmocka_unit_test(unknown_names_are_refused_with_the_nearest),
        cmocka_unit_test(general_shapes_are_those_before_the_large_batch),
        cmocka_unit_test(shapes_of_few_keys_promise_how_few_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
