/*
 * Options for each version of NVRTC, resources from the log, and checks of what comes out.
 */
#include "runtime/compile.h"
#include "tests/support/runtime_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool has_option(const struct compile_options *options, const char *option)
{
    for (int i = 0; i < options->count; i++) {
        if (strcmp(options->list[i], option) == 0) {
            return true;
        }
    }
    return false;
}

static void options_are_those_that_the_version_understands(void **state)
{
    (void)state;
    static const struct {
        int major, minor;
        bool own_cache; /* of NVRTC, which must be turned off */
    } cases[] = {{12, 0, false}, {12, 8, false}, {12, 9, true}, {13, 0, true}, {13, 5, true}, {14, 0, true}};
    static const char *const always[] = {"-arch=sm_90a",
                                         "--std=c++17",
                                         "-default-device",
                                         "--no-source-include",
                                         "--modify-stack-limit=false",
                                         "-Xptxas=-v",
                                         "-Xptxas=--warn-on-spills",
                                         "-Xptxas=--warn-on-local-memory-usage"};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct compile_options options;
        compile_options_make(cases[i].major, cases[i].minor, "sm_90a", "00112233445566778899aabbccddeeff", &options);
        assert_true(options.count <= COMPILE_OPTIONS_MAX);
        for (size_t j = 0; j < sizeof always / sizeof always[0]; j++) {
            assert_true(has_option(&options, always[j]));
        }
        assert_int_equal(has_option(&options, "--no-cache"), cases[i].own_cache);
        assert_int_equal(has_option(&options, "--frandom-seed=00112233445566778899aabbccddeeff"), cases[i].own_cache);
    }
}

