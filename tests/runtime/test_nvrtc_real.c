/*
 * The same library with a real NVRTC: every architecture compiles, the checks hold for real code, equal sources give
 * equal code. Skipped where none is found.
 */
#include "runtime/context.h"
#include "runtime/elf.h"
#include "runtime/kernel.h"
#include "tests/support/runtime_fixture.h"

#include <sys/resource.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *named; /* GDPAJIT_NVRTC of the caller: fakes_load clears it */
static bool usable;

static gdpa_ctx_options real_options(const char *folder)
{
    gdpa_ctx_options options = runtime_options(folder);
    options.nvrtc_path = named;
    options.driver_path = "/nonexistent/libcuda.so";
    return options;
}

static int find(void **state)
{
    const char *value = getenv("GDPAJIT_NVRTC");
    const char *home = getenv("CUDA_HOME");
    named = value != NULL && value[0] != '\0' ? strdup(value) : NULL;
    char *kept = home != NULL ? strdup(home) : NULL;
    fakes_load(state);
    if (kept != NULL) {
        setenv("CUDA_HOME", kept, 1);
    }
    free(kept);
    const gdpa_ctx_options options = real_options(NULL);
    gdpa_ctx *ctx = runtime_context(&options);
    const struct nvrtc *nvrtc = NULL;
    struct sbuf why;
    sbuf_init(&why, WHY_LIMIT);
    usable = context_nvrtc(ctx, &nvrtc, &why) == GDPA_OK;
    if (usable) {
        print_message("NVRTC %s: %s\n", nvrtc->version, nvrtc->path);
    } else {
        print_message("skipped: %s\n", why.text);
    }
    sbuf_deinit(&why);
    gdpa_ctx_destroy(ctx);
    return 0;
}

static int forget(void **state)
{
    (void)state;
    free(named);
    return 0;
}

static void need_nvrtc(void)
{
    if (!usable) {
        skip();
    }
}

static bool supported(gdpa_ctx *ctx, int arch)
{
    const struct nvrtc *nvrtc = NULL;
    return context_nvrtc(ctx, &nvrtc, NULL) == GDPA_OK && nvrtc_supports(nvrtc, arch, NULL) == GDPA_OK;
}

static void every_architecture_compiles_to_code_that_passes_the_checks(void **state)
{
    (void)state;
    need_nvrtc();
    static const int archs[] = {80, 86, 87, 89, 90, 100, 103, 120, 121};
    const gdpa_ctx_options options = real_options(NULL);
    gdpa_ctx *ctx = runtime_context(&options);
    int compiled = 0;
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        char text[128];
        gdpa_kernel *kernel = NULL;
        if (!supported(ctx, archs[i])) {
            continue;
        }
        snprintf(text, sizeof text, "fwd head_dim=64 activation=relu arch=%d", archs[i]);
        const gdpa_spec spec = runtime_spec(text);
        expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
        const struct cubin_expectation expected = {.arch = archs[i], .target = kernel->target, .entry = kernel->name};
        expect_ok(cubin_check(kernel->code, kernel->code_size, &expected, NULL));
        assert_in_range(kernel->resources.registers, 16, 255);
        assert_in_range(kernel->resources.spill_bytes, 0, 64); /* 12.0 spills a little where later ones do not */
        expect_text(kernel->log, kernel->name);
        expect_text(kernel->ptx, ".visible .entry");
        gdpa_kernel_release(kernel);
        compiled++;
    }
    assert_true(compiled >= 4);
    gdpa_ctx_destroy(ctx);
}

static void real_code_of_another_target_is_refused(void **state)
{
    (void)state;
    need_nvrtc();
    const gdpa_ctx_options options = real_options(NULL);
    gdpa_ctx *ctx = runtime_context(&options);
    gdpa_kernel *kernel = NULL;
    const gdpa_spec spec = runtime_spec("fwd head_dim=64 activation=relu arch=sm_90a");
    expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
    static const struct {
        int arch;
        const char *target, *entry;
    } cases[] = {{80, "sm_80", NULL}, {90, "sm_90", NULL}, {100, "sm_100a", NULL}, {90, "sm_90a", "another_kernel"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct cubin_expectation expected = {cases[i].arch, cases[i].target, cases[i].entry};
        assert_int_equal(cubin_check(kernel->code, kernel->code_size, &expected, NULL), GDPA_E_CACHE);
    }
    const struct cubin_expectation right = {90, "sm_90a", kernel->name};
    for (size_t cut = 1; cut < kernel->code_size; cut += 977) {
        assert_int_equal(cubin_check(kernel->code, kernel->code_size - cut, &right, NULL), GDPA_E_CACHE);
    }
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx);
}

static void equal_sources_give_equal_code(void **state)
{
    (void)state;
    need_nvrtc();
    char *code = NULL;
    size_t size = 0;
    for (int i = 0; i < 2; i++) {
        const gdpa_ctx_options options = real_options(NULL);
        gdpa_ctx *ctx = runtime_context(&options);
        gdpa_kernel *kernel = NULL;
        const gdpa_spec spec = runtime_spec("fwd head_dim=64 activation=silu causal arch=sm_80");
        expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
        if (i == 0) {
            size = kernel->code_size;
            code = malloc(size);
            assert_non_null(code);
            memcpy(code, kernel->code, size);
        } else {
            assert_int_equal(kernel->code_size, size);
            assert_memory_equal(kernel->code, code, size);
        }
        gdpa_kernel_release(kernel);
        gdpa_ctx_destroy(ctx);
    }
    free(code);
}

