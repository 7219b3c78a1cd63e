/*
 * verify survives its kernels: one that crashes, hangs or loses the device is reported and the others go on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/host_device.h"
#include "tools/progress.h"
#include "tools/shapes.h"
#include "tools/verify_worker.h"

enum {
    KERNELS = 4,
};

/* What the run told. */
struct log {
    struct kernel_result results[KERNELS];
    int done[KERNELS];
    int begun, judged, judged_wrong;
    size_t stop_after; /* kernels; 0: never */
    size_t count;
};

static void on_begun(size_t kernel, const char *shape, void *user)
{
    struct log *log = user;
    assert_true(kernel < KERNELS && shape != NULL);
    log->begun++;
}

static void on_judged(size_t kernel, const char *shape, const struct case_result *result, double seconds, void *user)
{
    struct log *log = user;
    assert_true(kernel < KERNELS && (strcmp(shape, "single") == 0 || strcmp(shape, "small") == 0) && seconds >= 0);
    log->judged++;
    log->judged_wrong += result->good ? 0 : 1;
}

static bool on_done(size_t kernel, const struct kernel_result *result, void *user)
{
    struct log *log = user;
    assert_true(kernel < KERNELS);
    log->results[kernel] = *result;
    log->done[kernel]++;
    log->count++;
    return log->count != log->stop_after;
}

static bool interrupted_at_once(void)
{
    return true;
}

static unsigned long long two_shapes(void)
{
    return 1ULL << shape_find("single") | 1ULL << shape_find("small");
}

static enum worker_end run_plan(enum host_fault fault, bool in_process, bool no_device, struct log *log, char *why)
{
    static const char *const specs[KERNELS] = {
        "fwd act=relu d=8",
        "fwd act=silu d=8 jagged",
        "fwd act=gelu d=16 causal",
        "fwd act=tanh d=8",
    };
    struct worker_kernel kernels[KERNELS];
    for (int i = 0; i < KERNELS; i++) {
        kernels[i] = (struct worker_kernel){specs[i], two_shapes()};
    }
    struct host_device host;
    host_device_init(&host, fault);
    host.fault_in = "act=silu";
    host.no_device = no_device;
    struct worker_plan plan = {
        .device = &host.device,
        .kernels = kernels,
        .count = KERNELS,
        .options = {.seed = 9, .threads = 2},
        .timeout = 2,
        .in_process = in_process,
        .begun = on_begun,
        .judged = on_judged,
        .done = on_done,
        .user = log,
    };
    return workers_run(&plan, why, 256);
}

static void right_kernels_all_pass(void **state)
{
    (void)state;
    for (int in_process = 0; in_process < 2; in_process++) {
        struct log log = {.begun = 0};
        char why[256] = "";
        assert_int_equal(run_plan(FAULT_NONE, in_process, false, &log, why), WORKER_ALL_DONE);
        assert_int_equal(log.begun, KERNELS * 3);
        assert_int_equal(log.judged, KERNELS * 2);
        assert_int_equal(log.judged_wrong, 0);
        for (int i = 0; i < KERNELS; i++) {
            assert_int_equal(log.done[i], 1);
            assert_true(log.results[i].good);
            assert_int_equal(log.results[i].cases, 2);
            assert_int_equal(log.results[i].failed, 0);
            assert_string_equal(log.results[i].gpu, "Host Memory 1");
            assert_string_equal(log.results[i].slug, "host_memory_1");
            assert_string_equal(log.results[i].driver, "1.2");
            assert_int_equal(log.results[i].facts.registers, 17);
        }
    }
}

