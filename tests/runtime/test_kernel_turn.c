/*
 * Many processes and one cache: one compile a kernel, nobody waits for the dead, nobody waits for ever.
 *
 * Longer runs: GDPAJIT_TEST_KILLS (processes killed while they compile and store, 40 by default) and
 * GDPAJIT_TEST_ROUNDS (pairs of processes that ask at once, 30 by default).
 */
#define _GNU_SOURCE /* lock_faults.h */
#include "tests/support/cache_fixture.h"
#include "tests/support/lock_faults.h"
#include "tests/support/runtime_fixture.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#define SPEC "fwd head_dim=64 activation=relu arch=sm_80"
#define KERNELS 30

/* What parent and children of a test share. */
struct board {
    atomic_int ready, go, done, failed;
    atomic_long compiles, waits;
};

static struct board *board;
static unsigned rounds, kills; /* from the environment, which fakes_load clears */

static int board_make(void **state)
{
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return board == MAP_FAILED ? -1 : fakes_load(state);
}

static int board_reset(void **state)
{
    memset(board, 0, sizeof *board);
    atomic_store(&lock_error, 0);
    return fakes_reset(state);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void sleep_ms(long milliseconds)
{
    const struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

static bool reaches(atomic_int *counter, int value)
{
    for (int i = 0; atomic_load(counter) < value && i < 30000; i++) {
        sleep_ms(1);
    }
    return atomic_load(counter) >= value;
}

/* ---- Children ------------------------------------------------------------------------------------------------------ */

static gdpa_spec spec_of(int number)
{
    char text[128];
    snprintf(text, sizeof text, "fwd head_dim=%d activation=relu arch=sm_80", 8 * (number + 1));
    return runtime_spec(text);
}

/* Gets `count` kernels, after the others are ready too. */
static bool kernels_get(gdpa_ctx *ctx, int count, int64_t *compiles)
{
    bool good = true;
    for (int i = 0; i < count; i++) {
        gdpa_kernel *kernel = NULL;
        const gdpa_spec spec = count == 1 ? runtime_spec(SPEC) : spec_of(i);
        good = gdpa_kernel_get(ctx, &spec, &kernel) == GDPA_OK && good;
        gdpa_kernel_release(kernel);
    }
    gdpa_stats stats = {.size = sizeof stats};
    good = gdpa_ctx_stats(ctx, &stats) == GDPA_OK && stats.bad_entries == 0 && good;
    *compiles = (int64_t)stats.compiles;
    atomic_fetch_add(&board->waits, (long)stats.process_waits);
    return good;
}

static _Noreturn void child_run(const gdpa_ctx_options *options, int count)
{
    gdpa_ctx *ctx = NULL;
    int64_t compiles = 0;
    bool good = gdpa_ctx_create(options, &ctx) == GDPA_OK;
    atomic_fetch_add(&board->ready, 1);
    good = reaches(&board->go, 1) && good && kernels_get(ctx, count, &compiles);
    atomic_fetch_add(&board->compiles, compiles);
    atomic_fetch_add(&board->failed, good ? 0 : 1);
    atomic_fetch_add(&board->done, 1);
    gdpa_ctx_destroy(ctx);
    _exit(good ? 0 : 1);
}

static pid_t child_start(const gdpa_ctx_options *options, int count)
{
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        child_run(options, count);
    }
    return child;
}

static void child_end(pid_t child, int signal)
{
    int status = 0;
    if (signal != 0) {
        kill(child, signal);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (signal == 0) {
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

/* Processes that start together; the seconds from the start to the end of the last. */
static double race(const gdpa_ctx_options *options, int processes, int count)
{
    pid_t children[16];
    memset(board, 0, sizeof *board);
    for (int i = 0; i < processes; i++) {
        children[i] = child_start(options, count);
    }
    assert_true(reaches(&board->ready, processes));
    const double start = seconds();
    atomic_store(&board->go, 1);
    assert_true(reaches(&board->done, processes));
    const double taken = seconds() - start;
    for (int i = 0; i < processes; i++) {
        child_end(children[i], 0);
    }
    assert_int_equal(atomic_load(&board->failed), 0);
    return taken;
}

static void two_processes_and_one_cold_kernel_are_one_compile(void **state)
{
    (void)state;
    long waits = 0;
    for (unsigned round = 0; round < rounds; round++) {
        char *folder = scratch_make();
        const gdpa_ctx_options options = runtime_options(folder);
        fake_nvrtc_control->delay((int)(round % 4) * 5);
        race(&options, 2, 1);
        assert_int_equal(atomic_load(&board->compiles), 1);
        waits += atomic_load(&board->waits);
        scratch_remove(folder);
    }
    assert_true(waits > 0);
}

static void eight_processes_and_thirty_cold_kernels_are_thirty_compiles_in_the_time_of_one(void **state)
{
    (void)state;
    double ratio = 0;
    fake_nvrtc_control->delay(60);
    for (int attempt = 0; attempt < 3; attempt++) { /* the machine may be busy with something else */
        char *alone = scratch_make(), *together = scratch_make();
        const gdpa_ctx_options options_alone = runtime_options(alone), options_together = runtime_options(together);
        const double one = race(&options_alone, 1, KERNELS);
        assert_int_equal(atomic_load(&board->compiles), KERNELS);
        const double eight = race(&options_together, 8, KERNELS);
        assert_int_equal(atomic_load(&board->compiles), KERNELS);
        ratio = eight / one;
        print_message("# one process %.2f s, eight %.2f s: %.2f\n", one, eight, ratio);
        scratch_remove(alone);
        scratch_remove(together);
        if (ratio <= 1.3 || INSTRUMENTED) {
            return;
        }
    }
    fail_msg("eight processes took %.2f of the time of one, at most 1.3 is good", ratio);
}

/* ---- Holders that die or stop --------------------------------------------------------------------------------------- */

/* A child in the middle of a compile that takes `delay` ms. */
static pid_t compiling_child(const gdpa_ctx_options *options, int delay)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", options->cache_dir, CACHE_LOCK_NAME);
    fake_nvrtc_control->delay(delay);
    const pid_t child = child_start(options, 1);
    atomic_store(&board->go, 1);
    for (int i = 0; access(path, F_OK) != 0 && i < 5000; i++) {
        sleep_ms(1);
    }
    sleep_ms(50);
    fake_nvrtc_control->delay(0);
    return child;
}

struct watched {
    gdpa_ctx_options options;
    char *folder;
    struct captured_log log;
};

static struct watched *watched_make(int32_t wait_s)
{
    struct watched *watched = calloc(1, sizeof *watched);
    assert_non_null(watched);
    watched->folder = scratch_make();
    captured_log_init(&watched->log);
    watched->options = runtime_options(watched->folder);
    watched->options.log = captured_log_line;
    watched->options.log_user = &watched->log;
    watched->options.log_level = GDPA_LOG_INFO;
    watched->options.cache_wait_s = wait_s;
    return watched;
}

static void watched_end(struct watched *watched)
{
    scratch_remove(watched->folder);
    free(watched);
}

static gdpa_stats get_one(const gdpa_ctx_options *options)
{
    gdpa_ctx *ctx = runtime_context(options);
    gdpa_kernel *kernel = NULL;
    const gdpa_spec spec = runtime_spec(SPEC);
    gdpa_stats stats = {.size = sizeof stats};
    expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
    expect_ok(gdpa_ctx_stats(ctx, &stats));
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx);
    return stats;
}

static void entries_expect(const gdpa_ctx_options *options, int64_t good)
{
    gdpa_ctx *ctx = runtime_context(options);
    int64_t counts[2] = {-1, -1};
    expect_ok(gdpa_cache_verify(ctx, &counts[0], &counts[1]));
    assert_int_equal(counts[0], good);
    assert_int_equal(counts[1], 0);
    gdpa_ctx_destroy(ctx);
}

static void *kill_later(void *user)
{
    sleep_ms(200);
    kill(*(const pid_t *)user, SIGKILL);
    return NULL;
}

static void who_waits_takes_over_at_once_when_the_holder_is_killed(void **state)
{
    (void)state;
    struct watched *watched = watched_make(0);
    pid_t child = compiling_child(&watched->options, 60000);
    pthread_t killer;
    assert_int_equal(pthread_create(&killer, NULL, kill_later, &child), 0);
    const double start = seconds();
    const gdpa_stats stats = get_one(&watched->options);
    const double taken = seconds() - start;
    assert_int_equal(stats.compiles, 1);
    assert_int_equal(stats.process_waits, 1);
    assert_true(taken > 0.1 && taken < 5);
    pthread_join(killer, NULL);
    child_end(child, SIGKILL);
    entries_expect(&watched->options, 1);
    watched_end(watched);
}

static void a_holder_that_is_stopped_is_named_and_not_waited_for_beyond_the_limit(void **state)
{
    (void)state;
    struct watched *watched = watched_make(3);
    char text[64];
    const pid_t child = compiling_child(&watched->options, 60000);
    kill(child, SIGSTOP);
    const double start = seconds();
    const gdpa_stats stats = get_one(&watched->options);
    const double taken = seconds() - start;
    assert_int_equal(stats.compiles, 1);
    assert_true(taken >= 3 && taken < 30);
    snprintf(text, sizeof text, "since 2 s: process %ld compiles it", (long)child);
    expect_text(watched->log.text, text);
    snprintf(text, sizeof text, "process %ld had its turn to compile", (long)child);
    expect_text(watched->log.text, text);
    expect_text(watched->log.text, "GDPAJIT_CACHE_WAIT sets the limit");
    child_end(child, SIGKILL);
    entries_expect(&watched->options, 1);
    watched_end(watched);
}

static void who_does_not_want_to_wait_or_cannot_store_compiles_at_once(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct watched *watched = watched_make(i == 0 ? -1 : 0);
        const pid_t child = compiling_child(&watched->options, 60000);
        watched->options.mode = i == 0 ? GDPA_MODE_AUTO : GDPA_MODE_READONLY;
        const double start = seconds();
        assert_int_equal(get_one(&watched->options).compiles, 1);
        assert_true(seconds() - start < 5);
        assert_null(strstr(watched->log.text, "turn to compile"));
        child_end(child, SIGKILL);
        watched_end(watched);
    }
}

static void a_kernel_that_the_holder_cannot_compile_is_an_error_of_each(void **state)
{
    (void)state;
    struct watched *watched = watched_make(0);
    fake_nvrtc_control->fault("nvrtcCompileProgram", 6);
    gdpa_ctx *contexts[2] = {runtime_context(&watched->options), runtime_context(&watched->options)};
    for (int i = 0; i < 2; i++) {
        gdpa_kernel *kernel = NULL;
        const gdpa_spec spec = runtime_spec(SPEC);
        expect_failure(gdpa_kernel_get(contexts[i], &spec, &kernel), GDPA_E_COMPILE, "");
    }
    fake_nvrtc_control->fault("nvrtcCompileProgram", 0);
    for (int i = 0; i < 2; i++) { /* the turn was given back */
        gdpa_ctx_destroy(contexts[i]);
    }
    assert_int_equal(get_one(&watched->options).process_waits, 0);
    watched_end(watched);
}

static void without_locks_each_process_compiles_and_all_results_are_right(void **state)
{
    (void)state;
    char *folder = scratch_make();
    const gdpa_ctx_options options = runtime_options(folder);
    atomic_store(&lock_error, ENOLCK);
    fake_nvrtc_control->delay(100);
    race(&options, 3, 1);
    const long compiles = atomic_load(&board->compiles);
    assert_true(compiles >= 1 && compiles <= 3);
    assert_int_equal(atomic_load(&board->waits), 0);
    entries_expect(&options, 1);
    scratch_remove(folder);
}

/* ---- Two contexts of one process ------------------------------------------------------------------------------------ */

struct getter {
    gdpa_ctx *ctx;
    gdpa_status status;
};

static void *get_in_thread(void *user)
{
    struct getter *getter = user;
    gdpa_kernel *kernel = NULL;
    const gdpa_spec spec = runtime_spec(SPEC);
    getter->status = gdpa_kernel_get(getter->ctx, &spec, &kernel);
    gdpa_kernel_release(kernel);
    return NULL;
}

static void two_contexts_of_one_process_compile_once_as_well(void **state)
{
    (void)state;
    char *folder = scratch_make();
    const gdpa_ctx_options options = runtime_options(folder);
    struct getter getters[4];
    pthread_t threads[4];
    uint64_t compiles = 0;
    fake_nvrtc_control->delay(50);
    for (int i = 0; i < 4; i++) {
        getters[i].ctx = runtime_context(&options);
        assert_int_equal(pthread_create(&threads[i], NULL, get_in_thread, &getters[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        gdpa_stats stats = {.size = sizeof stats};
        pthread_join(threads[i], NULL);
        expect_ok(getters[i].status);
        expect_ok(gdpa_ctx_stats(getters[i].ctx, &stats));
        compiles += stats.compiles;
        gdpa_ctx_destroy(getters[i].ctx);
    }
    assert_int_equal(compiles, 1);
    scratch_remove(folder);
}

/* ---- Killed at any moment ------------------------------------------------------------------------------------------ */

static void after_kills_at_any_moment_no_entry_is_bad_and_the_next_process_goes_on(void **state)
{
    (void)state;
    uint64_t random = 7;
    unsigned finished = 0;
    char *folder = NULL;
    for (unsigned i = 0; i < kills; i++) {
        if (i % 3 == 0) { /* cold again: else all is stored soon */
            if (folder != NULL) {
                scratch_remove(folder);
            }
            folder = scratch_make();
        }
        const gdpa_ctx_options options = runtime_options(folder);
        const int delay = (int)(random_next(&random) % 3);
        fake_nvrtc_control->delay(delay);
        memset(board, 0, sizeof *board);
        const pid_t children[2] = {child_start(&options, KERNELS), child_start(&options, KERNELS)};
        atomic_store(&board->go, 1);
        sleep_ms((long)(1 + random_next(&random) % (20 + 30 * (uint64_t)delay)));
        finished += atomic_load(&board->done) == 2;
        child_end(children[0], SIGKILL);
        child_end(children[1], SIGKILL);
        fake_nvrtc_control->delay(0);
        const gdpa_stats stats = get_one(&options); /* waits for nobody */
        assert_int_equal(stats.process_waits, 0);
        assert_int_equal(stats.bad_entries, 0);
        gdpa_ctx *ctx = runtime_context(&options);
        int64_t good = 0, bad = -1;
        expect_ok(gdpa_cache_verify(ctx, &good, &bad));
        assert_true(good >= 1);
        assert_int_equal(bad, 0);
        gdpa_ctx_destroy(ctx);
    }
    print_message("# %u kills of two processes, %u of them after the work was done\n", kills, finished);
    assert_true(finished < kills);
    scratch_remove(folder);
}

#define TEST(name) cmocka_unit_test_setup(name, board_reset)

int main(void)
{
    rounds = number_from_environment("GDPAJIT_TEST_ROUNDS", INSTRUMENTED ? 10 : 30);
    kills = number_from_environment("GDPAJIT_TEST_KILLS", INSTRUMENTED ? 15 : 40);
    const struct CMUnitTest tests[] = {
        TEST(two_processes_and_one_cold_kernel_are_one_compile),
        TEST(eight_processes_and_thirty_cold_kernels_are_thirty_compiles_in_the_time_of_one),
        TEST(who_waits_takes_over_at_once_when_the_holder_is_killed),
        TEST(a_holder_that_is_stopped_is_named_and_not_waited_for_beyond_the_limit),
        TEST(who_does_not_want_to_wait_or_cannot_store_compiles_at_once),
        TEST(a_kernel_that_the_holder_cannot_compile_is_an_error_of_each),
        TEST(without_locks_each_process_compiles_and_all_results_are_right),
        TEST(two_contexts_of_one_process_compile_once_as_well),
        TEST(after_kills_at_any_moment_no_entry_is_bad_and_the_next_process_goes_on),
    };
    return cmocka_run_group_tests(tests, board_make, NULL);
}
