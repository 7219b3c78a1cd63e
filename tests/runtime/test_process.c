/*
 * Forks: a child gets a library that works, and nothing of the parent's CUDA.
 */
#include "runtime/kernel.h"
#include "tests/support/runtime_fixture.h"

#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define RELU "fwd head_dim=64 activation=relu arch=sm_90a"
#define SILU "fwd head_dim=64 activation=silu arch=sm_90a"

enum { CHILD_LIMIT_S = 60 };

static gdpa_ctx *context_on_hopper(const char *folder)
{
    static const int capability = 90;
    const gdpa_ctx_options options = runtime_options(folder);
    fake_driver_control->devices(1, &capability);
    return runtime_context(&options);
}

static bool gets(gdpa_ctx *ctx, const char *text)
{
    gdpa_spec spec = GDPA_SPEC_INIT;
    gdpa_kernel *kernel = NULL;
    const bool good = gdpa_spec_parse(text, &spec) == GDPA_OK && gdpa_kernel_get(ctx, &spec, &kernel) == GDPA_OK;
    gdpa_kernel_release(kernel);
    return good;
}

/* Runs `check` in a child, which must come back with 0 in time: a deadlock is a failure and no hang. */
static void in_child(int (*check)(void *user), void *user)
{
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(CHILD_LIMIT_S);
        _exit(check(user));
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) {
        fail_msg("the child was killed by signal %d", WTERMSIG(status));
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int child_of_cuda(void *user)
{
    gdpa_kernel *kernel = user;
    gdpa_ctx *ctx = kernel->ctx;
    const gdpa_args args = runtime_args();
    const gdpa_spec spec = runtime_spec(RELU);
    const long launches = fake_driver_control->calls("cuLaunchKernelEx");
    if (gdpa_launch(kernel, &args, NULL, 0, fake_driver_control->stream(0)) != GDPA_E_NO_DRIVER ||
        strstr(gdpa_last_error(), "was forked from process") == NULL) {
        fprintf(stderr, "%s\n", gdpa_last_error());
        return 1;
    }
    if (gdpa_forward(ctx, &spec, &args, fake_driver_control->stream(0)) == GDPA_OK ||
        fake_driver_control->calls("cuLaunchKernelEx") != launches) {
        return 2;
    }
    if (!gets(ctx, SILU)) { /* what needs no CUDA still works */
        return 3;
    }
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx); /* and unloads nothing */
    return fake_driver_control->calls("cuLibraryUnload") == 0 ? 0 : 4;
}

static void a_child_uses_no_handle_of_the_parents_cuda(void **state)
{
    (void)state;
    gdpa_ctx *ctx = context_on_hopper(NULL);
    const gdpa_spec spec = runtime_spec(RELU);
    const gdpa_args args = runtime_args();
    gdpa_kernel *kernel = NULL;
    expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
    expect_ok(gdpa_launch(kernel, &args, NULL, 0, fake_driver_control->stream(0)));
    in_child(child_of_cuda, kernel);
    expect_ok(gdpa_launch(kernel, &args, NULL, 0, fake_driver_control->stream(0))); /* the parent does not notice */
    assert_int_equal(fake_driver_control->calls("cuLibraryLoadData"), 1);
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx);
}

static int child_starts_cuda(void *user)
{
    gdpa_ctx *ctx = user;
    const gdpa_spec spec = runtime_spec(RELU);
    const gdpa_args args = runtime_args();
    return gdpa_forward(ctx, &spec, &args, fake_driver_control->stream(0)) == GDPA_OK && gets(ctx, SILU) ? 0 : 1;
}

static void a_child_starts_cuda_when_the_parent_had_not(void **state)
{
    (void)state;
    char *folder = scratch_make();
    gdpa_ctx *ctx = context_on_hopper(folder);
    assert_true(gets(ctx, RELU));
    in_child(child_starts_cuda, ctx);
    const gdpa_spec spec = runtime_spec(RELU);
    const gdpa_args args = runtime_args();
    expect_ok(gdpa_forward(ctx, &spec, &args, fake_driver_control->stream(0)));
    gdpa_ctx_destroy(ctx);
    scratch_remove(folder);
}

struct busy {
    gdpa_ctx *ctx;
    atomic_bool stop;
    atomic_int made;
};

/* One kernel after the other, so that a fork finds the library at work. */
static void *busy_run(void *user)
{
    struct busy *busy = user;
    for (int i = 0; i < 4000 && !atomic_load(&busy->stop); i++) {
        char text[160];
        snprintf(text, sizeof text, "fwd head_dim=64 activation=gelu window_left=%d arch=sm_90a", i);
        gets(busy->ctx, text);
        atomic_fetch_add(&busy->made, 1);
    }
    return NULL;
}

static int child_of_busy(void *user)
{
    struct busy *busy = user;
    fake_nvrtc_control->delay(0);
    return gets(busy->ctx, RELU) && gets(busy->ctx, "fwd head_dim=64 activation=gelu window_left=0 arch=sm_90a") &&
                   gets(busy->ctx, "fwd head_dim=64 activation=gelu window_left=3999 arch=sm_90a")
               ? 0
               : 1;
}

static void a_fork_while_another_thread_compiles_does_not_deadlock(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    skip(); /* the sanitizer's own allocator stays locked in such a child */
#endif
    struct busy busy = {.ctx = context_on_hopper(NULL)};
    pthread_t threads[2];
    atomic_init(&busy.stop, false);
    atomic_init(&busy.made, 0);
    fake_nvrtc_control->delay(1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, busy_run, &busy), 0);
    }
    while (atomic_load(&busy.made) == 0) {
        sched_yield();
    }
    for (int i = 0; i < 30; i++) {
        in_child(child_of_busy, &busy);
    }
    atomic_store(&busy.stop, true);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_true(gets(busy.ctx, RELU));
    gdpa_ctx_destroy(busy.ctx);
}

static int child_counts(void *user)
{
    gdpa_stats stats = {.size = sizeof stats};
    if (!gets(user, RELU) || gdpa_ctx_stats(user, &stats) != GDPA_OK) {
        return 1;
    }
    return stats.compiles == 1 && stats.memory_hits == 2 ? 0 : 2;
}

static void counts_go_on_in_a_child(void **state)
{
    (void)state;
    gdpa_ctx *ctx = context_on_hopper(NULL);
    assert_true(gets(ctx, RELU) && gets(ctx, RELU));
    in_child(child_counts, ctx);
    gdpa_ctx_destroy(ctx);
}

#define TEST(name) cmocka_unit_test_setup(name, fakes_reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_child_uses_no_handle_of_the_parents_cuda),
        TEST(a_child_starts_cuda_when_the_parent_had_not),
        TEST(a_fork_while_another_thread_compiles_does_not_deadlock),
        TEST(counts_go_on_in_a_child),
    };
    return cmocka_run_group_tests(tests, fakes_load, NULL);
}
