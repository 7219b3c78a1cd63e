/*
 * Host memory through an allocator.
 */
#include "runtime/memory.h"
#include "tests/support/runtime_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void *marked_alloc(size_t bytes, void *user)
{
    *(int *)user += 1;
    void *memory = malloc(bytes);
    if (memory != NULL) {
        memset(memory, 0xff, bytes);
    }
    return memory;
}

static void marked_free(void *memory, void *user)
{
    *(int *)user -= 1;
    free(memory);
}

static void memory_comes_zeroed_from_the_allocator_given(void **state)
{
    (void)state;
    int live = 0;
    const gdpa_allocator wanted = {marked_alloc, marked_free, &live};
    const gdpa_allocator allocator = memory_allocator(&wanted);
    unsigned char *bytes = memory_alloc(&allocator, 100);
    assert_int_equal(live, 1);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(bytes[i], 0);
    }
    memory_free(&allocator, bytes);
    memory_free(&allocator, NULL);
    assert_int_equal(live, 0);
}

static void without_one_malloc_is_used(void **state)
{
    (void)state;
    const gdpa_allocator none = {NULL, NULL, NULL};
    const gdpa_allocator allocator = memory_allocator(&none);
    char *empty = memory_alloc(&allocator, 0);
    assert_non_null(empty);
    memory_free(&allocator, empty);
    char *copy = memory_copy(&allocator, "abcdef", 3);
    assert_string_equal(copy, "abc");
    memory_free(&allocator, copy);
    copy = memory_text(&allocator, "");
    assert_string_equal(copy, "");
    memory_free(&allocator, copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_comes_zeroed_from_the_allocator_given),
        cmocka_unit_test(without_one_malloc_is_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
