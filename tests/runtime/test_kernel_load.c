/*
 * Code that the driver refuses although it is whole: made anew once, by an older NVRTC where the one at hand is newer than
 * the driver; and when that does not help, an error with both versions and what to do.
 */
#include "runtime/kernel.h"
#include "tests/support/parallel.h"
#include "tests/support/runtime_fixture.h"

#include <dlfcn.h>
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SPEC "fwd head_dim=64 activation=relu arch=sm_90a family=portable"
#define OTHER "fwd head_dim=64 activation=square arch=sm_90a family=portable"
#define OLD_FILL 7 /* what the code of an earlier compiler is made of */
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static struct captured_log lines;

/* ---- Refusals -------------------------------------------------------------------------------------------------------- */

static int refusal = 200;

static bool is_of_fill(const void *code, unsigned char fill)
{
    Elf64_Ehdr header;
    Elf64_Shdr section;
    memcpy(&header, code, sizeof header);
    memcpy(&section, (const char *)code + header.e_shoff + (size_t)(header.e_shnum - 1) * sizeof section,
           sizeof section);
    return ((const unsigned char *)code)[section.sh_offset] == fill;
}

static int of_the_old_fill(const void *code)
{
    return is_of_fill(code, OLD_FILL) ? refusal : 0;
}

static int of_cuda_13(const void *code)
{
    return ((const unsigned char *)code)[EI_ABIVERSION] >= 8 ? refusal : 0;
}

static int everything(const void *code)
{
    (void)code;
    return refusal;
}

/* ---- Contexts -------------------------------------------------------------------------------------------------------- */

static gdpa_ctx *context_of(const char *cache, gdpa_mode mode, const char *packs, const char *nvrtc)
{
    gdpa_ctx_options options = runtime_options(cache);
    options.mode = mode;
    options.packs = packs;
    options.log = captured_log_line;
    options.log_user = &lines;
    options.log_level = GDPA_LOG_WARN;
    if (nvrtc != NULL) {
        options.nvrtc_path = nvrtc;
    }
    captured_log_init(&lines);
    return runtime_context(&options);
}

static gdpa_kernel *get(gdpa_ctx *ctx, const char *text)
{
    gdpa_kernel *kernel = NULL;
    const gdpa_spec spec = runtime_spec(text);
    expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
    return kernel;
}

static void expect_counts(gdpa_ctx *ctx, uint64_t disk_hits, uint64_t compiles, uint64_t bad)
{
    gdpa_stats stats = {.size = sizeof stats};
    expect_ok(gdpa_ctx_stats(ctx, &stats));
    assert_int_equal(stats.disk_hits, disk_hits);
    assert_int_equal(stats.compiles, compiles);
    assert_int_equal(stats.bad_entries, bad);
}

static void end(gdpa_ctx *ctx, gdpa_kernel *kernel)
{
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx);
}

/* A cache with code of the old fill; the compiler at hand makes other code of the same key. */
static char *cache_of_old_code(void)
{
    char *folder = scratch_make();
    fake_nvrtc_control->seed(OLD_FILL);
    gdpa_ctx *ctx = context_of(folder, GDPA_MODE_AUTO, NULL, NULL);
    gdpa_kernel_release(get(ctx, SPEC));
    gdpa_kernel_release(get(ctx, OTHER));
    gdpa_ctx_destroy(ctx);
    fake_nvrtc_control->seed(0);
    return folder;
}

static void expect_fill(gdpa_kernel *kernel, unsigned char fill)
{
    static char code[1 << 16];
    size_t size = 0;
    gdpa_kernel_info info = {.size = sizeof info};
    expect_ok(gdpa_kernel_artifact(kernel, GDPA_ARTIFACT_CUBIN, code, sizeof code, &size));
    assert_true(is_of_fill(code, fill));
    expect_ok(gdpa_kernel_info_get(kernel, &info));
    assert_int_equal(info.binary_bytes, size);
}

/* ---- An entry that the driver refuses --------------------------------------------------------------------------------- */

