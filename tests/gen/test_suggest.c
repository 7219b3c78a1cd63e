/*
 * suggest: distances by hand, and which words count as near.
 */
#include "gen/suggest.h"

#include "tests/gen/gen_test.h"

static void distances_count_single_edits_and_swaps(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        size_t distance;
    } cases[] = {
        {"", "", 0},
        {"", "abc", 3},
        {"silu", "silu", 0},
        {"silu", "sliu", 1},
        {"gelu", "gel", 1},
        {"relu", "xrelu", 1},
        {"kitten", "sitting", 3},
        {"ca", "abc", 3},
        {"abcdef", "badcfe", 3},
        {"ab", "ba", 1},
    };
    for (size_t i = 0; i < COUNT_OF(cases); ++i) {
        size_t a = strlen(cases[i].a), b = strlen(cases[i].b);
        assert_int_equal(edit_distance(cases[i].a, a, cases[i].b, b), cases[i].distance);
        assert_int_equal(edit_distance(cases[i].b, b, cases[i].a, a), cases[i].distance);
    }
}

static void words_that_are_too_long_are_far_from_everything(void **state)
{
    (void)state;
    char text[65];
    memset(text, 'a', sizeof(text));
    assert_int_equal(edit_distance(text, 64, text, 64), 0);
    assert_true(edit_distance(text, 65, text, 65) == SIZE_MAX);
    assert_true(edit_distance(text, 65, "a", 1) == SIZE_MAX);
    assert_true(edit_distance("a", 1, text, 65) == SIZE_MAX);
    struct suggestion suggestion;
    suggest_start(&suggestion, text, 65);
    suggest_offer(&suggestion, "a");
    assert_null(suggestion.nearest);
}

static void only_near_words_are_suggested(void **state)
{
    (void)state;
    static const char *const legal[] = {"head_dim", "head_dim_v", "causal", "window_left", "dtype", "relu"};
    static const struct {
        const char *word, *nearest;
    } cases[] = {
        {"head_dmi", "head_dim"},
        {"head_dim_q", "head_dim_v"},
        {"casual", "causal"},
        {"windowleft", "window_left"},
        {"dtyp", "dtype"},
        {"rel", "relu"},
        {"rx", NULL},
        {"banana", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < COUNT_OF(cases); ++i) {
        struct suggestion suggestion;
        suggest_start(&suggestion, cases[i].word, strlen(cases[i].word));
        for (size_t j = 0; j < COUNT_OF(legal); ++j) {
            suggest_offer(&suggestion, legal[j]);
        }
        if (cases[i].nearest == NULL) {
            assert_null(suggestion.nearest);
        } else {
            assert_non_null(suggestion.nearest);
            assert_string_equal(suggestion.nearest, cases[i].nearest);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distances_count_single_edits_and_swaps),
        cmocka_unit_test(words_that_are_too_long_are_far_from_everything),
        cmocka_unit_test(only_near_words_are_suggested),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
