/*
 * The table of kernels: exact, growing, read without a lock while it is written.
 */
#include "runtime/kernel_table.h"
#include "tests/support/runtime_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static const gdpa_allocator no_allocator;

static gdpa_spec spec_number(int number)
{
    gdpa_spec spec = GDPA_SPEC_INIT;
    spec.window_left = number;
    return spec;
}

static gdpa_kernel *kernel_number(int number)
{
    return (gdpa_kernel *)((uintptr_t)0x1000 + 16 * (uintptr_t)number);
}

static bool add(struct kernel_table *table, const gdpa_allocator *allocator, int number, bool alias)
{
    const gdpa_spec spec = spec_number(number);
    return kernel_table_add(table, allocator, kernel_table_hash(&spec), &spec, kernel_number(number), alias);
}

static gdpa_kernel *find(const struct kernel_table *table, int number)
{
    const gdpa_spec spec = spec_number(number);
    return kernel_table_find(table, kernel_table_hash(&spec), &spec);
}

static void what_was_added_is_found_and_nothing_else(void **state)
{
    (void)state;
    struct kernel_table table;
    const gdpa_allocator allocator = memory_allocator(&no_allocator);
    assert_true(kernel_table_init(&table, &allocator));
    for (int i = 0; i < 3000; i++) {
        assert_null(find(&table, i));
        assert_true(add(&table, &allocator, i, false));
    }
    for (int i = 0; i < 3000; i++) {
        assert_ptr_equal(find(&table, i), kernel_number(i));
    }
    assert_null(find(&table, 3000));
    assert_int_equal(table.count, 3000);
    kernel_table_deinit(&table, &allocator);
}

static void equal_hashes_are_told_apart_by_the_whole_spec(void **state)
{
    (void)state;
    struct kernel_table table;
    const gdpa_allocator allocator = memory_allocator(&no_allocator);
    assert_true(kernel_table_init(&table, &allocator));
    for (int i = 0; i < 40; i++) {
        const gdpa_spec spec = spec_number(i);
        assert_true(kernel_table_add(&table, &allocator, 77, &spec, kernel_number(i), false));
    }
    for (int i = 0; i < 40; i++) {
        const gdpa_spec spec = spec_number(i);
        assert_ptr_equal(kernel_table_find(&table, 77, &spec), kernel_number(i));
    }
    const gdpa_spec other = spec_number(40);
    assert_null(kernel_table_find(&table, 77, &other));
    kernel_table_deinit(&table, &allocator);
}

static void the_first_of_two_equal_entries_stays(void **state)
{
    (void)state;
    struct kernel_table table;
    const gdpa_allocator allocator = memory_allocator(&no_allocator);
    const gdpa_spec spec = spec_number(1);
    assert_true(kernel_table_init(&table, &allocator));
    assert_true(add(&table, &allocator, 1, false));
    assert_true(kernel_table_add(&table, &allocator, kernel_table_hash(&spec), &spec, kernel_number(9), true));
    assert_ptr_equal(find(&table, 1), kernel_number(1));
    assert_int_equal(table.count, 1);
    kernel_table_deinit(&table, &allocator);
}

static void the_number_of_aliases_is_limited(void **state)
{
    (void)state;
    struct kernel_table table;
    const gdpa_allocator allocator = memory_allocator(&no_allocator);
    assert_true(kernel_table_init(&table, &allocator));
    for (int i = 0; i < 10000; i++) {
        assert_true(add(&table, &allocator, i, true));
    }
    assert_int_equal(table.count, 4096);
    assert_null(find(&table, 9999));
    assert_true(add(&table, &allocator, 9999, false));
    assert_ptr_equal(find(&table, 9999), kernel_number(9999));
    kernel_table_deinit(&table, &allocator);
}

struct limited_memory {
    int left;
};

static void *limited_alloc(size_t bytes, void *user)
{
    struct limited_memory *memory = user;
    return memory->left-- > 0 ? malloc(bytes) : NULL;
}

static void limited_free(void *memory, void *user)
{
    (void)user;
    free(memory);
}

static void lack_of_memory_leaves_the_table_as_it_was(void **state)
{
    (void)state;
    for (int left = 0; left < 45; left++) {
        struct limited_memory memory = {left};
        const gdpa_allocator allocator = {limited_alloc, limited_free, &memory};
        struct kernel_table table;
        if (!kernel_table_init(&table, &allocator)) {
            continue;
        }
        int added = 0;
        while (added < 40 && add(&table, &allocator, added, false)) {
            added++;
        }
        assert_int_equal(table.count, added);
        for (int i = 0; i < added; i++) {
            assert_ptr_equal(find(&table, i), kernel_number(i));
        }
        assert_null(find(&table, added));
        kernel_table_deinit(&table, &allocator);
    }
}

struct race {
    struct kernel_table table;
    gdpa_allocator allocator;
    atomic_int published;
};

static void *race_reader(void *user)
{
    struct race *race = user;
    long found = 0;
    for (int published = 0; published < 2000;) {
        published = atomic_load(&race->published);
        for (int i = 0; i < published; i += 37) {
            if (find(&race->table, i) != kernel_number(i)) {
                return race; /* an entry that was added is not there */
            }
            found++;
        }
        if (find(&race->table, 1 << 20) != NULL) {
            return race;
        }
    }
    return found > 0 ? NULL : race;
}

static void readers_see_whole_entries_while_the_table_grows(void **state)
{
    (void)state;
    struct race race = {.allocator = memory_allocator(&no_allocator)};
    pthread_t readers[4];
    assert_true(kernel_table_init(&race.table, &race.allocator));
    atomic_init(&race.published, 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&readers[i], NULL, race_reader, &race), 0);
    }
    for (int i = 0; i < 2000; i++) {
        assert_true(add(&race.table, &race.allocator, i, false));
        atomic_store(&race.published, i + 1);
    }
    for (int i = 0; i < 4; i++) {
        void *result = NULL;
        pthread_join(readers[i], &result);
        assert_null(result);
    }
    kernel_table_deinit(&race.table, &race.allocator);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_added_is_found_and_nothing_else),
        cmocka_unit_test(equal_hashes_are_told_apart_by_the_whole_spec),
        cmocka_unit_test(the_first_of_two_equal_entries_stays),
        cmocka_unit_test(the_number_of_aliases_is_limited),
        cmocka_unit_test(lack_of_memory_leaves_the_table_as_it_was),
        cmocka_unit_test(readers_see_whole_entries_while_the_table_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
