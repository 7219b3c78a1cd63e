/*
 * The public calls on specs. What is legal is tested with gen/; here: reasons, buffers, untouched outputs.
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

static void a_bad_text_leaves_the_spec_untouched_and_says_why(void **state)
{
    (void)state;
    gdpa_spec spec, before;
    memset(&spec, 0x5a, sizeof spec);
    before = spec;
    expect_failure(gdpa_spec_parse("fwd head_dim=64 activation=rleu", &spec), GDPA_E_ARGUMENT, "relu");
    assert_memory_equal(&spec, &before, sizeof spec);
    expect_failure(gdpa_spec_parse(NULL, &spec), GDPA_E_ARGUMENT, "text is NULL");
    expect_failure(gdpa_spec_parse("fwd", NULL), GDPA_E_ARGUMENT, "spec is NULL");
}

static void text_fits_with_its_final_zero_or_not_at_all(void **state)
{
    (void)state;
    static const char canonical[] = "fwd head_dim=64 dtype=bf16 activation=relu causal arch=sm_80";
    const gdpa_spec spec = runtime_spec("fwd causal act=relu d=64 arch=80");
    char text[128];
    for (size_t capacity = 0; capacity < sizeof text; capacity++) {
        size_t length = 0;
        memset(text, 'z', sizeof text);
        const gdpa_status status = gdpa_spec_format(&spec, text, capacity, &length);
        assert_int_equal(length, sizeof canonical - 1);
        assert_int_equal(status, capacity < sizeof canonical ? GDPA_E_BUFFER : GDPA_OK);
        if (status == GDPA_OK) {
            assert_string_equal(text, canonical);
        } else {
            assert_int_equal(text[0], 'z');
        }
    }
    expect_ok(gdpa_spec_format(&spec, text, sizeof text, NULL));
    expect_failure(gdpa_spec_format(NULL, text, sizeof text, NULL), GDPA_E_ARGUMENT, "spec is NULL");
}

static void checks_name_field_value_and_what_is_legal(void **state)
{
    (void)state;
    gdpa_spec spec = runtime_spec("fwd head_dim=64 activation=relu");
    expect_ok(gdpa_spec_check(&spec));
    spec.head_dim = 260;
    expect_failure(gdpa_spec_check(&spec), GDPA_E_ARGUMENT, "head_dim is 260; legal are multiples of 8 from 8 to 256");
    spec = runtime_spec("fwd head_dim=64 activation=relu");
    spec.pass = GDPA_PASS_BACKWARD;
    expect_ok(gdpa_spec_check(&spec));
    spec.arch = 90;
    spec.family = GDPA_FAMILY_SM90;
    spec.unaligned = 1;
    expect_failure(gdpa_spec_check(&spec), GDPA_E_UNSUPPORTED, "family sm90");
    spec.arch = 0; /* no family of lengths has a backward, whatever the arch */
    spec.unaligned = 0;
    spec.family = GDPA_FAMILY_SHORT;
    expect_failure(gdpa_spec_check(&spec), GDPA_E_UNSUPPORTED, "family short has no kernels for the backward");
    spec.size = 1;
    expect_failure(gdpa_spec_check(&spec), GDPA_E_VERSION, "GDPA_SPEC_INIT");
    expect_failure(gdpa_spec_check(NULL), GDPA_E_ARGUMENT, "spec is NULL");
}

static void bounds_are_given_for_every_option_by_name(void **state)
{
    (void)state;
    int32_t lowest = -7, highest = -7, step = -7;
    expect_ok(gdpa_spec_bounds("head_dim", &lowest, &highest, &step));
    assert_int_equal(lowest, 8);
    assert_int_equal(highest, 256);
    assert_int_equal(step, 8);
    expect_ok(gdpa_spec_bounds("window_left", NULL, &highest, NULL));
    assert_int_equal(highest, INT32_MAX);
    lowest = -7;
    expect_failure(gdpa_spec_bounds("head_dimm", &lowest, NULL, NULL), GDPA_E_NOT_FOUND, "head_dim");
    assert_int_equal(lowest, -7);
    expect_failure(gdpa_spec_bounds(NULL, NULL, NULL, NULL), GDPA_E_ARGUMENT, "option is NULL");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bad_text_leaves_the_spec_untouched_and_says_why),
        cmocka_unit_test(text_fits_with_its_final_zero_or_not_at_all),
        cmocka_unit_test(checks_name_field_value_and_what_is_legal),
        cmocka_unit_test(bounds_are_given_for_every_option_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