static void a_bad_kernel_is_reported_and_the_others_go_on(void **state)
{
    (void)state;
    static const struct {
        enum host_fault fault;
        int cases, failed;
        bool told; /* the process lived to tell of the case */
        const char *message;
    } cases[] = {
        {FAULT_NAN, 2, 2, true, "single: 0 elements of the result were not written and 1 are not finite"},
        {FAULT_LAUNCH, 1, 1, true, "single: launch: the planted fault"},
        {FAULT_CRASH, 1, 1, false, "single: the process was ended by signal 9"},
        {FAULT_HANG, 1, 1, false, "single: did not end within 2 s (a hang); its process was killed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct log log = {.begun = 0};
        char why[256] = "";
        assert_int_equal(run_plan(cases[i].fault, false, false, &log, why), WORKER_ALL_DONE);
        for (int k = 0; k < KERNELS; k++) {
            assert_int_equal(log.done[k], 1);
            assert_int_equal(log.results[k].good, k != 1);
        }
        const struct kernel_result *bad = &log.results[1];
        assert_int_equal(log.judged, (KERNELS - 1) * 2 + (cases[i].told ? cases[i].cases : 0));
        assert_int_equal(log.judged_wrong, cases[i].told ? cases[i].failed : 0);
        assert_int_equal(bad->cases, cases[i].cases);
        assert_int_equal(bad->failed, cases[i].failed);
        if (strncmp(bad->message, cases[i].message, strlen(cases[i].message)) != 0) {
            fail_msg("fault %zu: '%s'", i, bad->message);
        }
        /* What was known of the kernel before it was lost is kept, for its record. */
        assert_string_equal(bad->facts.spec, "fwd act=silu d=8 jagged");
        assert_string_equal(bad->slug, "host_memory_1");
    }
}

static void a_lost_device_in_this_process_ends_the_run(void **state)
{
    (void)state;
    struct log log = {.begun = 0};
    char why[256] = "";
    assert_int_equal(run_plan(FAULT_LAUNCH, true, false, &log, why), WORKER_NO_DEVICE);
    assert_int_equal(log.count, 2);
    assert_string_equal(why, "the device was lost; 2 of 4 kernels were not run");
}

static void without_a_device_the_reason_is_told(void **state)
{
    (void)state;
    for (int in_process = 0; in_process < 2; in_process++) {
        struct log log = {.begun = 0};
        char why[256] = "";
        assert_int_equal(run_plan(FAULT_NONE, in_process, true, &log, why), WORKER_NO_DEVICE);
        assert_string_equal(why, "there is no device");
        assert_int_equal(log.count, 0);
    }
}

static void the_run_stops_when_it_is_told_to(void **state)
{
    (void)state;
    for (int in_process = 0; in_process < 2; in_process++) {
        struct log log = {.stop_after = 2};
        char why[256] = "";
        assert_int_equal(run_plan(FAULT_NONE, in_process, false, &log, why), WORKER_STOPPED);
        assert_int_equal(log.count, 2);
    }
}

static void an_interrupt_ends_even_a_kernel_that_hangs(void **state)
{
    (void)state;
    struct worker_kernel kernel = {"fwd act=silu d=8", two_shapes()};
    struct host_device host;
    struct log log = {.begun = 0};
    char why[256] = "";
    host_device_init(&host, FAULT_HANG);
    struct worker_plan plan = {
        .device = &host.device,
        .kernels = &kernel,
        .count = 1,
        .timeout = 600,
        .done = on_done,
        .interrupted = interrupted_at_once,
        .user = &log,
    };
    double start = clock_seconds();
    assert_int_equal(workers_run(&plan, why, sizeof why), WORKER_INTERRUPTED);
    assert_true(clock_seconds() - start < 30);
    assert_int_equal(log.count, 0);
}

static void a_kernel_that_cannot_be_made_is_reported(void **state)
{
    (void)state;
    struct worker_kernel kernels[] = {{"fwd act=unheard", two_shapes()}, {"fwd act=relu d=8", two_shapes()}};
    struct host_device host;
    struct log log = {.begun = 0};
    char why[256] = "";
    host_device_init(&host, FAULT_NONE);
    struct worker_plan plan = {
        .device = &host.device, .kernels = kernels, .count = 2, .timeout = 60, .done = on_done, .user = &log};
    assert_int_equal(workers_run(&plan, why, sizeof why), WORKER_ALL_DONE);
    assert_false(log.results[0].good);
    assert_int_equal(log.results[0].cases, 0);
    assert_true(log.results[0].message[0] != 0);
    /* What the record of the failure needs. */
    assert_string_equal(log.results[0].facts.spec, "fwd act=unheard");
    assert_string_equal(log.results[0].facts.source, "");
    assert_true(log.results[1].good);
}

static void the_data_of_a_kernel_depends_on_its_spec_and_the_seed_alone(void **state)
{
    (void)state;
    assert_true(worker_kernel_seed(1, "fwd a") == worker_kernel_seed(1, "fwd a"));
    assert_true(worker_kernel_seed(1, "fwd a") != worker_kernel_seed(1, "fwd b"));
    assert_true(worker_kernel_seed(1, "fwd a") != worker_kernel_seed(2, "fwd a"));
}

/* The spec of a report is the canonical one, and the matrices write theirs in another way. */
static void a_report_is_enough_to_repeat_a_case(void **state)
{
    (void)state;
    static const char *const texts[] = {"bwd act=silu d=8 fp16", "bwd d=8 fp16 act=silu",
                                        "bwd act=silu d=8 fp16 fp32out"};
    struct worker_kernel kernels[3];
    struct host_device host;
    struct log log = {.begun = 0};
    char why[256] = "";
    for (int i = 0; i < 3; i++) {
        kernels[i] = (struct worker_kernel){texts[i], two_shapes()};
    }
    host_device_init(&host, FAULT_NONE);
    struct worker_plan plan = {
        .device = &host.device, .kernels = kernels, .count = 3, .timeout = 60, .done = on_done, .user = &log};
    plan.options.seed = 7;
    assert_int_equal(workers_run(&plan, why, sizeof why), WORKER_ALL_DONE);
    assert_true(log.results[0].good);
    assert_true(log.results[0].frobenius == log.results[1].frobenius);
    assert_true(log.results[0].frobenius != log.results[2].frobenius);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_kernels_all_pass),
        cmocka_unit_test(a_bad_kernel_is_reported_and_the_others_go_on),
        cmocka_unit_test(a_lost_device_in_this_process_ends_the_run),
        cmocka_unit_test(without_a_device_the_reason_is_told),
        cmocka_unit_test(the_run_stops_when_it_is_told_to),
        cmocka_unit_test(an_interrupt_ends_even_a_kernel_that_hangs),
        cmocka_unit_test(a_kernel_that_cannot_be_made_is_reported),
        cmocka_unit_test(the_data_of_a_kernel_depends_on_its_spec_and_the_seed_alone),
        cmocka_unit_test(a_report_is_enough_to_repeat_a_case),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
