/*
 * specs: products, words, files and presets become lists of kernels, each once.
 */
#include "tools/specs.h"

#include "tests/tools/cli_test.h"

#include <unistd.h>

static const int one_arch[] = {90};
static const int two_archs[] = {80, 90};

static void products_give_every_combination_once(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const int *archs;
        size_t arch_count, count;
    } cases[] = {
        {"d=64 act=relu", one_arch, 1, 1},
        {"d=64,128 act=relu,silu causal=0,1", one_arch, 1, 8},
        {"d=64,128 act=relu,silu causal=0,1", two_archs, 2, 16},
        {"d=64 act=relu arch=sm_80,sm_100", two_archs, 2, 2},
        {"d=64,64 act=relu", one_arch, 1, 1},
        {"d=64 act=relu dtype=bf16 align=bottom_right,top_left", one_arch, 1, 1},
        {"d=64 dtype=all act=all", one_arch, 1, 34},
        {"d=64 act=relu", NULL, 0, 1},
        {"", one_arch, 1, 0},
        {" \t\n", one_arch, 1, 0},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct spec_list list;
        char why[512] = "";
        struct spec_rules rules = {.archs = cases[i].archs, .arch_count = cases[i].arch_count};
        spec_list_init(&list);
        assert_true(spec_list_add(&list, cases[i].text, "", &rules, why, sizeof why));
        assert_int_equal(list.count, cases[i].count);
        assert_true(spec_list_add(&list, cases[i].text, "", &rules, why, sizeof why));
        assert_int_equal(list.count, cases[i].count);
        for (size_t k = 0; k < list.count; k++) {
            gdpa_spec spec = GDPA_SPEC_INIT;
            assert_int_equal(gdpa_spec_parse(list.texts[k], &spec), GDPA_OK);
            assert_int_equal(spec.arch, list.specs[k].arch);
        }
        spec_list_deinit(&list);
    }
}

static void the_last_word_turns_fastest(void **state)
{
    (void)state;
    struct spec_list list;
    char why[512] = "";
    struct spec_rules rules = {.archs = one_arch, .arch_count = 1};
    spec_list_init(&list);
    assert_true(spec_list_add(&list, "d=64,128 act=relu,silu", "", &rules, why, sizeof why));
    static const int dims[] = {64, 64, 128, 128};
    static const int activations[] = {GDPA_ACTIVATION_RELU, GDPA_ACTIVATION_SILU, GDPA_ACTIVATION_RELU,
                                      GDPA_ACTIVATION_SILU};
    assert_int_equal(list.count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(list.specs[i].head_dim, dims[i]);
        assert_int_equal(list.specs[i].activation, activations[i]);
    }
    spec_list_deinit(&list);
}

static void words_form_specs_and_a_pass_or_a_blank_begins_a_new_one(void **state)
{
    (void)state;
    static const struct {
        const char *words[8];
        size_t count;
    } cases[] = {
        {{"d=64", "act=relu"}, 1},
        {{"fwd", "d=64", "act=relu", "fwd", "d=128", "act=relu"}, 2},
        {{"d=64 act=relu", "d=128 act=relu"}, 2},
        {{"d=64", "act=relu", "fwd d=128 act=silu", "d=32", "act=relu", "causal"}, 3},
        {{NULL}, 0},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct spec_list list;
        char why[512] = "";
        size_t words = 0;
        struct spec_rules rules = {.archs = one_arch, .arch_count = 1};
        while (words < 8 && cases[i].words[words] != NULL) {
            words++;
        }
        spec_list_init(&list);
        assert_true(spec_list_add_words(&list, cases[i].words, words, &rules, why, sizeof why));
        assert_int_equal(list.count, cases[i].count);
        spec_list_deinit(&list);
    }
}

struct refusals {
    size_t count;
    char last[256];
};

static void note_refusal(const char *origin, const char *text, const char *reason, void *user)
{
    struct refusals *refusals = user;
    refusals->count++;
    snprintf(refusals->last, sizeof refusals->last, "%s|%s", origin, text);
    assert_true(reason[0] != 0);
}

static void what_is_illegal_stops_or_is_counted(void **state)
{
    (void)state;
    struct spec_list list;
    char why[512] = "";
    struct refusals refusals = {0};
    struct spec_rules rules = {.archs = one_arch, .arch_count = 1, .refused = note_refusal, .user = &refusals};
    spec_list_init(&list);
    assert_false(spec_list_add(&list, "d=64,100 act=relu", "", &rules, why, sizeof why));
    assert_non_null(strstr(why, "d=100 act=relu: "));
    assert_int_equal(refusals.count, 0);
    spec_list_deinit(&list);
    rules.keep_going = true;
    assert_true(spec_list_add(&list, "d=64,100,128 act=relu", "here", &rules, why, sizeof why));
    assert_int_equal(list.count, 2);
    assert_int_equal(list.refused, 1);
    assert_int_equal(refusals.count, 1);
    assert_string_equal(refusals.last, "here|d=100 act=relu");
    assert_true(spec_list_add(&list, "d=64 act=rellu", "here", &rules, why, sizeof why));
    assert_int_equal(list.refused, 2);
    spec_list_deinit(&list);
}

