/*
 * Status names, and the last error of each thread.
 */
#include "runtime/error.h"
#include "tests/support/runtime_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void every_status_has_its_name_and_its_sentence(void **state)
{
    (void)state;
    assert_string_equal(gdpa_status_name(GDPA_OK), "GDPA_OK");
    assert_string_equal(gdpa_status_name(GDPA_E_NOT_READY), "GDPA_E_NOT_READY");
    assert_string_equal(gdpa_status_str(GDPA_E_WORKSPACE), "the workspace is too small or misaligned");
#define CHECK(name, value, sentence)                                                                                   \
    assert_int_equal(name, value);                                                                                     \
    assert_string_equal(gdpa_status_name((gdpa_status)(value)), #name);                                                \
    assert_string_equal(gdpa_status_str((gdpa_status)(value)), sentence);
    GDPA_STATUS_TABLE(CHECK)
#undef CHECK
}

static void a_number_that_is_no_status_is_named_so(void **state)
{
    (void)state;
    assert_string_equal(gdpa_status_name((gdpa_status)-7), "GDPA_E_?");
    assert_string_equal(gdpa_status_name((gdpa_status)12345), "GDPA_E_?");
    assert_string_equal(gdpa_status_name(GDPA_STATUS_FORCE_INT), "GDPA_E_?");
    assert_string_equal(gdpa_status_str((gdpa_status)-7), "not a status of this library");
}

static void *text_of_new_thread(void *user)
{
    char *copy = user;
    snprintf(copy, 64, "[%s]", gdpa_last_error());
    error_set(GDPA_E_ARGUMENT, "other thread");
    return NULL;
}

static void each_thread_has_its_own_text(void **state)
{
    (void)state;
    char copy[64];
    pthread_t thread;
    assert_int_equal(error_set(GDPA_E_ARGUMENT, "argument %d", 7), GDPA_E_ARGUMENT);
    assert_int_equal(pthread_create(&thread, NULL, text_of_new_thread, copy), 0);
    pthread_join(thread, NULL);
    assert_string_equal(copy, "[]");
    assert_string_equal(gdpa_last_error(), "argument 7");
}

static void long_texts_are_kept_whole_up_to_the_limit(void **state)
{
    (void)state;
    struct sbuf why;
    sbuf_init(&why, 4 * ERROR_TEXT_LIMIT);
    for (int i = 0; i < 30000; i++) {
        sbuf_addf(&why, "line %d\n", i);
    }
    error_set_why(GDPA_E_COMPILE, &why);
    assert_string_equal(gdpa_last_error(), why.text);
    error_set(GDPA_E_COMPILE, "%s", why.text);
    assert_string_equal(gdpa_last_error(), why.text);
    while (why.length <= ERROR_TEXT_LIMIT) {
        sbuf_addstr(&why, "more and more and more and more and more and more and more and more and more\n");
    }
    error_set_why(GDPA_E_COMPILE, &why);
    assert_int_equal(strlen(gdpa_last_error()), ERROR_TEXT_LIMIT);
    error_set(GDPA_E_ARGUMENT, "short again");
    assert_string_equal(gdpa_last_error(), "short again");
    sbuf_deinit(&why);
}

static void the_text_may_be_set_from_itself(void **state)
{
    (void)state;
    error_set(GDPA_E_ARGUMENT, "cause");
    error_set(GDPA_E_ARGUMENT, "again: %s", gdpa_last_error());
    assert_string_equal(gdpa_last_error(), "again: cause");
}

static void a_prefix_says_what_was_being_done(void **state)
{
    (void)state;
    error_set(GDPA_E_ARGUMENT, "cause");
    error_prefix("compiling %s", "x");
    assert_string_equal(gdpa_last_error(), "compiling x: cause");
}

static void a_failure_without_a_reason_still_says_something(void **state)
{
    (void)state;
    struct sbuf why;
    sbuf_init(&why, 64);
    error_set_why(GDPA_E_MEMORY, &why);
    assert_string_equal(gdpa_last_error(), "out of host memory");
    sbuf_deinit(&why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_its_name_and_its_sentence),
        cmocka_unit_test(a_number_that_is_no_status_is_named_so),
        cmocka_unit_test(each_thread_has_its_own_text),
        cmocka_unit_test(long_texts_are_kept_whole_up_to_the_limit),
        cmocka_unit_test(the_text_may_be_set_from_itself),
        cmocka_unit_test(a_prefix_says_what_was_being_done),
        cmocka_unit_test(a_failure_without_a_reason_still_says_something),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
