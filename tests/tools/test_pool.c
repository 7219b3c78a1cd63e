/*
 * pool: all the work is done once, and the ends of it: a failure, an interruption, an item that hangs.
 */
#include "tools/pool.h"

#include "tests/tools/cli_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

enum { ITEMS_LIMIT = 500 };

/* What the callbacks of a test see. Static: a thread that is left behind may still read it at the end. */
struct scene {
    atomic_int begun[ITEMS_LIMIT];
    int ended[ITEMS_LIMIT];
    int timed_out;
    size_t stop_after; /* items; 0: never */
    size_t over;
    size_t hangs; /* item that hangs until released; ITEMS_LIMIT: none */
    atomic_bool released;
    atomic_int at_once, most_at_once;
    bool interrupted;
};

static void pause_ms(long milliseconds)
{
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static void run(size_t item, void *result, void *user)
{
    struct scene *scene = user;
    int now = atomic_fetch_add(&scene->at_once, 1) + 1;
    int most = atomic_load(&scene->most_at_once);
    while (now > most && !atomic_compare_exchange_weak(&scene->most_at_once, &most, now)) {
    }
    atomic_fetch_add(&scene->begun[item], 1);
    assert_int_equal(*(size_t *)result, 0);
    while (item == scene->hangs && !atomic_load(&scene->released)) {
        pause_ms(5);
    }
    pause_ms(1);
    *(size_t *)result = item + 1000;
    atomic_fetch_sub(&scene->at_once, 1);
}

static bool over(size_t item, void *result, void *user)
{
    struct scene *scene = user;
    scene->over++;
    if (result == NULL) {
        scene->timed_out++;
    } else {
        scene->ended[item] += *(size_t *)result == item + 1000 ? 1 : 100;
    }
    return scene->stop_after == 0 || scene->over < scene->stop_after;
}

static bool tick(size_t done, size_t running, void *user)
{
    struct scene *scene = user;
    assert_int_equal(done, scene->over);
    assert_true(running <= ITEMS_LIMIT);
    return !scene->interrupted;
}

static struct pool_work work_of(struct scene *scene, size_t count, int threads)
{
    struct pool_work work = {
        .count = count,
        .threads = threads,
        .result_size = sizeof(size_t),
        .run = run,
        .over = over,
        .tick = tick,
        .user = scene,
    };
    return work;
}

static void every_item_is_done_once_by_any_number_of_threads(void **state)
{
    (void)state;
    static const int threads[] = {1, 2, 7, 64};
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        static struct scene scene;
        static enum pool_state states[ITEMS_LIMIT];
        memset(&scene, 0, sizeof scene);
        scene.hangs = ITEMS_LIMIT;
        struct pool_work work = work_of(&scene, 200, threads[i]);
        assert_int_equal(pool_run(&work, states), 0);
        for (size_t item = 0; item < 200; item++) {
            assert_int_equal(atomic_load(&scene.begun[item]), 1);
            assert_int_equal(scene.ended[item], 1);
            assert_int_equal(states[item], POOL_DONE);
        }
        assert_in_range(atomic_load(&scene.most_at_once), 1, threads[i]);
    }
}

static void no_items_are_no_work(void **state)
{
    (void)state;
    static struct scene scene;
    enum pool_state states[1] = {POOL_TIMED_OUT};
    struct pool_work work = work_of(&scene, 0, 4);
    assert_int_equal(pool_run(&work, states), 0);
    assert_int_equal(scene.over, 0);
    assert_int_equal(states[0], POOL_TIMED_OUT);
}

static void one_thread_stops_right_after_the_item_that_says_so(void **state)
{
    (void)state;
    static struct scene scene;
    static enum pool_state states[ITEMS_LIMIT];
    memset(&scene, 0, sizeof scene);
    scene.hangs = ITEMS_LIMIT;
    scene.stop_after = 3;
    struct pool_work work = work_of(&scene, 100, 1);
    assert_int_equal(pool_run(&work, states), 0);
    for (size_t item = 0; item < 100; item++) {
        assert_int_equal(states[item], item < 3 ? POOL_DONE : POOL_WAITING);
        assert_int_equal(atomic_load(&scene.begun[item]), item < 3 ? 1 : 0);
    }
}

static void what_runs_at_an_interruption_is_finished(void **state)
{
    (void)state;
    static struct scene scene;
    static enum pool_state states[ITEMS_LIMIT];
    memset(&scene, 0, sizeof scene);
    scene.hangs = ITEMS_LIMIT;
    scene.interrupted = true;
    struct pool_work work = work_of(&scene, ITEMS_LIMIT, 2);
    assert_int_equal(pool_run(&work, states), 0);
    size_t done = 0;
    for (size_t item = 0; item < ITEMS_LIMIT; item++) {
        assert_int_equal(atomic_load(&scene.begun[item]), scene.ended[item]);
        assert_int_equal(states[item], scene.ended[item] == 1 ? POOL_DONE : POOL_WAITING);
        done += states[item] == POOL_DONE ? 1U : 0U;
    }
    assert_in_range(done, 0, ITEMS_LIMIT - 1);
}

static void an_item_that_hangs_is_given_up_and_the_others_are_done(void **state)
{
    (void)state;
    static struct scene scene;
    static enum pool_state states[ITEMS_LIMIT];
    memset(&scene, 0, sizeof scene);
    scene.hangs = 1;
    struct pool_work work = work_of(&scene, 5, 1);
    work.timeout = 0.3;
    assert_int_equal(pool_run(&work, states), 1);
    assert_int_equal(scene.timed_out, 1);
    for (size_t item = 0; item < 5; item++) {
        assert_int_equal(states[item], item == 1 ? POOL_TIMED_OUT : POOL_DONE);
        assert_int_equal(scene.ended[item], item == 1 ? 0 : 1);
    }
    /* Its late result changes nothing. */
    atomic_store(&scene.released, true);
    for (int i = 0; i < 400 && atomic_load(&scene.at_once) > 0; i++) {
        pause_ms(5);
    }
    pause_ms(50);
    assert_int_equal(atomic_load(&scene.at_once), 0);
    assert_int_equal(scene.over, 5);
    assert_int_equal(scene.ended[1], 0);
}

static void a_hanging_item_that_stops_the_work_leaves_the_others_waiting(void **state)
{
    (void)state;
    static struct scene scene;
    static enum pool_state states[ITEMS_LIMIT];
    memset(&scene, 0, sizeof scene);
    scene.hangs = 0;
    scene.stop_after = 1;
    struct pool_work work = work_of(&scene, 3, 1);
    work.timeout = 0.2;
    assert_int_equal(pool_run(&work, states), 1);
    assert_int_equal(states[0], POOL_TIMED_OUT);
    assert_int_equal(states[1], POOL_WAITING);
    assert_int_equal(states[2], POOL_WAITING);
    atomic_store(&scene.released, true);
    pause_ms(100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_is_done_once_by_any_number_of_threads),
        cmocka_unit_test(no_items_are_no_work),
        cmocka_unit_test(one_thread_stops_right_after_the_item_that_says_so),
        cmocka_unit_test(what_runs_at_an_interruption_is_finished),
        cmocka_unit_test(an_item_that_hangs_is_given_up_and_the_others_are_done),
        cmocka_unit_test(a_hanging_item_that_stops_the_work_leaves_the_others_waiting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
