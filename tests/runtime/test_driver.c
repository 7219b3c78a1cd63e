/*
 * Finding and starting the driver, its devices, and what is said about its errors.
 */
#include "runtime/driver.h"
#include "tests/support/runtime_fixture.h"

#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct driver *started(const int *capabilities, int count)
{
    struct driver *driver = NULL;
    struct sbuf why;
    sbuf_init(&why, 4096);
    fake_driver_control->devices(count, capabilities);
    if (driver_open(FAKE_DRIVER_PATH, &driver, &why) != GDPA_OK || driver_start(driver, &why) != GDPA_OK) {
        fail_msg("%s", why.text);
    }
    sbuf_deinit(&why);
    return driver;
}

static void a_missing_driver_is_said_where_it_was_looked_for(void **state)
{
    (void)state;
    struct driver *driver = NULL;
    struct sbuf why;
    sbuf_init(&why, 4096);
    assert_int_equal(driver_open("/nonexistent/libcuda.so", &driver, &why), GDPA_E_NO_DRIVER);
    expect_text(why.text, "no CUDA driver: /nonexistent/libcuda.so: cannot open");
    assert_int_equal(driver_open(FAKE_NVRTC_PATH, &driver, &why), GDPA_E_NO_DRIVER);
    expect_text(why.text, "has no function cuInit; a driver of CUDA 12.0 or later is needed");
    assert_null(driver);
    sbuf_deinit(&why);
}

static void opening_touches_no_device(void **state)
{
    (void)state;
    struct driver *driver = NULL;
    expect_ok(driver_open(FAKE_DRIVER_PATH, &driver, NULL));
    assert_int_equal(driver->version, 13000);
    assert_int_equal(fake_driver_control->calls("cuInit"), 0);
    assert_int_equal(fake_driver_control->calls(NULL), fake_driver_control->calls("cuDriverGetVersion"));
    driver_free(driver);
}

