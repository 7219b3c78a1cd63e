/*
 * Finding NVRTC, its identity, and what becomes of its failures. With the fake library; test_nvrtc_real.c uses a real one.
 */
#include "runtime/nvrtc.h"
#include "tests/support/runtime_fixture.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct nvrtc *open_fake(void)
{
    const struct nvrtc_search search = {.path = FAKE_NVRTC_PATH, .path_origin = "GDPAJIT_NVRTC"};
    struct nvrtc *nvrtc = NULL;
    struct sbuf report;
    sbuf_init(&report, 65536);
    if (nvrtc_open(&search, &nvrtc, &report) != GDPA_OK) {
        fail_msg("%s", report.text);
    }
    sbuf_deinit(&report);
    return nvrtc;
}

static void expect_not_found(const struct nvrtc_search *search, const char *text)
{
    struct nvrtc *nvrtc = NULL;
    struct sbuf report;
    sbuf_init(&report, 65536);
    assert_int_equal(nvrtc_open(search, &nvrtc, &report), GDPA_E_NO_COMPILER);
    assert_null(nvrtc);
    expect_text(report.text, text);
    sbuf_deinit(&report);
}

static void a_named_file_is_used_and_identified(void **state)
{
    (void)state;
    fake_nvrtc_control->version(12, 4);
    struct nvrtc *nvrtc = open_fake();
    assert_string_equal(nvrtc->version, "12.4");
    assert_int_equal(nvrtc->arch_count, 12);
    assert_int_equal(strlen(nvrtc->path) > 10, 1);
    expect_text(nvrtc->path, "libfake_nvrtc.so");
    assert_int_equal(strspn(nvrtc->build, "0123456789abcdef"), 32);
    expect_text(nvrtc->build, " builtins unknown");
    nvrtc_free(nvrtc);
}

static void a_named_file_that_is_not_there_ends_the_search(void **state)
{
    (void)state;
    const struct nvrtc_search search = {
        .path = "/nonexistent/libnvrtc.so", .path_origin = "GDPAJIT_NVRTC", .cuda_home = "/nowhere"};
    expect_not_found(&search, "  /nonexistent/libnvrtc.so: cannot open shared object file");
    expect_not_found(&search, "nothing else was tried, because GDPAJIT_NVRTC names this one");
}

static void a_file_that_is_no_nvrtc_is_rejected_with_the_function_it_lacks(void **state)
{
    (void)state;
    const struct nvrtc_search search = {.path = FAKE_DRIVER_PATH, .path_origin = "x"};
    expect_not_found(&search, "has no function nvrtcVersion");
}

static void versions_before_12_are_rejected(void **state)
{
    (void)state;
    const struct nvrtc_search search = {.path = FAKE_NVRTC_PATH, .path_origin = "x"};
    fake_nvrtc_control->version(11, 8);
    expect_not_found(&search, "version 11.8, but 12 or later is needed");
}

static void a_library_that_does_not_answer_is_rejected(void **state)
{
    (void)state;
    const struct nvrtc_search search = {.path = FAKE_NVRTC_PATH, .path_origin = "x"};
    static const char *const functions[] = {"nvrtcVersion", "nvrtcGetNumSupportedArchs", "nvrtcGetSupportedArchs"};
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        fake_nvrtc_control->reset();
        fake_nvrtc_control->fault(functions[i], 5);
        expect_not_found(&search, "libfake_nvrtc.so: ");
    }
}

static void a_folder_is_searched_for_the_sonames(void **state)
{
    (void)state;
    char *folder = scratch_make();
    char file[4200];
    const struct nvrtc_search search = {.path = folder, .path_origin = "x"};
    expect_not_found(&search, "no libnvrtc.so.13 or libnvrtc.so.12 there");
    snprintf(file, sizeof file, "%s/libnvrtc.so.12", folder);
    assert_int_equal(symlink(FAKE_NVRTC_PATH, file), 0);
    struct nvrtc *nvrtc = NULL;
    struct sbuf report;
    sbuf_init(&report, 65536);
    expect_ok(nvrtc_open(&search, &nvrtc, &report));
    expect_text(report.text, "libnvrtc.so.12: version 13.0, taken");
    nvrtc_free(nvrtc);
    sbuf_deinit(&report);
    scratch_remove(folder);
}

