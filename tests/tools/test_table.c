/*
 * table: the two printers, sorting, choosing columns.
 */
#include "tools/table.h"

#include "tests/tools/cli_test.h"

static const struct table_column columns[] = {
    {"name", TABLE_TEXT, 0, ""},
    {"bytes", TABLE_INTEGER, 0, ""},
    {"ms", TABLE_REAL, 1, ""},
    {"note", TABLE_TEXT, 0, ""},
};

static struct table *example(void)
{
    static const struct {
        const char *name;
        long long bytes;
        double ms;
        const char *note;
    } rows[] = {{"beta", 20, 1.25, NULL}, {"alpha", 5, 100.04, "first"}, {"gamma", 20, 7, "x"}};
    struct table *table = table_create(columns, COUNT_OF(columns));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        table_row(table);
        table_set_text(table, "name", rows[i].name);
        table_set_integer(table, "bytes", rows[i].bytes);
        table_set_real(table, "ms", rows[i].ms);
        table_set_text(table, "note", rows[i].note);
    }
    return table;
}

static void assert_prints(struct table *table, bool color, const char *expected)
{
    struct capture capture;
    capture_start(&capture);
    table_print(table, capture.stream, color);
    char *text = capture_end(&capture);
    assert_string_equal(text, expected);
    free(text);
}

static void numbers_stand_right_texts_left_and_no_line_ends_in_blanks(void **state)
{
    (void)state;
    struct table *table = example();
    assert_prints(table, false,
                  "name   bytes     ms  note\n"
                  "beta      20    1.2  -\n"
                  "alpha      5  100.0  first\n"
                  "gamma     20    7.0  x\n");
    table_destroy(table);
}

static void the_heading_alone_is_coloured(void **state)
{
    (void)state;
    struct table *table = example();
    char unknown[32];
    assert_true(table_choose(table, "note,bytes", unknown, sizeof unknown));
    assert_prints(table, true,
                  "\033[1mnote   bytes\033[0m\n"
                  "-         20\n"
                  "first      5\n"
                  "x         20\n");
    table_destroy(table);
}

static void rows_are_sorted_stably_with_empty_cells_last(void **state)
{
    (void)state;
    static const struct {
        const char *column;
        bool descending;
        const char *names;
    } cases[] = {
        {"name", false, "name\nalpha\nbeta\ngamma\n"},  {"name", true, "name\ngamma\nbeta\nalpha\n"},
        {"bytes", false, "name\nalpha\nbeta\ngamma\n"}, {"bytes", true, "name\nbeta\ngamma\nalpha\n"},
        {"ms", true, "name\nalpha\ngamma\nbeta\n"},     {"note", false, "name\nalpha\ngamma\nbeta\n"},
        {"note", true, "name\ngamma\nalpha\nbeta\n"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct table *table = example();
        char unknown[32];
        assert_true(table_choose(table, "name", unknown, sizeof unknown));
        assert_true(table_sort(table, cases[i].column, cases[i].descending));
        assert_prints(table, false, cases[i].names);
        table_destroy(table);
    }
}

static void long_tables_are_sorted_too(void **state)
{
    (void)state;
    enum { ROWS = 1000 };
    struct table *table = table_create(columns, COUNT_OF(columns));
    for (long long i = 0; i < ROWS; i++) {
        table_row(table);
        table_set_integer(table, "bytes", i * 7919 % ROWS);
    }
    assert_true(table_sort(table, "bytes", false));
    json_t *array = table_json(table);
    assert_int_equal(json_array_size(array), ROWS);
    for (size_t i = 0; i < ROWS; i++) {
        assert_int_equal(json_integer_value(json_object_get(json_array_get(array, i), "bytes")), i);
    }
    json_decref(array);
    table_destroy(table);
}

static void unknown_columns_are_named(void **state)
{
    (void)state;
    struct table *table = example();
    char unknown[32] = "";
    assert_false(table_choose(table, "name,size", unknown, sizeof unknown));
    assert_string_equal(unknown, "size");
    assert_false(table_sort(table, "size", false));
    assert_null(table_column_find(columns, COUNT_OF(columns), "size"));
    assert_string_equal(table_column_nearest(columns, COUNT_OF(columns), "byte"), "bytes");
    assert_null(table_column_nearest(columns, COUNT_OF(columns), "elephant"));
    table_destroy(table);
}

static void a_column_chosen_twice_is_printed_once(void **state)
{
    (void)state;
    struct table *table = example();
    char unknown[32] = "";
    assert_true(table_choose(table, "ms,name,ms", unknown, sizeof unknown));
    table_truncate(table, 1);
    assert_int_equal(table_row_count(table), 1);
    assert_prints(table, false, " ms  name\n1.2  beta\n");
    table_destroy(table);
}

static void json_has_numbers_and_null(void **state)
{
    (void)state;
    struct table *table = example();
    json_t *array = table_json(table);
    char *text = json_dumps(array, JSON_COMPACT | JSON_REAL_PRECISION(6));
    assert_string_equal(text, "[{\"name\":\"beta\",\"bytes\":20,\"ms\":1.25,\"note\":null},"
                              "{\"name\":\"alpha\",\"bytes\":5,\"ms\":100.04,\"note\":\"first\"},"
                              "{\"name\":\"gamma\",\"bytes\":20,\"ms\":7.0,\"note\":\"x\"}]");
    free(text);
    json_decref(array);
    table_destroy(table);
}

static void destroying_nothing_is_harmless(void **state)
{
    (void)state;
    table_destroy(NULL);
    struct table *table = table_create(columns, COUNT_OF(columns));
    assert_int_equal(table_row_count(table), 0);
    assert_prints(table, false, "name  bytes  ms  note\n");
    table_destroy(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_stand_right_texts_left_and_no_line_ends_in_blanks),
        cmocka_unit_test(the_heading_alone_is_coloured),
        cmocka_unit_test(rows_are_sorted_stably_with_empty_cells_last),
        cmocka_unit_test(long_tables_are_sorted_too),
        cmocka_unit_test(unknown_columns_are_named),
        cmocka_unit_test(a_column_chosen_twice_is_printed_once),
        cmocka_unit_test(json_has_numbers_and_null),
        cmocka_unit_test(destroying_nothing_is_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
