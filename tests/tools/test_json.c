/*
 * json: one object a line, with the schema first; nothing that is not JSON gets out.
 */
#include "tools/json.h"

#include "tests/tools/cli_test.h"

#include <math.h>

static char *printed(json_t *report)
{
    struct capture capture;
    capture_start(&capture);
    json_print(capture.stream, report);
    return capture_end(&capture);
}

static void a_report_is_one_line_that_starts_with_schema_and_type(void **state)
{
    (void)state;
    json_t *report = json_report("kernel");
    json_set_text(report, "spec", "fwd \"d\"\n");
    json_set_integer(report, "bytes", 1LL << 40);
    json_set_bool(report, "cached", 1);
    char *text = printed(report);
    assert_string_equal(text, "{\"schema\":1,\"type\":\"kernel\",\"spec\":\"fwd \\\"d\\\"\\n\",\"bytes\":1099511627776,"
                              "\"cached\":true}\n");
    free(text);
}

static void what_is_no_number_or_no_text_is_null(void **state)
{
    (void)state;
    json_t *report = json_report("x");
    json_set_real(report, "nan", (double)NAN);
    json_set_real(report, "infinite", (double)INFINITY);
    json_set_real(report, "half", 0.5);
    json_set_text(report, "none", NULL);
    char *text = printed(report);
    assert_string_equal(text,
                        "{\"schema\":1,\"type\":\"x\",\"nan\":null,\"infinite\":null,\"half\":0.5,\"none\":null}\n");
    free(text);
}

static void bytes_that_are_no_utf8_become_letters(void **state)
{
    (void)state;
    json_t *report = json_report("x");
    json_set_text(report, "path", "/caf\xe9/\xff");
    char *text = printed(report);
    assert_string_equal(text, "{\"schema\":1,\"type\":\"x\",\"path\":\"/caf\xc3\xa9/\xc3\xbf\"}\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_report_is_one_line_that_starts_with_schema_and_type),
        cmocka_unit_test(what_is_no_number_or_no_text_is_null),
        cmocka_unit_test(bytes_that_are_no_utf8_become_letters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
