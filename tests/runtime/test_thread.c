/*
 * What each thread keeps for itself: no system call on the way of a hit and a launch; exact counts; nothing that is kept
 * of one context or kernel is ever taken for another.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* syscall */
#endif
#include "runtime/kernel.h"
#include "runtime/thread.h"
#include "tests/support/runtime_fixture.h"

#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

enum { ROUNDS = 1000, LAUNCHERS = 8 };

static gdpa_ctx *context_on_hopper(void)
{
    static const int capability = 90;
    const gdpa_ctx_options options = runtime_options(NULL);
    fake_driver_control->devices(1, &capability);
    fake_driver_control->current(0);
    return runtime_context(&options);
}

static bool work_once(gdpa_ctx *ctx, const gdpa_spec *spec, const gdpa_args *args)
{
    gdpa_kernel *kernel = NULL;
    if (gdpa_kernel_get(ctx, spec, &kernel) != GDPA_OK) {
        return false;
    }
    const bool good =
        gdpa_launch(kernel, args, NULL, 0, NULL) == GDPA_OK && gdpa_forward(ctx, spec, args, NULL) == GDPA_OK;
    gdpa_kernel_release(kernel);
    return good;
}

/* Makes the kernels; after that any system call but read, write and exit kills the process. */
static void strict_child(void)
{
    gdpa_ctx *ctx = context_on_hopper();
    const gdpa_args args = runtime_args();
    const gdpa_spec specs[] = {runtime_spec("fwd head_dim=64 activation=relu arch=sm_90a family=portable"),
                               runtime_spec("fwd head_dim=64 activation=relu"),
                               runtime_spec("fwd head_dim=128 activation=silu arch=sm_90a family=sm90")};
    const int count = (int)(sizeof specs / sizeof specs[0]);
    bool good = true;
    for (int i = 0; i < 2 * count; i++) {
        good = good && work_once(ctx, &specs[i % count], &args);
    }
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) {
        _exit(77);
    }
    for (int i = 0; good && i < ROUNDS; i++) {
        good = work_once(ctx, &specs[i % count], &args);
    }
    syscall(SYS_exit, good ? 0 : 1);
}

static void hits_and_launches_make_no_system_call(void **state)
{
    (void)state;
    if (SANITIZED) {
        skip();
    }
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        strict_child();
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        skip(); /* no seccomp here */
    }
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

struct launcher {
    gdpa_ctx *ctxs[6];
    gdpa_spec spec;
};

static void *launcher_run(void *user)
{
    const struct launcher *launcher = user;
    const gdpa_args args = runtime_args();
    fake_driver_control->current(0);
    for (int i = 0; i < ROUNDS; i++) {
        if (gdpa_forward(launcher->ctxs[i % 6], &launcher->spec, &args, NULL) != GDPA_OK) {
            return user;
        }
    }
    return NULL;
}

static void counts_are_exact_over_threads_and_contexts(void **state)
{
    (void)state;
    struct launcher launcher = {.spec = runtime_spec("fwd head_dim=64 activation=relu arch=sm_90a")};
    pthread_t threads[LAUNCHERS];
    for (int i = 0; i < 6; i++) { /* more than a thread has places for */
        launcher.ctxs[i] = context_on_hopper();
    }
    for (int i = 0; i < LAUNCHERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, launcher_run, &launcher), 0);
    }
    gdpa_stats stats = {.size = sizeof stats};
    expect_ok(gdpa_ctx_stats(launcher.ctxs[0], &stats)); /* while they count */
    for (int i = 0; i < LAUNCHERS; i++) {
        void *problem = NULL;
        pthread_join(threads[i], &problem);
        assert_null(problem);
    }
    uint64_t launches = 0, hits = 0;
    for (int i = 0; i < 6; i++) {
        expect_ok(gdpa_ctx_stats(launcher.ctxs[i], &stats));
        launches += stats.launches;
        hits += stats.memory_hits + stats.waits + stats.compiles;
        assert_int_equal(stats.compiles, 1);
        gdpa_ctx_destroy(launcher.ctxs[i]);
    }
    assert_int_equal(launches, LAUNCHERS * ROUNDS);
    assert_int_equal(hits, LAUNCHERS * ROUNDS);
}

static void a_context_that_is_gone_is_not_mistaken_for_a_new_one(void **state)
{
    (void)state;
    const gdpa_spec spec = runtime_spec("fwd head_dim=64 activation=relu arch=sm_90a");
    for (int i = 0; i < 50; i++) {
        gdpa_ctx *ctx = context_on_hopper(); /* often at the address of the last */
        gdpa_kernel *kernel = NULL;
        expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
        assert_ptr_equal(kernel->ctx, ctx);
        gdpa_kernel_release(kernel);
        expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
        assert_ptr_equal(kernel->ctx, ctx);
        gdpa_stats stats = {.size = sizeof stats};
        expect_ok(gdpa_ctx_stats(ctx, &stats));
        assert_int_equal(stats.compiles, 1);
        assert_int_equal(stats.memory_hits, 1);
        gdpa_kernel_release(kernel);
        gdpa_ctx_destroy(ctx);
    }
}

static void specs_that_differ_in_one_field_get_different_kernels(void **state)
{
    (void)state;
    gdpa_ctx *ctx = context_on_hopper();
    gdpa_kernel *seen[120] = {NULL};
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 120; i++) {
            gdpa_spec spec = runtime_spec("fwd head_dim=64 activation=relu arch=sm_90a");
            spec.flags = GDPA_SPEC_WINDOW_LEFT;
            spec.window_left = i;
            gdpa_kernel *kernel = NULL;
            expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
            assert_int_equal(kernel->spec.window_left, i);
            assert_true(round == 0 || seen[i] == kernel);
            seen[i] = kernel;
            gdpa_kernel_release(kernel);
        }
    }
    gdpa_ctx_destroy(ctx);
}

static void a_spec_without_an_arch_is_looked_up_for_each_device(void **state)
{
    (void)state;
    static const int capabilities[] = {80, 90};
    const gdpa_ctx_options options = runtime_options(NULL);
    fake_driver_control->devices(2, capabilities);
    gdpa_ctx *ctx = runtime_context(&options);
    const gdpa_spec spec = runtime_spec("fwd head_dim=64 activation=relu");
    for (int i = 0; i < 8; i++) {
        gdpa_kernel *kernel = NULL;
        fake_driver_control->current(i % 2);
        expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
        assert_int_equal(kernel->spec.arch, capabilities[i % 2]);
        gdpa_kernel_release(kernel);
    }
    gdpa_ctx_destroy(ctx);
}

#define TEST(name) cmocka_unit_test_setup(name, fakes_reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(hits_and_launches_make_no_system_call),
        TEST(counts_are_exact_over_threads_and_contexts),
        TEST(a_context_that_is_gone_is_not_mistaken_for_a_new_one),
        TEST(specs_that_differ_in_one_field_get_different_kernels),
        TEST(a_spec_without_an_arch_is_looked_up_for_each_device),
    };
    return cmocka_run_group_tests(tests, fakes_load, NULL);
}
