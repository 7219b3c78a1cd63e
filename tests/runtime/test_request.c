/*
 * Requests: kernels made by workers, waited for with a limit, shared, forgotten; the limit of compiles at a time.
 */
#include "runtime/kernel.h"
#include "tests/support/runtime_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define RELU "fwd head_dim=64 activation=relu arch=sm_90a"

enum { CROWD = 64, SLOW_MS = 300 };

static gdpa_ctx *context_with_jobs(int jobs)
{
    gdpa_ctx_options options = runtime_options(NULL);
    options.jobs = jobs;
    return runtime_context(&options);
}

static gdpa_spec spec_number(int number)
{
    gdpa_spec spec = runtime_spec(RELU);
    spec.flags = GDPA_SPEC_WINDOW_LEFT;
    spec.window_left = number;
    return spec;
}

static gdpa_request *ask(gdpa_ctx *ctx, const gdpa_spec *spec)
{
    gdpa_request *request = NULL;
    expect_ok(gdpa_kernel_get_async(ctx, spec, &request));
    assert_non_null(request);
    return request;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void a_request_is_polled_and_waited_for(void **state)
{
    (void)state;
    gdpa_ctx *ctx = context_with_jobs(2);
    const gdpa_spec spec = runtime_spec(RELU);
    gdpa_kernel *kernel = NULL, *again = NULL;
    fake_nvrtc_control->delay(SLOW_MS);
    const int64_t start = now_ms();
    gdpa_request *request = ask(ctx, &spec);
    expect_failure(gdpa_request_wait(request, 0, &kernel), GDPA_E_TIMEOUT, "not ready after 0 ms");
    expect_failure(gdpa_request_wait(request, 20, &kernel), GDPA_E_TIMEOUT, "may be waited for again");
    assert_true(now_ms() - start < SLOW_MS);
    assert_null(kernel);
    expect_ok(gdpa_request_wait(request, -1, &kernel));
    expect_ok(gdpa_request_wait(request, 0, &again));
    assert_ptr_equal(kernel, again);
    gdpa_request_release(request);
    request = ask(ctx, &spec); /* there already */
    gdpa_kernel *third = NULL;
    expect_ok(gdpa_request_wait(request, 0, &third));
    assert_ptr_equal(third, kernel);
    gdpa_request_release(request);
    gdpa_request_release(NULL);
    gdpa_kernel_release(third);
    gdpa_kernel_release(again);
    gdpa_ctx_destroy(ctx);
    gdpa_kernel_release(kernel);
    assert_int_equal(fake_nvrtc_control->calls("nvrtcCompileProgram"), 1);
}

static void one_who_leaves_disturbs_nobody(void **state)
{
    (void)state;
    gdpa_ctx *ctx = context_with_jobs(2);
    const gdpa_spec spec = runtime_spec(RELU);
    gdpa_kernel *kernel = NULL;
    fake_nvrtc_control->delay(SLOW_MS);
    gdpa_request *first = ask(ctx, &spec), *second = ask(ctx, &spec);
    expect_failure(gdpa_request_wait(first, 10, &kernel), GDPA_E_TIMEOUT, "");
    gdpa_request_release(first);
    expect_ok(gdpa_request_wait(second, -1, &kernel));
    gdpa_request_release(second);
    gdpa_kernel_release(kernel);
    assert_int_equal(fake_nvrtc_control->calls("nvrtcCompileProgram"), 1);
    gdpa_ctx_destroy(ctx);
}

static void a_failure_reaches_all_who_wait_with_the_same_text(void **state)
{
    (void)state;
    gdpa_ctx *ctx = context_with_jobs(4);
    const gdpa_spec spec = runtime_spec(RELU);
    gdpa_request *requests[8];
    char text[4096] = "";
    fake_nvrtc_control->delay(50);
    fake_nvrtc_control->fault("nvrtcCompileProgram", 6);
    for (int i = 0; i < 8; i++) {
        requests[i] = ask(ctx, &spec);
    }
    for (int i = 0; i < 8; i++) {
        gdpa_kernel *kernel = NULL;
        expect_failure(gdpa_request_wait(requests[i], -1, &kernel), GDPA_E_COMPILE, "could not compile");
        if (i == 0) {
            snprintf(text, sizeof text, "%s", gdpa_last_error());
        }
        assert_string_equal(gdpa_last_error(), text);
        gdpa_request_release(requests[i]);
    }
    gdpa_ctx_destroy(ctx);
}

static void a_bad_spec_is_refused_at_once(void **state)
{
    (void)state;
    gdpa_ctx *ctx = context_with_jobs(1);
    gdpa_spec spec = runtime_spec(RELU);
    gdpa_request *request = NULL;
    expect_failure(gdpa_kernel_get_async(NULL, &spec, &request), GDPA_E_ARGUMENT, "ctx is NULL");
    expect_failure(gdpa_kernel_get_async(ctx, NULL, &request), GDPA_E_ARGUMENT, "spec is NULL");
    expect_failure(gdpa_kernel_get_async(ctx, &spec, NULL), GDPA_E_ARGUMENT, "request is NULL");
    expect_failure(gdpa_prefetch(ctx, NULL), GDPA_E_ARGUMENT, "spec is NULL");
    expect_failure(gdpa_request_wait(NULL, 0, NULL), GDPA_E_ARGUMENT, "request is NULL");
    spec.head_dim = 7;
    expect_failure(gdpa_kernel_get_async(ctx, &spec, &request), GDPA_E_ARGUMENT, "head_dim");
    expect_failure(gdpa_prefetch(ctx, &spec), GDPA_E_ARGUMENT, "head_dim");
    assert_null(request);
    gdpa_ctx_destroy(ctx);
}

static void what_was_fetched_before_is_there_or_waited_for(void **state)
{
    (void)state;
    gdpa_ctx *ctx = context_with_jobs(2);
    gdpa_kernel *kernel = NULL;
    fake_nvrtc_control->delay(20);
    for (int i = 0; i < 6; i++) {
        const gdpa_spec spec = spec_number(i);
        expect_ok(gdpa_prefetch(ctx, &spec));
        expect_ok(gdpa_prefetch(ctx, &spec));
    }
    for (int i = 5; i >= 0; i--) {
        const gdpa_spec spec = spec_number(i);
        expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
        expect_ok(gdpa_prefetch(ctx, &spec));
        gdpa_kernel_release(kernel);
    }
    gdpa_ctx_destroy(ctx);
    assert_int_equal(fake_nvrtc_control->calls("nvrtcCompileProgram"), 6);
    assert_int_equal(fake_nvrtc_control->programs(), 0);
}

static void destroying_a_context_waits_for_work_and_fails_what_was_not_begun(void **state)
{
    (void)state;
    gdpa_ctx *ctx = context_with_jobs(1);
    gdpa_request *requests[4];
    gdpa_kernel *kernel = NULL;
    fake_nvrtc_control->delay(100);
    for (int i = 0; i < 4; i++) {
        const gdpa_spec spec = spec_number(i);
        requests[i] = ask(ctx, &spec);
    }
    expect_ok(gdpa_request_wait(requests[0], -1, &kernel));
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx);
    assert_int_equal(fake_nvrtc_control->programs(), 0);
    expect_failure(gdpa_request_wait(requests[3], 0, &kernel), GDPA_E_NOT_READY, "was not begun when its context");
    for (int i = 0; i < 4; i++) {
        gdpa_request_release(requests[i]);
    }
}

