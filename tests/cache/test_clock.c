/*
 * Clocks that jump: nothing in the cache is a time. What was used last, what is valid and what goes first are the same.
 */
#define _GNU_SOURCE /* syscall */
#include "tests/support/cache_fixture.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* ---- The wall clock that everything in this program sees --------------------------------------------------------------- */

static long jump; /* seconds */

/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): the names of libc are reserved ones */
int clock_gettime(clockid_t clock, struct timespec *time)
{
    long error = syscall(SYS_clock_gettime, clock, time);
    if (error == 0 && clock == CLOCK_REALTIME) {
        time->tv_sec += jump;
    }
    return (int)error;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    int error = clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return error;
}

time_t time(time_t *seconds)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (seconds) {
        *seconds = now.tv_sec;
    }
    return now.tv_sec;
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */

/* ---- One history under every clock -------------------------------------------------------------------------------- */

enum { NUMBERS = 40 };

/* Which entries are there after a fixed history; files get the times that this clock gives. */
static void history(struct fixture *fixture, const long *jumps, bool there[NUMBERS])
{
    for (unsigned round = 0; round < 4; round++) {
        struct cache *cache = fixture_open(fixture);
        for (unsigned i = 0; i < NUMBERS / 4; i++) {
            jump = jumps[(round + i) % 4];
            (void)sample_get(cache, round == 0 ? 0 : 2, 60000, NULL);
            assert_int_equal(sample_put(cache, round * (NUMBERS / 4) + i, 60000), CACHE_OK);
        }
        cache_close(cache);
        const struct timespec times[2] = {{1000000000 + jump, 0}, {1000000000 + jump, 0}};
        assert_int_equal(utimensat(AT_FDCWD, fixture->file, times, 0), 0);
    }
    struct cache *cache = fixture_open(fixture);
    struct cache_gc report;
    assert_int_equal(cache_gc(cache, 1200000, &report), CACHE_OK);
    for (unsigned i = 0; i < NUMBERS; i++) {
        there[i] = sample_get(cache, i, 60000, NULL) == CACHE_OK;
    }
    assert_int_equal(cache_bad_entries(cache), 0);
    cache_close(cache);
    assert_int_equal(fixture->lines, 0);
    jump = 0;
}

static void jumps_of_the_clock_change_neither_hits_nor_order_nor_validity(void **state)
{
    struct fixture *fixture = *state;
    static const long day = 86400;
    const long clocks[][4] = {
        {0, 0, 0, 0},
        {0, 3650 * day, -3650 * day, 0},
        {-20000 * day, 0, 20000 * day, 100 * day},
        {1, -1, 3600, -3600},
    };
    bool expected[NUMBERS], found[NUMBERS];
    for (size_t i = 0; i < COUNT_OF(clocks); i++) {
        fixture_forget_folder(fixture);
        history(fixture, clocks[i], found);
        if (i == 0) {
            memcpy(expected, found, sizeof expected);
            assert_true(expected[NUMBERS - 1] && expected[2]); /* stored last; used all the time */
            assert_false(expected[1]);
        }
        assert_memory_equal(found, expected, sizeof expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(jumps_of_the_clock_change_neither_hits_nor_order_nor_validity,
                                        fixture_setup_in_memory, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