static void a_real_kernel_comes_back_from_disk_without_a_compiler(void **state)
{
    (void)state;
    need_nvrtc();
    char *folder = scratch_make();
    gdpa_ctx_options options = real_options(folder);
    const gdpa_spec spec = runtime_spec("fwd head_dim=64 activation=relu arch=sm_80");
    char name[256] = "";
    for (int i = 0; i < 3; i++) {
        gdpa_kernel *kernel = NULL;
        options.nvrtc_path = i == 2 ? "/nonexistent/libnvrtc.so" : named;
        gdpa_ctx *ctx = runtime_context(&options);
        expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
        assert_string_equal(kernel->origin, i == 0 ? "compiled" : "disk");
        if (i > 0) {
            assert_string_equal(kernel->name, name);
        }
        snprintf(name, sizeof name, "%s", kernel->name);
        gdpa_kernel_release(kernel);
        gdpa_ctx_destroy(ctx);
    }
    scratch_remove(folder);
}

static void a_source_with_a_mistake_gives_the_log(void **state)
{
    (void)state;
    need_nvrtc();
    const gdpa_ctx_options options = real_options(NULL);
    gdpa_ctx *ctx = runtime_context(&options);
    const struct nvrtc *nvrtc = NULL;
    struct sbuf why;
    sbuf_init(&why, WHY_LIMIT);
    expect_ok(context_nvrtc(ctx, &nvrtc, &why));
    struct compile_request request = {.source = "extern \"C\" __global__ void k() { mistake = 1; }",
                                      .source_hash = "0123456789abcdef0123456789abcdef",
                                      .name = "k",
                                      .target = "sm_80",
                                      .arch = 80};
    struct compile_result result;
    assert_int_equal(compile_source(nvrtc, &request, &result, &why), GDPA_E_COMPILE);
    expect_text(why.text, "k.cu(1): error: identifier \"mistake\" is undefined");
    compile_result_deinit(&result);
    request.source = "#include \"nothing.h\"\nextern \"C\" __global__ void k() {}";
    assert_int_equal(compile_source(nvrtc, &request, &result, &why), GDPA_E_COMPILE);
    expect_text(why.text, "nothing.h");
    compile_result_deinit(&result);
    sbuf_deinit(&why);
    gdpa_ctx_destroy(ctx);
}

static void spills_and_stack_are_seen(void **state)
{
    (void)state;
    need_nvrtc();
    static const char source[] =
        "extern \"C\" __global__ __launch_bounds__(1024) void k(float *p, int n) {"
        "  float a[200];"
        "  for (int i = 0; i < 200; i++) a[i] = p[i * n];"
        "  for (int j = 0; j < n; j++) for (int i = 0; i < 199; i++) a[i] = a[i] * a[i + 1] + a[0];"
        "  for (int i = 0; i < 200; i++) p[i * n] = a[i]; }";
    const gdpa_ctx_options options = real_options(NULL);
    gdpa_ctx *ctx = runtime_context(&options);
    const struct nvrtc *nvrtc = NULL;
    struct sbuf why;
    sbuf_init(&why, WHY_LIMIT);
    expect_ok(context_nvrtc(ctx, &nvrtc, &why));
    const struct compile_request request = {.source = source,
                                            .source_hash = "0123456789abcdef0123456789abcdef",
                                            .name = "k",
                                            .target = "sm_80",
                                            .arch = 80};
    struct compile_result result;
    expect_ok(compile_source(nvrtc, &request, &result, &why));
    assert_true(result.resources.spill_bytes > 0 || result.resources.stack_bytes > 0);
    assert_in_range(result.resources.registers, 1, 64);
    compile_result_deinit(&result);
    sbuf_deinit(&why);
    gdpa_ctx_destroy(ctx);
}

static void compiling_leaves_the_limits_of_the_process_alone(void **state)
{
    (void)state;
    need_nvrtc();
    struct rlimit before, after;
    getrlimit(RLIMIT_STACK, &before);
    const gdpa_ctx_options options = real_options(NULL);
    gdpa_ctx *ctx = runtime_context(&options);
    gdpa_kernel *kernel = NULL;
    const gdpa_spec spec = runtime_spec("fwd head_dim=32 activation=relu arch=sm_80");
    expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
    getrlimit(RLIMIT_STACK, &after);
    assert_int_equal(before.rlim_cur, after.rlim_cur);
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_architecture_compiles_to_code_that_passes_the_checks),
        cmocka_unit_test(real_code_of_another_target_is_refused),
        cmocka_unit_test(equal_sources_give_equal_code),
        cmocka_unit_test(a_real_kernel_comes_back_from_disk_without_a_compiler),
        cmocka_unit_test(a_source_with_a_mistake_gives_the_log),
        cmocka_unit_test(spills_and_stack_are_seen),
        cmocka_unit_test(compiling_leaves_the_limits_of_the_process_alone),
    };
    return cmocka_run_group_tests(tests, find, forget);
}