/* ---------------------------------------------------------------------------------------------------------------
 * Crowds
 * ------------------------------------------------------------------------------------------------------------- */

struct crowd {
    gdpa_ctx *ctx;
    pthread_barrier_t start;
    bool different;
    gdpa_kernel *kernels[CROWD];
};

struct member {
    struct crowd *crowd;
    int number;
    pthread_t thread;
};

static void *member_run(void *user)
{
    struct member *member = user;
    struct crowd *crowd = member->crowd;
    const gdpa_spec spec = spec_number(crowd->different ? member->number : 0);
    pthread_barrier_wait(&crowd->start);
    return gdpa_kernel_get(crowd->ctx, &spec, &crowd->kernels[member->number]) == GDPA_OK ? NULL : user;
}

static void crowd_run(struct crowd *crowd)
{
    static struct member members[CROWD];
    pthread_barrier_init(&crowd->start, NULL, CROWD);
    for (int i = 0; i < CROWD; i++) {
        members[i] = (struct member){.crowd = crowd, .number = i};
        assert_int_equal(pthread_create(&members[i].thread, NULL, member_run, &members[i]), 0);
    }
    for (int i = 0; i < CROWD; i++) {
        void *problem = NULL;
        pthread_join(members[i].thread, &problem);
        assert_null(problem);
    }
    pthread_barrier_destroy(&crowd->start);
}

