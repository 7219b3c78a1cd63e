/*
 * facts: "name: value" lines, with values of several lines.
 */
#include "tools/facts.h"

#include "tests/tools/cli_test.h"

static void lines_become_names_and_values(void **state)
{
    (void)state;
    static const char text[] = "version: 0.1.0\n"
                               "nvrtc.tried: first:\n"
                               "    libnvrtc.so.13: not there\n"
                               "    libnvrtc.so.12: not there\n"
                               "\n"
                               "empty:\n"
                               "nothing\n"
                               "device.0: NVIDIA H200, compute capability 9.0, sm_90a";
    struct facts facts;
    facts_parse(text, &facts);
    assert_int_equal(facts.count, 5);
    assert_string_equal(facts_find(&facts, "version"), "0.1.0");
    assert_string_equal(facts_find(&facts, "nvrtc.tried"),
                        "first:\nlibnvrtc.so.13: not there\nlibnvrtc.so.12: not there");
    assert_string_equal(facts_find(&facts, "empty"), "");
    assert_string_equal(facts_find(&facts, "nothing"), "");
    assert_string_equal(facts_find(&facts, "device.0"), "NVIDIA H200, compute capability 9.0, sm_90a");
    assert_null(facts_find(&facts, "device"));
    json_t *object = facts_json(&facts);
    assert_int_equal(json_object_size(object), 5);
    assert_string_equal(json_string_value(json_object_get(object, "version")), "0.1.0");
    json_decref(object);
    facts_deinit(&facts);
    assert_int_equal(facts.count, 0);
}

static void texts_without_facts_give_none(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "\n\n", "   \n"};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct facts facts;
        facts_parse(texts[i], &facts);
        assert_int_equal(facts.count, 0);
        assert_null(facts_find(&facts, ""));
        facts_deinit(&facts);
    }
}

static void an_indented_first_line_is_a_fact_of_its_own(void **state)
{
    (void)state;
    struct facts facts;
    facts_parse("  name: value\n", &facts);
    assert_int_equal(facts.count, 1);
    assert_string_equal(facts_find(&facts, "name"), "value");
    facts_deinit(&facts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_become_names_and_values),
        cmocka_unit_test(texts_without_facts_give_none),
        cmocka_unit_test(an_indented_first_line_is_a_fact_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
