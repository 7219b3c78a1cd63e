/*
 * limits: the texts of the kernel, read as numbers.
 */
#include "tools/limits.h"

#include "tests/tools/cli_test.h"

static void lists_of_processors_are_counted(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int count;
    } cases[] = {
        {"Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7\nMems_allowed_list:\t0\n", 8},
        {"Cpus_allowed_list:\t3\n", 1},
        {"Cpus_allowed_list:\t0-3,8,10-11\n", 7},
        {"Cpus_allowed_list:\t\n", 0},
        {"Cpus_allowed_list:\t5-2\n", 0},
        {"Name:\tx\n", 0},
        {"", 0},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(limits_cpu_list(cases[i].text), cases[i].count);
    }
}

static void quotas_are_whole_processors_and_at_least_one(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int count;
    } cases[] = {
        {"max 100000\n", 0}, {"200000 100000\n", 2}, {"150000 100000\n", 1}, {"50000 100000\n", 1}, {"", 0},
        {"1 0\n", 0},        {"-1 100000\n", 0},     {"100000\n", 0},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(limits_cpu_quota(cases[i].text), cases[i].count);
    }
}

static void available_memory_is_read_in_bytes(void **state)
{
    (void)state;
    assert_true(limits_memory_available("MemTotal: 100 kB\nMemAvailable:    2048 kB\n") == 2048LL * 1024);
    assert_true(limits_memory_available("MemTotal: 100 kB\n") == -1);
    assert_true(limits_memory_available("MemAvailable: much\n") == -1);
}

static void there_is_always_one_job(void **state)
{
    (void)state;
    assert_true(limits_default_jobs() >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_processors_are_counted),
        cmocka_unit_test(quotas_are_whole_processors_and_at_least_one),
        cmocka_unit_test(available_memory_is_read_in_bytes),
        cmocka_unit_test(there_is_always_one_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