static void a_refused_entry_is_compiled_anew_and_replaced(void **state)
{
    (void)state;
    static const int results[] = {200, 209, 222, 300};
    for (size_t i = 0; i < COUNT_OF(results); i++) {
        char *folder = cache_of_old_code();
        refusal = results[i];
        fake_driver_control->refuse(of_the_old_fill);
        gdpa_ctx *ctx = context_of(folder, GDPA_MODE_AUTO, NULL, NULL);
        gdpa_kernel *kernel = get(ctx, SPEC);
        expect_fill(kernel, OLD_FILL);
        expect_ok(gdpa_kernel_prepare(kernel));
        expect_ok(gdpa_kernel_prepare(kernel));
        expect_counts(ctx, 1, 1, 1);
        expect_fill(kernel, 0);
        gdpa_kernel_info info = {.size = sizeof info};
        expect_ok(gdpa_kernel_info_get(kernel, &info));
        assert_string_equal(info.origin, "compiled");
        assert_int_equal(lines.lines, 1);
        expect_text(lines.text, "does not load gdpa_fwd_sm90_d64");
        expect_text(lines.text, "; compiled anew by NVRTC 13.0");
        end(ctx, kernel);
        ctx = context_of(folder, GDPA_MODE_AUTO, NULL, NULL);
        kernel = get(ctx, SPEC);
        expect_ok(gdpa_kernel_prepare(kernel));
        expect_counts(ctx, 1, 0, 0);
        assert_int_equal(lines.lines, 0);
        end(ctx, kernel);
        assert_int_equal(fake_driver_control->loaded(), 0);
        scratch_remove(folder);
    }
}

static void what_is_no_refusal_of_the_code_costs_no_compile(void **state)
{
    (void)state;
    static const struct {
        const char *function;
        int result;
    } cases[] = {{"cuLibraryLoadData", 2}, {"cuLibraryLoadData", 900},   {"cuLibraryGetKernel", 400},
                 {"cuCtxGetDevice", 200},  {"cuKernelGetFunction", 209}, {"cuFuncLoad", 209}};
    char *folder = cache_of_old_code();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        fake_driver_control->reset();
        fake_driver_control->fault(cases[i].function, cases[i].result, 0);
        gdpa_ctx *ctx = context_of(folder, GDPA_MODE_AUTO, NULL, NULL);
        gdpa_kernel *kernel = get(ctx, SPEC);
        (void)gdpa_kernel_prepare(kernel);
        expect_counts(ctx, 1, 0, 0);
        end(ctx, kernel);
    }
    scratch_remove(folder);
}

static void a_function_that_is_not_in_the_code_is_a_refusal(void **state)
{
    (void)state;
    char *folder = cache_of_old_code();
    fake_driver_control->fault("cuLibraryGetKernel", 500, 0);
    gdpa_ctx *ctx = context_of(folder, GDPA_MODE_AUTO, NULL, NULL);
    gdpa_kernel *kernel = get(ctx, SPEC);
    expect_failure(gdpa_kernel_prepare(kernel), GDPA_E_DRIVER, "it was compiled anew, and is refused again");
    fake_driver_control->fault("cuLibraryGetKernel", 0, 0);
    expect_ok(gdpa_kernel_prepare(kernel));
    expect_counts(ctx, 1, 1, 1);
    end(ctx, kernel);
    scratch_remove(folder);
}

static void what_is_refused_again_is_an_error_with_versions_target_and_a_hint(void **state)
{
    (void)state;
    char *folder = scratch_make();
    end(context_of(folder, GDPA_MODE_AUTO, NULL, NULL), NULL);
    gdpa_ctx *ctx = context_of(folder, GDPA_MODE_AUTO, NULL, NULL);
    end(ctx, get(ctx, SPEC));
    refusal = 209;
    fake_driver_control->refuse(everything);
    ctx = context_of(folder, GDPA_MODE_AUTO, NULL, NULL);
    gdpa_kernel *kernel = get(ctx, SPEC);
    for (int i = 0; i < 3; i++) {
        expect_failure(gdpa_kernel_prepare(kernel), GDPA_E_DRIVER,
                       "made for sm_90a by NVRTC 13.0: CUDA_ERROR_NO_BINARY");
        expect_text(gdpa_last_error(), "(CUDA 13.0) does not load gdpa_fwd_sm90_d64");
        expect_text(gdpa_last_error(), "it was compiled anew, and is refused again");
        expect_text(gdpa_last_error(), "gdpa-jit doctor");
    }
    expect_counts(ctx, 1, 1, 0); /* the compiler gave the same code: the entry is right, and stays for other drivers */
    end(ctx, kernel);
    fake_driver_control->refuse(NULL);
    ctx = context_of(folder, GDPA_MODE_AUTO, NULL, NULL);
    kernel = get(ctx, SPEC);
    expect_ok(gdpa_kernel_prepare(kernel));
    expect_counts(ctx, 1, 0, 0);
    end(ctx, kernel);
    scratch_remove(folder);
}

