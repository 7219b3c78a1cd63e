/*
 * entries: a cached kernel is found by the first letters of its key or name.
 */
#include "tools/entries.h"

#include "tests/tools/cli_test.h"

static gdpa_cache_entry rows[] = {
    {.key = "00aa000000000000", .name = "gdpa_fwd_sm80_d64_relu_1"},
    {.key = "00ab000000000000", .name = "gdpa_fwd_sm80_d64_relu_12"},
    {.key = "ff00000000000000", .name = "gdpa_fwd_sm90_d128_silu"},
};

static void unique_beginnings_and_whole_names_are_enough(void **state)
{
    (void)state;
    const struct entry_list list = {.entries = rows, .count = COUNT_OF(rows)};
    static const struct {
        const char *prefix;
        int row;
        const char *why;
    } cases[] = {
        {"ff", 2, ""},
        {"00aa", 0, ""},
        {"00ab000000000000", 1, ""},
        {"gdpa_fwd_sm90", 2, ""},
        {"gdpa_fwd_sm80_d64_relu_1", 0, ""}, /* a whole name, although another begins with it */
        {"gdpa_fwd_sm80_d64_relu_12", 1, ""},
        {"00a", -1, "2 cached kernels have a key or name that begins with '00a'; give more of it"},
        {"gdpa", -1, "3 cached kernels have a key or name that begins with 'gdpa'; give more of it"},
        {"ab", -1, "no cached kernel has a key or name that begins with 'ab'; `gdpa-jit list` shows them"},
        {"", -1, "no cached kernel has a key or name that begins with ''; `gdpa-jit list` shows them"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char why[256] = "";
        const gdpa_cache_entry *entry = entry_find(&list, cases[i].prefix, why, sizeof why);
        assert_ptr_equal(entry, cases[i].row < 0 ? NULL : &rows[cases[i].row]);
        assert_string_equal(why, cases[i].why);
    }
}

static void an_empty_list_has_nothing(void **state)
{
    (void)state;
    const struct entry_list list = {.entries = NULL, .count = 0};
    char why[256] = "";
    assert_null(entry_find(&list, "ff", why, sizeof why));
    assert_true(why[0] != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unique_beginnings_and_whole_names_are_enough),
        cmocka_unit_test(an_empty_list_has_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