static void a_toolkit_folder_and_a_package_folder_are_searched(void **state)
{
    (void)state;
    static const char *const layouts[] = {"/lib64", "/lib"};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        char *folder = scratch_make();
        char below[4200], file[4300];
        struct nvrtc *nvrtc = NULL;
        struct sbuf report;
        sbuf_init(&report, 65536);
        snprintf(below, sizeof below, "%s%s", folder, layouts[i]);
        snprintf(file, sizeof file, "%s/libnvrtc.so.13", below);
        assert_int_equal(mkdir(below, 0700), 0);
        assert_int_equal(symlink(FAKE_NVRTC_PATH, file), 0);
        const struct nvrtc_search search = {.cuda_home = folder, .driver_major = 9};
        /* A driver of CUDA 9 is older than every candidate: all are looked at, the first is used. */
        expect_ok(nvrtc_open(&search, &nvrtc, &report));
        expect_text(report.text, file);
        nvrtc_free(nvrtc);
        sbuf_deinit(&report);
        scratch_remove(folder);
    }
}

static void a_library_newer_than_the_driver_is_the_last_choice(void **state)
{
    (void)state;
    struct nvrtc *nvrtc = NULL;
    struct sbuf report;
    sbuf_init(&report, 65536);
    const struct nvrtc_search search = {.path = FAKE_NVRTC_PATH, .path_origin = "x", .driver_major = 12};
    expect_ok(nvrtc_open(&search, &nvrtc, &report));
    expect_text(report.text, "version 13.0 is newer than the driver (CUDA 12); used only if there is no other");
    nvrtc_free(nvrtc);
    fake_nvrtc_control->version(12, 9);
    expect_ok(nvrtc_open(&search, &nvrtc, &report));
    expect_text(report.text, "version 12.9, taken");
    nvrtc_free(nvrtc);
    sbuf_deinit(&report);
}

static void file_copy(const char *from, const char *to)
{
    static char bytes[65536];
    FILE *in = fopen(from, "rb");
    FILE *out = fopen(to, "wb");
    assert_non_null(in);
    assert_non_null(out);
    for (size_t length; (length = fread(bytes, 1, sizeof bytes, in)) > 0;) {
        assert_int_equal(fwrite(bytes, 1, length, out), length);
    }
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

/* It may have started threads, and what it allocated would be lost. */
static void a_library_that_was_asked_and_not_taken_stays_loaded(void **state)
{
    (void)state;
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
    char *folder = scratch_make();
    char file[4200];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(file, sizeof file, "%s/%s", folder, names[i]);
        file_copy(FAKE_NVRTC_PATH, file);
    }
    assert_null(dlopen(file, RTLD_NOW | RTLD_NOLOAD));
    struct nvrtc *nvrtc = NULL;
    struct sbuf report;
    sbuf_init(&report, 65536);
    const struct nvrtc_search search = {.path = folder, .path_origin = "x", .driver_major = 9};
    expect_ok(nvrtc_open(&search, &nvrtc, &report));
    expect_text(nvrtc->path, names[0]);
    expect_text(report.text, names[1]);
    assert_non_null(dlopen(file, RTLD_NOW | RTLD_NOLOAD));
    nvrtc_free(nvrtc);
    sbuf_deinit(&report);
    scratch_remove(folder);
}

static void an_architecture_that_is_not_supported_is_refused_with_the_list(void **state)
{
    (void)state;
    static const int archs[] = {80, 90};
    fake_nvrtc_control->archs(2, archs);
    struct nvrtc *nvrtc = open_fake();
    struct sbuf why;
    sbuf_init(&why, 4096);
    expect_ok(nvrtc_supports(nvrtc, 90, &why));
    assert_int_equal(nvrtc_supports(nvrtc, 103, &why), GDPA_E_NO_COMPILER);
    expect_text(why.text, "cannot make code for compute capability 10.3; it can for 8.0, 9.0");
    sbuf_deinit(&why);
    nvrtc_free(nvrtc);
}

