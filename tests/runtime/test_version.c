/*
 * Versions: the header and the library agree.
 */
#include "tests/support/runtime_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void the_library_has_the_version_of_its_header(void **state)
{
    (void)state;
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", GDPA_VERSION_MAJOR, GDPA_VERSION_MINOR, GDPA_VERSION_PATCH);
    assert_string_equal(GDPA_VERSION_STRING, text);
    assert_string_equal(gdpa_version_string(), text);
    assert_int_equal(gdpa_version_number(), GDPA_VERSION_NUMBER);
}

static void the_build_names_what_is_in_it(void **state)
{
    (void)state;
    static const char *const names[] = {"version: ",    "\ngenerator: ", "\nsqlite: 3.",    "\nzstd: 1.",
                                        "\nxxhash: 0.", "\ncompiler: ",  "\nnvrtc folder: "};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        expect_text(gdpa_build_info(), names[i]);
    }
    assert_ptr_equal(gdpa_build_info(), gdpa_build_info());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_library_has_the_version_of_its_header),
        cmocka_unit_test(the_build_names_what_is_in_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
