/*
 * term: distances by hand, which name a mistyped one means, and when colours are used.
 */
#include "tools/term.h"

#include "tests/tools/cli_test.h"

static void distances_count_edits_and_swaps(void **state)
{
    (void)state;
    static const struct {
        const char *left, *right;
        size_t distance;
    } cases[] = {
        {"", "", 0},           {"warm", "warm", 0},      {"warm", "wram", 1}, {"warm", "war", 1},
        {"warm", "warms", 1},  {"warm", "worm", 1},      {"warm", "WARM", 0}, {"dry-run", "dry_run", 0},
        {"bench", "cache", 4}, {"kitten", "sitting", 3}, {"", "list", 4},     {"abcdef", "badcfe", 3},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(word_distance(cases[i].left, cases[i].right), cases[i].distance);
        assert_int_equal(word_distance(cases[i].right, cases[i].left), cases[i].distance);
    }
}

static void a_word_longer_than_every_name_is_near_to_none(void **state)
{
    (void)state;
    char word[200];
    memset(word, 'a', sizeof word - 1);
    word[sizeof word - 1] = 0;
    assert_int_equal(word_distance(word, "a"), sizeof word - 1);
    struct nearest nearest = NEAREST_INIT(word);
    nearest_offer(&nearest, "a");
    assert_null(nearest.best);
}

static void the_nearest_of_many_names_is_offered(void **state)
{
    (void)state;
    static const char *const names[] = {"jobs",    "json",    "keep-going", "fail-on-spill",
                                        "dry-run", "timeout", "progress"};
    static const struct {
        const char *word, *best;
    } cases[] = {
        {"job", "jobs"},
        {"jsno", "json"},
        {"keepgoing", "keep-going"},
        {"fail_on_spil", "fail-on-spill"},
        {"prog", "progress"},
        {"time", "timeout"},
        {"xyz", NULL},
        {"", NULL},
        {"dryrun", "dry-run"},
        {"p", NULL},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct nearest nearest = NEAREST_INIT(cases[i].word);
        for (size_t k = 0; k < COUNT_OF(names); k++) {
            nearest_offer(&nearest, names[k]);
        }
        if (cases[i].best == NULL) {
            assert_null(nearest.best);
        } else {
            assert_non_null(nearest.best);
            assert_string_equal(nearest.best, cases[i].best);
        }
    }
}

static void a_hint_is_empty_when_nothing_is_near(void **state)
{
    (void)state;
    char buffer[64];
    struct nearest nearest = NEAREST_INIT("lits");
    assert_string_equal(nearest_hint(&nearest, buffer, sizeof buffer), "");
    nearest_offer(&nearest, "list");
    assert_string_equal(nearest_hint(&nearest, buffer, sizeof buffer), " (did you mean list?)");
}

static void colours_follow_the_option_then_the_environment_then_the_terminal(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    assert_false(term_is_terminal(file));
    assert_false(term_is_foreground(file));
    assert_false(term_color("auto", file));
    assert_true(term_color("always", file));
    assert_false(term_color("never", file));
    setenv("NO_COLOR", "1", 1);
    assert_true(term_color("always", file));
    fclose(file);
}

static void the_width_of_no_terminal_is_that_of_columns_or_80(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    unsetenv("COLUMNS");
    assert_int_equal(term_width(file), 80);
    setenv("COLUMNS", "132", 1);
    assert_int_equal(term_width(file), 132);
    setenv("COLUMNS", "3", 1);
    assert_int_equal(term_width(file), 80);
    setenv("COLUMNS", "wide", 1);
    assert_int_equal(term_width(file), 80);
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distances_count_edits_and_swaps),
        cmocka_unit_test(a_word_longer_than_every_name_is_near_to_none),
        cmocka_unit_test(the_nearest_of_many_names_is_offered),
        cmocka_unit_test(a_hint_is_empty_when_nothing_is_near),
        cmocka_unit_test(colours_follow_the_option_then_the_environment_then_the_terminal),
        cmocka_unit_test(the_width_of_no_terminal_is_that_of_columns_or_80),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