static void too_many_combinations_or_words_are_refused_at_once(void **state)
{
    (void)state;
    struct spec_list list;
    char why[512] = "";
    char text[4096] = "";
    struct spec_rules rules = {.archs = one_arch, .arch_count = 1};
    spec_list_init(&list);
    for (int i = 0; i < 21; i++) {
        strcat(text, "causal=0,1 ");
    }
    assert_false(spec_list_add(&list, text, "", &rules, why, sizeof why));
    assert_string_equal(why, "2097152 combinations in one spec; at most 1000000 are taken");
    text[0] = 0;
    for (int i = 0; i < 65; i++) {
        strcat(text, "causal ");
    }
    assert_false(spec_list_add(&list, text, "", &rules, why, sizeof why));
    assert_string_equal(why, "more than 64 words in one spec");
    assert_int_equal(list.count, 0);
    spec_list_deinit(&list);
}

static void files_have_a_spec_a_line_and_comments(void **state)
{
    (void)state;
    char path[] = "/tmp/gdpa-test-specs-XXXXXX";
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    FILE *file = fdopen(descriptor, "w");
    fputs("# a comment\n\n  fwd d=64 act=relu  # cached\nd=64,128 act=relu\r\n#d=1 act=none\nd=100 act=relu\n"
          "d=32 act=relu",
          file);
    fclose(file);
    struct spec_list list;
    char why[512] = "";
    struct refusals refusals = {0};
    struct spec_rules rules = {
        .archs = one_arch, .arch_count = 1, .keep_going = true, .refused = note_refusal, .user = &refusals};
    spec_list_init(&list);
    assert_true(spec_list_add_file(&list, path, &rules, why, sizeof why));
    assert_int_equal(list.count, 3);
    assert_int_equal(refusals.count, 1);
    assert_non_null(strstr(refusals.last, ":6|d=100 act=relu"));
    rules.keep_going = false;
    assert_false(spec_list_add_file(&list, path, &rules, why, sizeof why));
    assert_non_null(strstr(why, ":6: d=100 act=relu: "));
    unlink(path);
    assert_false(spec_list_add_file(&list, path, &rules, why, sizeof why));
    assert_non_null(strstr(why, "cannot open /tmp/gdpa-test-specs-"));
    assert_false(spec_list_add_file(&list, "/", &rules, why, sizeof why));
    assert_non_null(strstr(why, "cannot read /: "));
    spec_list_deinit(&list);
}

static void every_preset_is_legal_and_has_kernels(void **state)
{
    (void)state;
    for (const struct preset_row *preset = presets; preset->name != NULL; preset++) {
        struct spec_list list;
        char why[512] = "";
        struct spec_rules rules = {.archs = one_arch, .arch_count = 1};
        spec_list_init(&list);
        assert_true(spec_list_add_preset(&list, preset->name, &rules, why, sizeof why));
        assert_true(list.count >= 2);
        assert_true(preset->doc[0] != 0);
        spec_list_deinit(&list);
    }
}

static void unknown_presets_are_refused_with_the_list(void **state)
{
    (void)state;
    struct spec_list list;
    char why[512] = "";
    struct spec_rules rules = {.archs = one_arch, .arch_count = 1};
    spec_list_init(&list);
    assert_false(spec_list_add_preset(&list, "minimum", &rules, why, sizeof why));
    assert_string_equal(why, "no preset minimum (did you mean minimal?); presets are minimal, default, activations, "
                             "gdpa, hstu");
    spec_list_deinit(&list);
}

static void one_spec_is_joined_from_its_words(void **state)
{
    (void)state;
    static const char *const words[] = {"fwd d=64", "act=relu", "causal"};
    static const char *const wrong[] = {"d=64", "act=rulu"};
    gdpa_spec spec = GDPA_SPEC_INIT;
    char why[512] = "";
    assert_true(spec_from_words(words, COUNT_OF(words), &spec, why, sizeof why));
    assert_int_equal(spec.head_dim, 64);
    assert_int_equal(spec.causal, 1);
    assert_false(spec_from_words(wrong, COUNT_OF(wrong), &spec, why, sizeof why));
    assert_non_null(strstr(why, "relu"));
    assert_int_equal(spec.head_dim, 64);
}

static void thousands_of_specs_stay_apart(void **state)
{
    (void)state;
    struct spec_list list;
    char why[512] = "";
    struct spec_rules rules = {.archs = two_archs, .arch_count = 2};
    spec_list_init(&list);
    assert_true(spec_list_add(&list,
                              "d=8,16,24,32,40,48,56,64 dtype=all act=all causal=all window_left=-1,0,1,2,3,4,5 ", "",
                              &rules, why, sizeof why));
    assert_int_equal(list.count, 8 * 2 * 17 * 2 * 7 * 2);
    spec_list_deinit(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_give_every_combination_once),
        cmocka_unit_test(the_last_word_turns_fastest),
        cmocka_unit_test(words_form_specs_and_a_pass_or_a_blank_begins_a_new_one),
        cmocka_unit_test(what_is_illegal_stops_or_is_counted),
        cmocka_unit_test(too_many_combinations_or_words_are_refused_at_once),
        cmocka_unit_test(files_have_a_spec_a_line_and_comments),
        cmocka_unit_test(every_preset_is_legal_and_has_kernels),
        cmocka_unit_test(unknown_presets_are_refused_with_the_list),
        cmocka_unit_test(one_spec_is_joined_from_its_words),
        cmocka_unit_test(thousands_of_specs_stay_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