static void what_was_compiled_just_now_is_not_compiled_again_by_the_same(void **state)
{
    (void)state;
    refusal = 200;
    fake_driver_control->refuse(everything);
    gdpa_ctx *ctx = context_of(NULL, GDPA_MODE_OFF, NULL, NULL);
    gdpa_kernel *kernel = get(ctx, SPEC);
    expect_failure(gdpa_kernel_prepare(kernel), GDPA_E_DRIVER,
                   "It cannot be compiled anew: this process has compiled it just now, by NVRTC 13.0 (");
    expect_counts(ctx, 0, 1, 0);
    end(ctx, kernel);
}

static void where_nothing_may_be_compiled_the_error_says_so(void **state)
{
    (void)state;
    char *folder = cache_of_old_code();
    fake_driver_control->refuse(everything);
    gdpa_ctx *ctx = context_of(folder, GDPA_MODE_STRICT, NULL, NULL);
    gdpa_kernel *kernel = get(ctx, SPEC);
    expect_failure(gdpa_kernel_prepare(kernel), GDPA_E_DRIVER, "It cannot be compiled anew: mode strict (");
    expect_counts(ctx, 1, 0, 0);
    end(ctx, kernel);
    ctx = context_of(folder, GDPA_MODE_AUTO, NULL, "/nowhere/libnvrtc.so.13");
    kernel = get(ctx, SPEC);
    expect_failure(gdpa_kernel_prepare(kernel), GDPA_E_DRIVER, "/nowhere/libnvrtc.so.13: cannot open");
    expect_counts(ctx, 1, 0, 0);
    end(ctx, kernel);
    scratch_remove(folder);
}

static void nothing_is_stored_where_the_cache_is_read_only(void **state)
{
    (void)state;
    char *folder = cache_of_old_code();
    refusal = 200;
    fake_driver_control->refuse(of_the_old_fill);
    for (int i = 0; i < 2; i++) {
        gdpa_ctx *ctx = context_of(folder, GDPA_MODE_READONLY, NULL, NULL);
        gdpa_kernel *kernel = get(ctx, SPEC);
        expect_ok(gdpa_kernel_prepare(kernel));
        expect_counts(ctx, 1, 1, 0);
        end(ctx, kernel);
    }
    scratch_remove(folder);
}

static void a_refused_pack_is_left_alone_and_its_kernel_is_kept_in_the_cache(void **state)
{
    (void)state;
    char *folder = cache_of_old_code();
    char pack[4200];
    snprintf(pack, sizeof pack, "%s/old.pack", folder);
    gdpa_ctx *ctx = context_of(folder, GDPA_MODE_AUTO, NULL, NULL);
    expect_ok(gdpa_pack_write(ctx, pack, NULL, 0, false, NULL));
    gdpa_ctx_destroy(ctx);
    char *own = scratch_make();
    refusal = 200;
    fake_driver_control->refuse(of_the_old_fill);
    for (uint64_t run = 0; run < 2; run++) {
        ctx = context_of(own, GDPA_MODE_AUTO, pack, NULL);
        gdpa_kernel *kernel = get(ctx, SPEC);
        expect_ok(gdpa_kernel_prepare(kernel));
        expect_counts(ctx, 1 + run, 1 - run, 0); /* the second time both are found, and nothing is compiled */
        expect_fill(kernel, 0);
        end(ctx, kernel);
    }
    scratch_remove(own);
    scratch_remove(folder);
}

static void prepare_in_thread(int64_t item, int thread, void *user)
{
    (void)item;
    (void)thread;
    gdpa_kernel_info info = {.size = sizeof info};
    expect_ok(gdpa_kernel_info_get(user, &info));
    expect_ok(gdpa_kernel_prepare(user));
    expect_ok(gdpa_kernel_info_get(user, &info));
    assert_string_equal(info.origin, "compiled");
}

static void many_threads_compile_it_anew_once(void **state)
{
    (void)state;
    char *folder = cache_of_old_code();
    refusal = 200;
    fake_driver_control->refuse(of_the_old_fill);
    fake_nvrtc_control->delay(20);
    gdpa_ctx *ctx = context_of(folder, GDPA_MODE_AUTO, NULL, NULL);
    gdpa_kernel *kernel = get(ctx, SPEC);
    parallel_for(64, 16, prepare_in_thread, kernel);
    expect_fill(kernel, 0);
    expect_counts(ctx, 1, 1, 1);
    end(ctx, kernel);
    scratch_remove(folder);
}

/* ---- A compiler that is newer than the driver -------------------------------------------------------------------------- */

