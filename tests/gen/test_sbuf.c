/*
 * sbuf: growth, the hard limit, and that nothing is ever appended half-way.
 */
#include "gen/sbuf.h"

#include <stdlib.h>

#include "tests/gen/gen_test.h"

/* An allocation that is too large has to fail under the address sanitizer as it does without. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static void an_empty_buffer_shows_the_empty_string(void **state)
{
    (void)state;
    struct sbuf buffer;
    sbuf_init(&buffer, 10);
    assert_string_equal(buffer.text, "");
    assert_int_equal(buffer.length, 0);
    sbuf_reset(&buffer);
    assert_string_equal(buffer.text, "");
    sbuf_deinit(&buffer);
    assert_string_equal(buffer.text, "");
}

static void text_grows_by_pieces_and_stays_ended(void **state)
{
    (void)state;
    struct sbuf buffer;
    sbuf_init(&buffer, 100000);
    for (int i = 0; i < 10000; ++i) {
        sbuf_addf(&buffer, "%04d", i);
        assert_int_equal(buffer.length, 4 * (i + 1));
        assert_int_equal(buffer.text[buffer.length], '\0');
    }
    assert_memory_equal(buffer.text + (size_t)4 * 1234, "1234", 4);
    assert_false(buffer.overflow);
    assert_true(buffer.capacity <= buffer.limit + 1);
    sbuf_deinit(&buffer);
}

static void every_length_up_to_the_limit_fits_and_not_one_more(void **state)
{
    (void)state;
    char text[300];
    memset(text, 'x', sizeof(text));
    for (size_t limit = 0; limit < 200; ++limit) {
        for (size_t step = 1; step < 70; step += 3) {
            struct sbuf buffer;
            sbuf_init(&buffer, limit);
            while (!buffer.overflow) {
                size_t before = buffer.length;
                sbuf_add(&buffer, text, step);
                assert_int_equal(buffer.length, buffer.overflow ? before : before + step);
                assert_true(buffer.length <= limit);
            }
            assert_int_equal(buffer.length, limit / step * step);
            assert_int_equal(strlen(buffer.text), buffer.length);
            sbuf_deinit(&buffer);
        }
    }
}

static void after_an_overflow_nothing_is_appended_until_a_reset(void **state)
{
    (void)state;
    struct sbuf buffer;
    sbuf_init(&buffer, 5);
    sbuf_addstr(&buffer, "abc");
    sbuf_addf(&buffer, "%s", "def");
    assert_true(buffer.overflow);
    sbuf_addstr(&buffer, "d");
    assert_string_equal(buffer.text, "abc");
    sbuf_reset(&buffer);
    assert_false(buffer.overflow);
    assert_string_equal(buffer.text, "");
    sbuf_addf(&buffer, "%d", 12345);
    assert_string_equal(buffer.text, "12345");
    assert_false(buffer.overflow);
    sbuf_deinit(&buffer);
}

static void bytes_with_zeros_are_kept(void **state)
{
    (void)state;
    struct sbuf buffer;
    sbuf_init(&buffer, 10);
    sbuf_add(&buffer, "a\0b", 3);
    sbuf_add(&buffer, "", 0);
    assert_int_equal(buffer.length, 3);
    assert_memory_equal(buffer.text, "a\0b", 4);
    sbuf_deinit(&buffer);
}

static void memory_that_runs_out_is_an_overflow(void **state)
{
    (void)state;
    struct sbuf buffer;
    sbuf_init(&buffer, SIZE_MAX);
    sbuf_addstr(&buffer, "kept");
    volatile size_t enormous = SIZE_MAX / 2; /* not read: the allocation fails first */
    sbuf_add(&buffer, "x", enormous);
    assert_true(buffer.overflow);
    assert_string_equal(buffer.text, "kept");
    sbuf_deinit(&buffer);
}

static void no_buffer_takes_every_append(void **state)
{
    (void)state;
    sbuf_add(NULL, "x", 1);
    sbuf_addstr(NULL, "x");
    sbuf_addf(NULL, "%d", 1);
    sbuf_add_quoted(NULL, "x", 1);
    sbuf_reset(NULL);
}

static void quoted_text_is_printable_and_short(void **state)
{
    (void)state;
    char text[100];
    memset(text, 'y', sizeof(text));
    struct sbuf buffer;
    sbuf_init(&buffer, 200);
    sbuf_add_quoted(&buffer, "a\n\x1b\xff z", 6);
    assert_string_equal(buffer.text, "'a??? z'");
    sbuf_reset(&buffer);
    sbuf_add_quoted(&buffer, text, 60);
    assert_int_equal(buffer.length, 62);
    sbuf_reset(&buffer);
    sbuf_add_quoted(&buffer, text, 61);
    assert_int_equal(buffer.length, 65);
    assert_string_equal(buffer.text + 60, "y...'");
    sbuf_deinit(&buffer);
}

static void a_line_stays_one(void **state)
{
    (void)state;
    struct sbuf buffer;
    sbuf_init(&buffer, 100);
    sbuf_add_line(&buffer, "a\nb\r\tc\033[1m\177 \303\244\001");
    assert_string_equal(buffer.text, "a?b??c?[1m? \303\244?");
    sbuf_add_line(&buffer, "");
    assert_int_equal(buffer.length, 15);
    sbuf_deinit(&buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_buffer_shows_the_empty_string),
        cmocka_unit_test(text_grows_by_pieces_and_stays_ended),
        cmocka_unit_test(every_length_up_to_the_limit_fits_and_not_one_more),
        cmocka_unit_test(after_an_overflow_nothing_is_appended_until_a_reset),
        cmocka_unit_test(bytes_with_zeros_are_kept),
        cmocka_unit_test(memory_that_runs_out_is_an_overflow),
        cmocka_unit_test(no_buffer_takes_every_append),
        cmocka_unit_test(quoted_text_is_printable_and_short),
        cmocka_unit_test(a_line_stays_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
