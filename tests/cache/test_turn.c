/*
 * Turns: one process compiles, the others wait; a turn ends with its holder however that dies; where there are no locks
 * nobody waits.
 */
#define _GNU_SOURCE /* lock_faults.h */
#include "tests/support/cache_fixture.h"
#include "tests/support/lock_faults.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static struct cache_key key_of(unsigned char number)
{
    return (struct cache_key){{number, 2, 3, 4, 5, 6, 7, 8, 9}};
}

static void one_handle_at_a_time_has_the_turn_of_a_key(void **state)
{
    struct fixture *fixture = *state;
    struct cache *a = fixture_open(fixture), *b = fixture_open(fixture);
    const struct cache_key key = key_of(1), other = key_of(2);
    struct cache_turn first, second, third;
    cache_turn_init(&first);
    cache_turn_init(&second);
    cache_turn_init(&third);
    assert_int_equal(cache_turn_try(a, &key, &first), CACHE_TURN_MINE);
    assert_int_equal(cache_turn_try(b, &key, &second), CACHE_TURN_TAKEN);
    assert_int_equal(cache_turn_try(a, &key, &second), CACHE_TURN_TAKEN);
    assert_int_equal(cache_turn_try(b, &other, &third), CACHE_TURN_MINE);
    assert_int_equal(cache_turn_holder(&second, &key), getpid());
    assert_int_equal(cache_turn_holder(&second, &other), getpid());
    cache_turn_end(&first);
    assert_int_equal(cache_turn_holder(&second, &key), 0);
    assert_int_equal(cache_turn_try(b, &key, &second), CACHE_TURN_MINE);
    cache_turn_end(&second);
    cache_turn_end(&third);
    cache_turn_end(&third);                                    /* harmless */
    assert_int_equal(count_names(fixture->dir, "kernels"), 4); /* one side file, whatever the number of keys */
    assert_int_equal(fixture->lines, 0);
    cache_close(a);
    cache_close(b);
}