static void file_copy(const char *from, const char *to)
{
    char bytes[65536];
    FILE *in = fopen(from, "rbe"), *out = fopen(to, "wbe");
    assert_non_null(in);
    assert_non_null(out);
    for (size_t length; (length = fread(bytes, 1, sizeof bytes, in)) > 0;) {
        assert_int_equal(fwrite(bytes, 1, length, out), length);
    }
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

/* A folder with the fake under a soname, of that version. */
static void compiler_put(const char *folder, const char *soname, int major, int minor)
{
    char file[4200];
    snprintf(file, sizeof file, "%s/%s", folder, soname);
    file_copy(FAKE_NVRTC_PATH, file);
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(handle);
    const struct fake_nvrtc *control = dlsym(handle, "fake_nvrtc");
    assert_non_null(control);
    control->version(major, minor);
}

static void an_older_compiler_is_used_where_the_driver_is_older(void **state)
{
    (void)state;
    char *folder = scratch_make(), *compilers = scratch_make();
    compiler_put(compilers, "libnvrtc.so.13", 13, 2);
    compiler_put(compilers, "libnvrtc.so.12", 12, 4);
    refusal = 200;
    fake_driver_control->refuse(of_cuda_13);
    gdpa_ctx *ctx = context_of(folder, GDPA_MODE_AUTO, NULL, compilers);
    gdpa_kernel *kernel = get(ctx, SPEC);
    gdpa_kernel_info info = {.size = sizeof info};
    expect_ok(gdpa_kernel_info_get(kernel, &info));
    assert_string_equal(info.nvrtc, "13.2");
    expect_ok(gdpa_kernel_prepare(kernel));
    expect_ok(gdpa_kernel_info_get(kernel, &info));
    assert_string_equal(info.nvrtc, "12.4");
    expect_counts(ctx, 0, 2, 0);
    expect_text(lines.text, "the driver (CUDA 13.0) refuses what NVRTC 13.2 makes: NVRTC 12.4 (");
    gdpa_kernel *other = get(ctx, OTHER);
    expect_ok(gdpa_kernel_prepare(other));
    expect_counts(ctx, 0, 3, 0); /* not in vain any more */
    gdpa_kernel_release(other);
    end(ctx, kernel);
    ctx = context_of(folder, GDPA_MODE_AUTO, NULL, compilers);
    kernel = get(ctx, SPEC);
    expect_ok(gdpa_kernel_prepare(kernel));
    expect_counts(ctx, 2, 0, 0); /* both are in the cache, and nothing is compiled */
    end(ctx, kernel);
    scratch_remove(folder);
    scratch_remove(compilers);
}

static void without_an_older_compiler_both_versions_and_the_search_are_told(void **state)
{
    (void)state;
    char *compilers = scratch_make();
    compiler_put(compilers, "libnvrtc.so.13", 13, 2);
    refusal = 222;
    fake_driver_control->refuse(everything);
    gdpa_ctx *ctx = context_of(NULL, GDPA_MODE_OFF, NULL, compilers);
    gdpa_kernel *kernel = get(ctx, SPEC);
    expect_failure(
        gdpa_kernel_prepare(kernel), GDPA_E_DRIVER,
        "NVRTC 13.2 is newer than the driver, which may be why: install a driver of CUDA 13.2 or later, or name "
        "an NVRTC of CUDA 13.0 or older with GDPAJIT_NVRTC");
    expect_text(gdpa_last_error(), "no NVRTC of CUDA 13.0 or older was found; tried:");
    expect_text(gdpa_last_error(), "version 13.2 is newer than 13.0");
    expect_counts(ctx, 0, 1, 0);
    end(ctx, kernel);
    scratch_remove(compilers);
}

#define TEST(name) cmocka_unit_test_setup(name, fakes_reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_refused_entry_is_compiled_anew_and_replaced),
        TEST(what_is_no_refusal_of_the_code_costs_no_compile),
        TEST(a_function_that_is_not_in_the_code_is_a_refusal),
        TEST(what_is_refused_again_is_an_error_with_versions_target_and_a_hint),
        TEST(what_was_compiled_just_now_is_not_compiled_again_by_the_same),
        TEST(where_nothing_may_be_compiled_the_error_says_so),
        TEST(nothing_is_stored_where_the_cache_is_read_only),
        TEST(a_refused_pack_is_left_alone_and_its_kernel_is_kept_in_the_cache),
        TEST(many_threads_compile_it_anew_once),
        TEST(an_older_compiler_is_used_where_the_driver_is_older),
        TEST(without_an_older_compiler_both_versions_and_the_search_are_told),
    };
    return cmocka_run_group_tests(tests, fakes_load, NULL);
}