static void resources_are_read_from_the_log(void **state)
{
    (void)state;
    static const struct {
        const char *log;
        bool found;
        struct resources expected;
    } cases[] = {
        {"ptxas info    : 0 bytes gmem\n"
         "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
         "ptxas info    : Function properties for k\n"
         "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
         "ptxas info    : Used 168 registers, used 1 barriers, 132 bytes smem, 364 bytes cmem[0]\n"
         "ptxas info    : Compile time = 5.198 ms\n",
         true,
         {168, 0, 0, 132}},
        {"ptxas info    : Compiling entry function 'k' for 'sm_80'\n"
         "ptxas info    : Function properties for k\n"
         "    48 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads\n"
         "ptxas info    : Used 255 registers, 364 bytes cmem[0]\n",
         true,
         {255, 32, 48, 0}},
        /* Spills are warned about, too, with the same figures. */
        {"ptxas warning : Registers are spilled to local memory in function 'k', 12 bytes spill stores, 20 bytes "
         "spill loads\n"
         "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
         "ptxas info    : Function properties for k\n"
         "    48 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads\n"
         "ptxas info    : Used 255 registers, 24 bytes smem\n",
         true,
         {255, 32, 48, 24}},
        /* A helper that was not inlined: its spills count, its stack frame is its own. */
        {"ptxas info    : Function properties for helper\n"
         "    96 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads\n"
         "ptxas info    : Compiling entry function 'k' for 'sm_80'\n"
         "ptxas info    : Function properties for k\n"
         "    16 bytes stack frame, 1 bytes spill stores, 2 bytes spill loads\n"
         "ptxas info    : Used 40 registers\n",
         true,
         {40, 15, 16, 0}},
        /* Another kernel first, whose name starts alike. */
        {"ptxas info    : Compiling entry function 'k2' for 'sm_80'\n"
         "ptxas info    : Function properties for k2\n"
         "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
         "ptxas info    : Used 11 registers, 77 bytes smem\n"
         "ptxas info    : Compiling entry function 'k' for 'sm_80'\n"
         "ptxas info    : Function properties for k\n"
         "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
         "ptxas info    : Used 22 registers\n",
         true,
         {22, 0, 0, 0}},
        {"ptxas info    : Compiling entry function 'other' for 'sm_80'\nUsed 3 registers\n", false, {0, 0, 0, 0}},
        {"ptxas info    : Compiling entry function 'k' for 'sm_80'\n", false, {0, 0, 0, 0}},
        {"", false, {0, 0, 0, 0}},
        {NULL, false, {0, 0, 0, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct resources resources;
        assert_int_equal(resources_parse(cases[i].log, "k", &resources), cases[i].found);
        assert_memory_equal(&resources, &cases[i].expected, cases[i].found ? sizeof resources : 0);
    }
}

static const struct compile_request request = {.source = "source",
                                               .source_hash = "0123456789abcdef0123456789abcdef",
                                               .name = "gdpa_k",
                                               .target = "sm_90a",
                                               .arch = 90};

static gdpa_status compile_fake(struct compile_result *result, struct sbuf *why)
{
    const struct nvrtc_search search = {.path = FAKE_NVRTC_PATH, .path_origin = "x"};
    struct nvrtc *nvrtc = NULL;
    sbuf_init(why, 65536);
    expect_ok(nvrtc_open(&search, &nvrtc, why));
    sbuf_reset(why);
    const gdpa_status status = compile_source(nvrtc, &request, result, why);
    nvrtc_free(nvrtc);
    return status;
}

static void a_good_compile_gives_code_and_resources(void **state)
{
    (void)state;
    struct compile_result result;
    struct sbuf why;
    expect_ok(compile_fake(&result, &why));
    assert_int_equal(result.resources.registers, 42);
    assert_int_equal(result.resources.smem_static, 16);
    assert_int_equal(result.resources.stack_bytes, 8);
    assert_int_equal(result.resources.spill_bytes, 0);
    assert_true(result.milliseconds >= 0.0);
    assert_true(fake_nvrtc_control->option_seen("-arch=sm_90a"));
    assert_true(fake_nvrtc_control->option_seen("--no-cache"));
    compile_result_deinit(&result);
    sbuf_deinit(&why);
}

static void old_versions_are_not_given_options_that_they_refuse(void **state)
{
    (void)state;
    struct compile_result result;
    struct sbuf why;
    fake_nvrtc_control->version(12, 4);
    expect_ok(compile_fake(&result, &why));
    compile_result_deinit(&result);
    sbuf_deinit(&why);
}

static void what_is_wrong_with_the_output_is_an_error(void **state)
{
    (void)state;
    static const struct {
        enum fake_output output;
        const char *text;
    } cases[] = {{FAKE_OUTPUT_NO_CUBIN, "gave no code"},
                 {FAKE_OUTPUT_WRONG_TARGET, "not what was asked for: code for compute capability 7.5, expected 9.0"},
                 {FAKE_OUTPUT_WRONG_ENTRY, "not what was asked for: it has no kernel gdpa_k"},
                 {FAKE_OUTPUT_TRUNCATED, "not what was asked for: "},
                 {FAKE_OUTPUT_NO_RESOURCES, "does not state the resources of gdpa_k"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct compile_result result;
        struct sbuf why;
        fake_nvrtc_control->output(cases[i].output);
        assert_int_equal(compile_fake(&result, &why), GDPA_E_COMPILE);
        expect_text(why.text, cases[i].text);
        compile_result_deinit(&result);
        sbuf_deinit(&why);
    }
}

static void a_target_that_the_library_cannot_make_is_refused_before_compiling(void **state)
{
    (void)state;
    static const int archs[] = {80};
    struct compile_result result;
    struct sbuf why;
    fake_nvrtc_control->archs(1, archs);
    assert_int_equal(compile_fake(&result, &why), GDPA_E_NO_COMPILER);
    assert_int_equal(fake_nvrtc_control->calls("nvrtcCreateProgram"), 0);
    compile_result_deinit(&result);
    sbuf_deinit(&why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(options_are_those_that_the_version_understands, fakes_reset),
        cmocka_unit_test_setup(resources_are_read_from_the_log, fakes_reset),
        cmocka_unit_test_setup(a_good_compile_gives_code_and_resources, fakes_reset),
        cmocka_unit_test_setup(old_versions_are_not_given_options_that_they_refuse, fakes_reset),
        cmocka_unit_test_setup(what_is_wrong_with_the_output_is_an_error, fakes_reset),
        cmocka_unit_test_setup(a_target_that_the_library_cannot_make_is_refused_before_compiling, fakes_reset),
    };
    return cmocka_run_group_tests(tests, fakes_load, NULL);
}
