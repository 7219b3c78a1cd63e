/*
 * args: every form of an option, and a message for every wrong one.
 */
#include "tools/args.h"

#include "tests/tools/cli_test.h"

static const struct option_row options[] = {
    {.name = "jobs", .letter = 'j', .kind = OPTION_INTEGER, .values = "N", .doc = "", .lowest = 1, .highest = 64},
    {.name = "timeout", .kind = OPTION_NUMBER, .values = "SECONDS", .doc = "", .lowest = 0, .highest = 100},
    {.name = "file", .letter = 'f', .kind = OPTION_REPEAT, .values = "FILE", .doc = ""},
    {.name = "keep-going", .letter = 'k', .kind = OPTION_FLAG, .doc = ""},
    {.name = "progress", .kind = OPTION_CHOICE, .values = "auto|always|never", .doc = ""},
    {.name = "output", .letter = 'o', .kind = OPTION_TEXT, .values = "FILE", .doc = ""},
    {.name = NULL},
};

static const struct verb_row verbs[] = {{"source", ""}, {"plan", ""}, {"ptx", ""}, {NULL, NULL}};

static const struct command command = {.name = "try", .options = options, .verbs = verbs};

enum { ARGUMENTS_LIMIT = 12 };

static bool parse(const char *const *words, struct args *args, char *why, size_t why_size)
{
    int count = 0;
    while (count < ARGUMENTS_LIMIT && words[count] != NULL) {
        count++;
    }
    return args_parse(&command, count, (char *const *)(uintptr_t)words, args, why, why_size);
}

static void long_and_short_forms_give_the_same_values(void **state)
{
    (void)state;
    static const char *const lines[][ARGUMENTS_LIMIT] = {
        {"--jobs", "8", "--file", "a", "--keep-going", "word", "--file", "-", "--output", "x=y"},
        {"--jobs=8", "--file=a", "-k", "--file=-", "--output=x=y", "word"},
        {"-j", "8", "-f", "a", "-k", "word", "-f", "-", "-o", "x=y"},
        {"word", "-kj8", "-fa", "-f-", "-ox=y"},
        {"-j3", "-j8", "-fa", "-f-", "-k", "-k", "-o", "first", "--output", "x=y", "--", "word"},
    };
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        struct args args;
        char why[256] = "";
        assert_true(parse(lines[i], &args, why, sizeof why));
        assert_int_equal(args_integer(&args, "jobs", 1), 8);
        assert_int_equal(args_count(&args, "file"), 2);
        assert_string_equal(args_repeat(&args, "file", 0), "a");
        assert_string_equal(args_repeat(&args, "file", 1), "-");
        assert_null(args_repeat(&args, "file", 2));
        assert_true(args_flag(&args, "keep-going"));
        assert_string_equal(args_text(&args, "output", "none"), "x=y");
        assert_int_equal(args.word_count, 1);
        assert_string_equal(args.words[0], "word");
        args_deinit(&args);
    }
}

static void what_is_not_given_has_its_fallback(void **state)
{
    (void)state;
    static const char *const line[ARGUMENTS_LIMIT] = {NULL};
    struct args args;
    char why[256];
    assert_true(parse(line, &args, why, sizeof why));
    assert_int_equal(args_integer(&args, "jobs", 7), 7);
    assert_true(args_number(&args, "timeout", 1.5) == 1.5);
    assert_null(args_text(&args, "output", NULL));
    assert_false(args_flag(&args, "json"));
    assert_int_equal(args.word_count, 0);
    args_deinit(&args);
}

static void a_lone_dash_and_what_follows_two_dashes_are_words(void **state)
{
    (void)state;
    static const char *const line[ARGUMENTS_LIMIT] = {"-", "--timeout", "0.25", "--", "--jobs", "-k"};
    struct args args;
    char why[256];
    assert_true(parse(line, &args, why, sizeof why));
    assert_true(args_number(&args, "timeout", 0) == 0.25);
    assert_int_equal(args.word_count, 3);
    assert_string_equal(args.words[0], "-");
    assert_string_equal(args.words[1], "--jobs");
    assert_string_equal(args.words[2], "-k");
    args_deinit(&args);
}

static void wrong_lines_are_refused_with_what_is_legal(void **state)
{
    (void)state;
    static const struct {
        const char *line[ARGUMENTS_LIMIT];
        const char *why;
    } cases[] = {
        {{"--job", "8"}, "try has no option --job (did you mean --jobs?)"},
        {{"--keep_going"}, "try has no option --keep_going (did you mean --keep-going?)"},
        {{"--jsn"}, "try has no option --jsn (did you mean --json?)"},
        {{"--xyzzy"}, "try has no option --xyzzy"},
        {{"-z"}, "try has no option -z"},
        {{"-kz"}, "try has no option -z"},
        {{"--jobs"}, "--jobs needs a value: N"},
        {{"-j"}, "-j needs a value: N"},
        {{"--jobs", "many"}, "--jobs many is not a whole number from 1 to 64"},
        {{"--jobs", "0"}, "--jobs 0 is not a whole number from 1 to 64"},
        {{"--jobs=65"}, "--jobs 65 is not a whole number from 1 to 64"},
        {{"--jobs=8x"}, "--jobs 8x is not a whole number from 1 to 64"},
        {{"--jobs=99999999999999999999"}, "--jobs 99999999999999999999 is not a whole number from 1 to 64"},
        {{"--timeout", "-1"}, "--timeout -1 is not a number from 0 to 100"},
        {{"--timeout", "nan"}, "--timeout nan is not a number from 0 to 100"},
        {{"--timeout="}, "--timeout  is not a number from 0 to 100"},
        {{"--progress", "allways"}, "--progress allways is not one of auto|always|never (did you mean always?)"},
        {{"--progress", "sometimes"}, "--progress sometimes is not one of auto|always|never"},
        {{"--keep-going=yes"}, "--keep-going takes no value"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct args args;
        char why[256] = "";
        assert_false(parse(cases[i].line, &args, why, sizeof why));
        assert_string_equal(why, cases[i].why);
    }
}

static void verbs_are_found_or_refused_with_the_list(void **state)
{
    (void)state;
    static const struct {
        const char *line[ARGUMENTS_LIMIT];
        const char *verb, *why;
    } cases[] = {
        {{"plan", "x"}, "plan", ""},
        {{"--json", "ptx"}, "ptx", ""},
        {{NULL}, NULL, "try needs one of source, plan, ptx"},
        {{"sauce"}, NULL, "try sauce: not one of source, plan, ptx (did you mean source?)"},
        {{"42"}, NULL, "try 42: not one of source, plan, ptx"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct args args;
        char why[256] = "";
        assert_true(parse(cases[i].line, &args, why, sizeof why));
        const struct verb_row *verb = args_verb(&args, why, sizeof why);
        assert_string_equal(why, cases[i].why);
        if (cases[i].verb == NULL) {
            assert_null(verb);
        } else {
            assert_string_equal(verb->name, cases[i].verb);
        }
        args_deinit(&args);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_and_short_forms_give_the_same_values),
        cmocka_unit_test(what_is_not_given_has_its_fallback),
        cmocka_unit_test(a_lone_dash_and_what_follows_two_dashes_are_words),
        cmocka_unit_test(wrong_lines_are_refused_with_what_is_legal),
        cmocka_unit_test(verbs_are_found_or_refused_with_the_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
