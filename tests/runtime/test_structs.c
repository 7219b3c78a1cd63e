/*
 * The size rules of public structs.
 */
#include "runtime/structs.h"
#include "tests/support/runtime_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct newer_stats {
    gdpa_stats known;
    uint64_t later;
};

static void a_struct_that_was_not_initialised_is_refused_with_the_remedy(void **state)
{
    (void)state;
    gdpa_args args;
    memset(&args, 0, sizeof args);
    expect_failure(struct_check(&rule_args, &args), GDPA_E_VERSION, "start from GDPA_ARGS_INIT");
    args.size = SIZE_MAX;
    expect_failure(struct_check(&rule_args, &args), GDPA_E_VERSION, "far larger than");
}

static void bytes_that_this_library_does_not_know_must_be_zero(void **state)
{
    (void)state;
    struct newer_stats newer;
    memset(&newer, 0, sizeof newer);
    newer.known.size = sizeof newer;
    expect_ok(struct_check(&rule_stats, &newer));
    newer.later = 1;
    expect_failure(struct_check(&rule_stats, &newer), GDPA_E_VERSION, "gdpa_stats has a field at byte ");
}

static void reading_gives_the_known_size_and_zeros_for_what_is_missing(void **state)
{
    (void)state;
    const struct struct_rule rule = {.name = "test", .remedy = "none", .known = sizeof(gdpa_stats), .smallest = 16};
    gdpa_stats older = {.size = 16, .memory_hits = 5, .disk_hits = 6};
    gdpa_stats own;
    memset(&own, 0xff, sizeof own);
    expect_ok(struct_check(&rule, &older));
    struct_read(&rule, &older, &own);
    assert_int_equal(own.size, sizeof own);
    assert_int_equal(own.memory_hits, 5);
    assert_int_equal(own.disk_hits, 0);
    assert_int_equal(own.load_ns, 0);
}

static void writing_keeps_to_the_size_of_the_caller(void **state)
{
    (void)state;
    const struct struct_rule rule = {.name = "test", .remedy = "none", .known = sizeof(gdpa_stats), .smallest = 16};
    const gdpa_stats own = {.size = sizeof own, .memory_hits = 5, .disk_hits = 6, .load_ns = 7};
    gdpa_stats older;
    struct newer_stats newer;
    memset(&older, 0xff, sizeof older);
    memset(&newer, 0xff, sizeof newer);
    older.size = 16;
    newer.known.size = sizeof newer;
    expect_ok(struct_write(&rule, &own, &older));
    assert_int_equal(older.size, 16);
    assert_int_equal(older.memory_hits, 5);
    assert_true(older.disk_hits == UINT64_MAX);
    expect_ok(struct_write(&rule, &own, &newer));
    assert_int_equal(newer.known.size, sizeof newer);
    assert_int_equal(newer.known.load_ns, 7);
    assert_int_equal(newer.later, 0);
    older.size = 8;
    expect_failure(struct_write(&rule, &own, &older), GDPA_E_VERSION, "smaller than any version");
    assert_int_equal(older.memory_hits, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_struct_that_was_not_initialised_is_refused_with_the_remedy),
        cmocka_unit_test(bytes_that_this_library_does_not_know_must_be_zero),
        cmocka_unit_test(reading_gives_the_known_size_and_zeros_for_what_is_missing),
        cmocka_unit_test(writing_keeps_to_the_size_of_the_caller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