/* A child that takes the turn, says so and sleeps. */
static pid_t start_holder(struct fixture *fixture, const struct cache_key *key)
{
    int ready[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct cache_turn turn;
        struct cache *cache = fixture_open(fixture);
        cache_turn_init(&turn);
        byte = cache_turn_try(cache, key, &turn) == CACHE_TURN_MINE ? 'y' : 'n';
        (void)!write(ready[1], &byte, 1);
        for (;;) {
            (void)pause();
        }
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    (void)close(ready[0]);
    (void)close(ready[1]);
    return child;
}

static void a_turn_ends_with_the_process_that_has_it_and_is_kept_while_it_is_stopped(void **state)
{
    struct fixture *fixture = *state;
    const struct cache_key key = key_of(7);
    struct cache *cache = fixture_open(fixture);
    struct cache_turn turn;
    cache_turn_init(&turn);
    pid_t child = start_holder(fixture, &key);
    assert_int_equal(cache_turn_try(cache, &key, &turn), CACHE_TURN_TAKEN);
    assert_int_equal(cache_turn_holder(&turn, &key), child);
    assert_int_equal(kill(child, SIGSTOP), 0);
    int status;
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_int_equal(cache_turn_try(cache, &key, &turn), CACHE_TURN_TAKEN);
    assert_int_equal(cache_turn_holder(&turn, &key), child);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(cache_turn_try(cache, &key, &turn), CACHE_TURN_MINE);
    cache_turn_end(&turn);
    cache_close(cache);
}

/* The lock is that of the open file, which the child has too. */
static void a_child_of_the_holder_does_not_keep_the_turn(void **state)
{
    struct fixture *fixture = *state;
    const struct cache_key key = key_of(3);
    struct cache *cache = fixture_open(fixture);
    struct cache_turn turn, again;
    int go[2];
    cache_turn_init(&turn);
    cache_turn_init(&again);
    assert_int_equal(pipe(go), 0);
    pid_t holder = fork();
    assert_true(holder >= 0);
    if (holder == 0) {
        char byte = 0;
        bool mine = cache_turn_try(cache, &key, &turn) == CACHE_TURN_MINE;
        pid_t grandchild = fork();
        if (grandchild == 0) {
            (void)close(go[0]);
            byte = mine && turn.fd < 0 ? 'y' : 'n';
            (void)!write(go[1], &byte, 1);
            for (int i = 0; i < 100; i++) { /* outlives its parent; gone when the test is */
                (void)usleep(20000);
            }
            _exit(0);
        }
        _exit(grandchild < 0);
    }
    int status;
    char byte = 0;
    assert_int_equal(waitpid(holder, &status, 0), holder);
    assert_int_equal(read(go[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    assert_int_equal(cache_turn_try(cache, &key, &again), CACHE_TURN_MINE);
    cache_turn_end(&again);
    (void)close(go[0]);
    (void)close(go[1]);
    cache_close(cache);
}

static void without_locks_nobody_waits_and_it_is_said_once(void **state)
{
    static const int errors[] = {ENOLCK, ENOSYS, EOPNOTSUPP, EINVAL};
    struct fixture *fixture = *state;
    const struct cache_key key = key_of(9);
    for (size_t i = 0; i < COUNT_OF(errors); i++) {
        struct cache *cache = fixture_open(fixture);
        struct cache_turn turn;
        cache_turn_init(&turn);
        fixture_forget_log(fixture);
        lock_error = errors[i];
        assert_int_equal(cache_turn_try(cache, &key, &turn), CACHE_TURN_NONE);
        assert_int_equal(cache_turn_try(cache, &key, &turn), CACHE_TURN_NONE);
        struct cache_details details;
        assert_int_equal(cache_describe(cache, &details), CACHE_OK);
        assert_int_equal(details.locks, 0);
        lock_error = 0;
        cache_turn_end(&turn);
        assert_int_equal(fixture->lines, 1);
        assert_int_equal(fixture->warnings, 0);
        assert_logged(fixture, strerror(errors[i]));
        assert_logged(fixture, "each compile it");
        cache_close(cache);
    }
}

static void what_stands_in_the_place_of_the_side_file_is_not_touched(void **state)
{
    struct fixture *fixture = *state;
    const struct cache_key key = key_of(4);
    char path[400];
    struct cache_turn turn;
    (void)snprintf(path, sizeof path, "%s/%s", fixture->dir, CACHE_LOCK_NAME);
    for (int i = 0; i < 3; i++) {
        struct cache *cache = fixture_open(fixture);
        assert_int_equal(i == 0 ? mkdir(path, 0700) : i == 1 ? symlink("elsewhere", path) : mkfifo(path, 0600), 0);
        cache_turn_init(&turn);
        fixture_forget_log(fixture);
        assert_int_equal(cache_turn_try(cache, &key, &turn), CACHE_TURN_NONE);
        assert_logged(fixture, CACHE_LOCK_NAME);
        assert_int_equal(fixture->warnings, 0);
        cache_turn_end(&turn);
        assert_int_equal(remove(path), 0);
        cache_close(cache);
    }
}

static void who_cannot_store_takes_no_turn(void **state)
{
    struct fixture *fixture = *state;
    const struct cache_key key = key_of(5);
    cache_close(fixture_open(fixture));
    struct cache_options options = fixture_options(fixture);
    options.read_only = true;
    struct cache *cache = cache_open(&options);
    struct cache_turn turn;
    cache_turn_init(&turn);
    assert_int_equal(cache_turn_try(cache, &key, &turn), CACHE_TURN_NONE);
    assert_int_equal(cache_turn_holder(&turn, &key), 0);
    cache_turn_end(&turn);
    cache_close(cache);
    assert_int_equal(count_names(fixture->dir, CACHE_LOCK_NAME), 0);
    assert_int_equal(fixture->lines, 0);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(one_handle_at_a_time_has_the_turn_of_a_key),
        WITH_FIXTURE(a_turn_ends_with_the_process_that_has_it_and_is_kept_while_it_is_stopped),
        WITH_FIXTURE(a_child_of_the_holder_does_not_keep_the_turn),
        WITH_FIXTURE(without_locks_nobody_waits_and_it_is_said_once),
        WITH_FIXTURE(what_stands_in_the_place_of_the_side_file_is_not_touched),
        WITH_FIXTURE(who_cannot_store_takes_no_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