static void every_failure_of_the_start_is_no_driver(void **state)
{
    (void)state;
    static const struct {
        const char *function;
        int result;
        const char *text;
    } cases[] = {{"cuInit", 100, "does not start: CUDA_ERROR_NO_DEVICE (100): a fault of the fake driver"},
                 {"cuInit", 999, "an error that the driver has no name for (999)"},
                 {"cuDeviceGetCount", 1, "finds no GPU: CUDA_ERROR_INVALID_VALUE (1)"},
                 {"cuDeviceGet", 1, "asking for device 0: CUDA_ERROR_INVALID_VALUE (1)"},
                 {"cuDeviceGetAttribute", 1, "asking for device 0"},
                 {"cuDeviceGetName", 1, "asking for device 0"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct driver *driver = NULL;
        struct sbuf why;
        sbuf_init(&why, 4096);
        fake_driver_control->reset();
        fake_driver_control->fault(cases[i].function, cases[i].result, 0);
        expect_ok(driver_open(FAKE_DRIVER_PATH, &driver, &why));
        assert_int_equal(driver_start(driver, &why), GDPA_E_NO_DRIVER);
        expect_text(why.text, cases[i].text);
        driver_free(driver);
        sbuf_deinit(&why);
    }
}

static void no_device_at_all_is_said(void **state)
{
    (void)state;
    struct driver *driver = NULL;
    struct sbuf why;
    sbuf_init(&why, 4096);
    expect_ok(driver_open(FAKE_DRIVER_PATH, &driver, &why));
    fake_driver_control->devices(0, NULL);
    assert_int_equal(driver_start(driver, &why), GDPA_E_NO_DRIVER);
    expect_text(why.text, "libfake_driver.so finds no GPU");
    driver_free(driver);
    sbuf_deinit(&why);
}

static void each_device_gets_the_architecture_that_fits_it_best(void **state)
{
    (void)state;
    static const struct {
        int capability, arch;
    } cases[] = {{80, 80},   {86, 86},   {87, 87}, {88, 87}, {89, 89}, {90, 90}, {100, 100}, {103, 103},
                 {120, 120}, {121, 121}, {75, 0},  {70, 0},  {91, 0},  {110, 0}, {130, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct driver *driver = started(&cases[i].capability, 1);
        assert_int_equal(driver->devices[0].arch, cases[i].arch);
        int arch = -1;
        struct sbuf why;
        sbuf_init(&why, 4096);
        if (cases[i].arch != 0) {
            expect_ok(driver_arch(driver, NULL, &arch, &why));
            assert_int_equal(arch, cases[i].arch);
        } else {
            assert_int_equal(driver_arch(driver, NULL, &arch, &why), GDPA_E_UNSUPPORTED);
            expect_text(why.text, "no kernels for Fake GPU");
        }
        sbuf_deinit(&why);
        driver_free(driver);
    }
}

static void code_with_a_suffix_runs_on_its_chip_only(void **state)
{
    (void)state;
    static const struct {
        int capability, arch;
        bool runs;
    } cases[] = {{80, 80, true}, {86, 80, true},   {80, 86, false},   {89, 86, true},   {90, 80, false},
                 {90, 90, true}, {100, 90, false}, {103, 100, false}, {100, 100, true}, {121, 120, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct device device = {.capability = cases[i].capability};
        assert_int_equal(device_runs(&device, arch_find(cases[i].arch)), cases[i].runs);
    }
}

static void with_different_devices_the_one_in_use_decides(void **state)
{
    (void)state;
    static const int capabilities[] = {80, 90};
    struct driver *driver = started(capabilities, 2);
    int arch = 0;
    assert_int_equal(driver->common_arch, 0);
    expect_ok(driver_arch(driver, NULL, &arch, NULL)); /* no context: device 0 */
    assert_int_equal(arch, 80);
    fake_driver_control->current(1);
    expect_ok(driver_arch(driver, NULL, &arch, NULL));
    assert_int_equal(arch, 90);
    expect_ok(driver_arch(driver, fake_driver_control->stream(0), &arch, NULL)); /* the stream before the context */
    assert_int_equal(arch, 80);
    expect_ok(driver_arch(driver, NULL, &arch, NULL)); /* and the context is as it was */
    assert_int_equal(arch, 90);
    driver_free(driver);
}

static void equal_devices_need_no_question(void **state)
{
    (void)state;
    static const int capabilities[] = {90, 90, 90, 90};
    struct driver *driver = started(capabilities, 4);
    const long calls = fake_driver_control->calls(NULL);
    int arch = 0;
    expect_ok(driver_arch(driver, fake_driver_control->stream(3), &arch, NULL));
    assert_int_equal(arch, 90);
    assert_int_equal(fake_driver_control->calls(NULL), calls);
    struct sbuf text;
    sbuf_init(&text, 4096);
    driver_list_devices(driver, &text);
    expect_text(text.text, "0: Fake GPU 90 (9.0), 1: Fake GPU 90 (9.0)");
    sbuf_deinit(&text);
    driver_free(driver);
}

static void a_forked_process_is_told_why_cuda_does_not_work(void **state)
{
    (void)state;
    static const int capability = 90;
    struct driver *driver = started(&capability, 1);
    const pid_t child = fork();
    if (child == 0) {
        struct sbuf why;
        sbuf_init(&why, 4096);
        driver_fail(driver, CUDA_NOT_INITIALIZED, &why, "loading x");
        _exit(strstr(why.text, "was forked from process") != NULL ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    driver_free(driver);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_missing_driver_is_said_where_it_was_looked_for, fakes_reset),
        cmocka_unit_test_setup(opening_touches_no_device, fakes_reset),
        cmocka_unit_test_setup(every_failure_of_the_start_is_no_driver, fakes_reset),
        cmocka_unit_test_setup(no_device_at_all_is_said, fakes_reset),
        cmocka_unit_test_setup(each_device_gets_the_architecture_that_fits_it_best, fakes_reset),
        cmocka_unit_test_setup(code_with_a_suffix_runs_on_its_chip_only, fakes_reset),
        cmocka_unit_test_setup(with_different_devices_the_one_in_use_decides, fakes_reset),
        cmocka_unit_test_setup(equal_devices_need_no_question, fakes_reset),
        cmocka_unit_test_setup(a_forked_process_is_told_why_cuda_does_not_work, fakes_reset),
    };
    return cmocka_run_group_tests(tests, fakes_load, NULL);
}
