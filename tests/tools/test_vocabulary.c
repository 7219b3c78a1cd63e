/*
 * vocabulary: the words of a spec agree with the library that parses them.
 */
#include "tools/vocabulary.h"

#include "tools/tool.h"

#include "tests/tools/cli_test.h"

static void every_option_is_an_option_of_the_library(void **state)
{
    (void)state;
    assert_true(spec_word_count > 10);
    for (size_t i = 0; i < spec_word_count; i++) {
        const struct spec_word *word = &spec_words[i];
        int32_t lowest = 0;
        int32_t highest = 0;
        int32_t step = 0;
        assert_ptr_equal(spec_word_find(word->name, strlen(word->name)), word);
        if (strcmp(word->name, "pass") != 0) {
            assert_int_equal(gdpa_spec_bounds(word->name, &lowest, &highest, &step), GDPA_OK);
            assert_int_equal(lowest, word->lowest);
            assert_int_equal(highest, word->highest);
        }
    }
    assert_null(spec_word_find("head_dims", 9));
    assert_string_equal(spec_word_find("act", 3)->name, "activation");
}

static void every_value_and_alias_is_parsed_to_a_number_of_its_own(void **state)
{
    (void)state;
    for (size_t i = 0; i < spec_word_count; i++) {
        const struct spec_word *word = &spec_words[i];
        const char *value = NULL;
        const char *aliases = NULL;
        int previous = 0;
        bool is_choice = strncmp(word->kind, "CHOICE_", strlen("CHOICE_")) == 0;
        assert_int_equal(spec_word_value(word, 0, NULL) != NULL, is_choice);
        assert_int_equal(spec_word_value(word, 1, NULL) != NULL, is_choice);
        for (size_t k = 0; (value = spec_word_value(word, k, &aliases)) != NULL; k++) {
            gdpa_spec spec = GDPA_SPEC_INIT;
            bool is_pass = strcmp(word->name, "pass") == 0;
            char *text = is_pass ? tool_strdup(value) : tool_format("%s=%s", word->name, value);
            assert_int_equal(gdpa_spec_parse(text, &spec), GDPA_OK);
            int number = spec_word_number(word, &spec);
            assert_true(number > previous);
            assert_in_range(number, word->lowest, word->highest);
            assert_non_null(aliases);
            previous = number;
            free(text);
        }
    }
}

static void numbers_in_effect_have_their_defaults_filled_in(void **state)
{
    (void)state;
    static const struct {
        const char *spec, *option;
        int number;
    } cases[] = {
        {"d=64 act=relu", "pass", GDPA_PASS_FORWARD},
        {"bwd d=64 act=relu", "pass", GDPA_PASS_BACKWARD},
        {"d=64 act=relu", "head_dim", 64},
        {"d=64 act=relu", "head_dim_v", 64},
        {"d=64 dv=32 act=relu", "head_dim_v", 32},
        {"d=64 act=relu", "dtype", GDPA_DTYPE_BF16},
        {"d=64 act=relu", "out_dtype", GDPA_DTYPE_BF16},
        {"d=64 dtype=fp16 act=relu", "out_dtype", GDPA_DTYPE_FP16},
        {"d=64 dtype=fp16 out_dtype=fp32 act=relu", "out_dtype", GDPA_DTYPE_FP32},
        {"d=64 act=relu", "activation", GDPA_ACTIVATION_RELU},
        {"d=64 act=relu", "causal", 0},
        {"d=64 act=relu causal", "causal", 1},
        {"d=64 act=relu", "window_left", -1},
        {"d=64 act=relu window_left=0", "window_left", 0},
        {"d=64 act=relu window_right=5", "window_right", 5},
        {"d=64 act=relu causal", "window_right", 0},
        {"d=64 act=relu", "align", GDPA_ALIGN_BOTTOM_RIGHT},
        {"d=64 act=relu", "layout_q", GDPA_LAYOUT_DENSE},
        {"d=64 act=relu layout_k=jagged", "layout_k", GDPA_LAYOUT_JAGGED},
        {"d=64 act=relu", "schedule", GDPA_SCHEDULE_AUTO},
        {"d=64 act=relu", "arch", 0},
        {"d=64 act=relu arch=sm_90", "arch", 90},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        gdpa_spec spec = GDPA_SPEC_INIT;
        assert_int_equal(gdpa_spec_parse(cases[i].spec, &spec), GDPA_OK);
        const struct spec_word *word = spec_word_find(cases[i].option, strlen(cases[i].option));
        assert_non_null(word);
        assert_int_equal(spec_word_number(word, &spec), cases[i].number);
    }
}

static void lists_of_architectures_take_targets_and_aliases_once(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t count;
        int first, last;
    } cases[] = {
        {"sm_80", 1, 80, 80},
        {"90", 1, 90, 90},
        {"sm_90,sm_90a,hopper", 1, 90, 90},
        {"sm_80, 90a,sm_100", 3, 80, 100},
        {"all", 9, 80, 121},
        {"90,all", 9, 90, 121},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        int *archs = NULL;
        size_t count = 0;
        char why[512] = "";
        assert_true(arch_list_parse(cases[i].text, &archs, &count, why, sizeof why));
        assert_int_equal(count, cases[i].count);
        assert_int_equal(archs[0], cases[i].first);
        assert_int_equal(archs[count - 1], cases[i].last);
        free(archs);
    }
}

static void unknown_architectures_are_refused_with_the_list(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"sm_75", "unknown architecture sm_75 (did you mean sm_"},
        {"sm_80,volta", "unknown architecture volta; known are sm_80, "},
        {"", "no architecture in ''"},
        {",", "no architecture in ','"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        int *archs = NULL;
        size_t count = 0;
        char why[512] = "";
        assert_false(arch_list_parse(cases[i].text, &archs, &count, why, sizeof why));
        assert_null(archs);
        assert_memory_equal(why, cases[i].why, strlen(cases[i].why));
    }
}

static void limits_of_a_chip_are_found_by_number(void **state)
{
    (void)state;
    assert_string_equal(arch_limits_find(90)->target, "sm_90a");
    assert_int_equal(arch_limits_find(80)->warps_sm, 64);
    assert_null(arch_limits_find(75));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_is_an_option_of_the_library),
        cmocka_unit_test(every_value_and_alias_is_parsed_to_a_number_of_its_own),
        cmocka_unit_test(numbers_in_effect_have_their_defaults_filled_in),
        cmocka_unit_test(lists_of_architectures_take_targets_and_aliases_once),
        cmocka_unit_test(unknown_architectures_are_refused_with_the_list),
        cmocka_unit_test(limits_of_a_chip_are_found_by_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