static void every_failing_call_is_reported_with_number_name_and_log(void **state)
{
    (void)state;
    static const struct {
        const char *function;
        int result;
        gdpa_status status;
        const char *text;
    } cases[] = {
        {"nvrtcCreateProgram", 1, GDPA_E_MEMORY, "NVRTC_ERROR_OUT_OF_MEMORY (error 1)"},
        {"nvrtcCompileProgram", 6, GDPA_E_COMPILE, "identifier \"mistake\" is undefined"},
        {"nvrtcCompileProgram", 1, GDPA_E_MEMORY, "could not compile k.cu"},
        {"nvrtcCompileProgram", 7, GDPA_E_COMPILE, "libnvrtc-builtins.so.13.0 must lie in the folder of the library"},
        {"nvrtcGetCUBINSize", 4, GDPA_E_COMPILE, "NVRTC_ERROR_INVALID_PROGRAM (error 4)"},
        {"nvrtcGetCUBIN", 4, GDPA_E_COMPILE, "error 4"},
        {"nvrtcGetPTXSize", 4, GDPA_E_COMPILE, "error 4"},
        {"nvrtcGetPTX", 4, GDPA_E_COMPILE, "error 4"},
        {"nvrtcGetProgramLogSize", 4, GDPA_E_COMPILE, "error 4"},
        {"nvrtcGetProgramLog", 4, GDPA_E_COMPILE, "error 4"},
    };
    struct nvrtc *nvrtc = open_fake();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static const char *const options[] = {"-arch=sm_90a"};
        struct nvrtc_output output;
        struct sbuf why;
        sbuf_init(&why, 65536);
        fake_nvrtc_control->reset();
        fake_nvrtc_control->fault(cases[i].function, cases[i].result);
        assert_int_equal(nvrtc_compile(nvrtc, "source", "k.cu", options, 1, &output, &why), cases[i].status);
        expect_text(why.text, cases[i].text);
        assert_int_equal(fake_nvrtc_control->programs(), 0);
        nvrtc_output_deinit(&output);
        sbuf_deinit(&why);
    }
    nvrtc_free(nvrtc);
}

static void one_compile_gives_code_ptx_and_log(void **state)
{
    (void)state;
    static const char *const options[] = {"-arch=sm_90a"};
    struct nvrtc *nvrtc = open_fake();
    struct nvrtc_output output;
    expect_ok(nvrtc_compile(nvrtc, "source", "k.cu", options, 1, &output, NULL));
    assert_true(output.cubin_size > 4096);
    assert_int_equal(output.ptx_size, strlen(output.ptx));
    expect_text(output.ptx, ".target sm_90a");
    assert_int_equal(output.log_size, strlen(output.log));
    assert_int_equal(fake_nvrtc_control->calls("nvrtcCompileProgram"), 1);
    assert_int_equal(fake_nvrtc_control->programs(), 0);
    nvrtc_output_deinit(&output);
    nvrtc_free(nvrtc);
}

static void success_without_code_is_a_failure(void **state)
{
    (void)state;
    static const char *const options[] = {"-arch=compute_90"};
    struct nvrtc *nvrtc = open_fake();
    struct nvrtc_output output;
    struct sbuf why;
    sbuf_init(&why, 4096);
    fake_nvrtc_control->output(FAKE_OUTPUT_NO_CUBIN);
    assert_int_equal(nvrtc_compile(nvrtc, "source", "k.cu", options, 1, &output, &why), GDPA_E_COMPILE);
    expect_text(why.text, "without an error, but gave no code");
    nvrtc_output_deinit(&output);
    sbuf_deinit(&why);
    nvrtc_free(nvrtc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_named_file_is_used_and_identified, fakes_reset),
        cmocka_unit_test_setup(a_named_file_that_is_not_there_ends_the_search, fakes_reset),
        cmocka_unit_test_setup(a_file_that_is_no_nvrtc_is_rejected_with_the_function_it_lacks, fakes_reset),
        cmocka_unit_test_setup(versions_before_12_are_rejected, fakes_reset),
        cmocka_unit_test_setup(a_library_that_does_not_answer_is_rejected, fakes_reset),
        cmocka_unit_test_setup(a_folder_is_searched_for_the_sonames, fakes_reset),
        cmocka_unit_test_setup(a_toolkit_folder_and_a_package_folder_are_searched, fakes_reset),
        cmocka_unit_test_setup(a_library_newer_than_the_driver_is_the_last_choice, fakes_reset),
        cmocka_unit_test_setup(a_library_that_was_asked_and_not_taken_stays_loaded, fakes_reset),
        cmocka_unit_test_setup(an_architecture_that_is_not_supported_is_refused_with_the_list, fakes_reset),
        cmocka_unit_test_setup(every_failing_call_is_reported_with_number_name_and_log, fakes_reset),
        cmocka_unit_test_setup(one_compile_gives_code_ptx_and_log, fakes_reset),
        cmocka_unit_test_setup(success_without_code_is_a_failure, fakes_reset),
    };
    return cmocka_run_group_tests(tests, fakes_load, NULL);
}