static void a_crowd_at_one_kernel_compiles_it_once(void **state)
{
    (void)state;
    struct crowd crowd = {.ctx = context_with_jobs(4)};
    fake_nvrtc_control->delay(50);
    crowd_run(&crowd);
    assert_int_equal(fake_nvrtc_control->calls("nvrtcCompileProgram"), 1);
    for (int i = 0; i < CROWD; i++) {
        assert_ptr_equal(crowd.kernels[i], crowd.kernels[0]);
        gdpa_kernel_release(crowd.kernels[i]);
    }
    gdpa_ctx_destroy(crowd.ctx);
}

static void a_crowd_at_many_kernels_compiles_side_by_side_up_to_the_limit(void **state)
{
    (void)state;
    struct crowd crowd = {.ctx = context_with_jobs(8), .different = true};
    fake_nvrtc_control->delay(25);
    const int64_t start = now_ms();
    crowd_run(&crowd);
    const int64_t took = now_ms() - start;
    assert_int_equal(fake_nvrtc_control->calls("nvrtcCompileProgram"), CROWD);
    assert_int_equal(fake_nvrtc_control->most_at_a_time(), 8);
    assert_true(took >= CROWD / 8 * 25);
    assert_true(took < CROWD * 25);
    for (int i = 0; i < CROWD; i++) {
        gdpa_kernel_release(crowd.kernels[i]);
    }
    gdpa_ctx_destroy(crowd.ctx);
}

static void the_end_of_a_process_waits_for_a_worker(void **state)
{
    (void)state;
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        gdpa_ctx *ctx = context_with_jobs(1);
        const gdpa_spec spec = runtime_spec(RELU), other = spec_number(3);
        gdpa_kernel *kernel = NULL;
        expect_ok(gdpa_kernel_get(ctx, &other, &kernel));
        fake_nvrtc_control->delay(100);
        expect_ok(gdpa_prefetch(ctx, &spec));
        alarm(60);
        exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

#define TEST(name) cmocka_unit_test_setup(name, fakes_reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_request_is_polled_and_waited_for),
        TEST(one_who_leaves_disturbs_nobody),
        TEST(a_failure_reaches_all_who_wait_with_the_same_text),
        TEST(a_bad_spec_is_refused_at_once),
        TEST(what_was_fetched_before_is_there_or_waited_for),
        TEST(destroying_a_context_waits_for_work_and_fails_what_was_not_begun),
        TEST(a_crowd_at_one_kernel_compiles_it_once),
        TEST(a_crowd_at_many_kernels_compiles_side_by_side_up_to_the_limit),
        TEST(the_end_of_a_process_waits_for_a_worker),
    };
    return cmocka_run_group_tests(tests, fakes_load, NULL);
}
