/*
 * Mode strict names the command that cures a miss: everything that decides where kernels go and who makes them is in it,
 * whether an option or a variable said so.
 */
#include "tests/support/runtime_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define TEXT "fwd head_dim=64 dtype=bf16 activation=relu arch=sm_80"
#define COMPILER "GDPAJIT_NVRTC='" FAKE_NVRTC_PATH "' "

static struct captured_log lines;

static void expect_command(const gdpa_ctx_options *options, const char *command)
{
    char expected[9000];
    gdpa_kernel *kernel = NULL;
    gdpa_ctx *ctx = runtime_context(options);
    const gdpa_spec spec = runtime_spec(TEXT);
    snprintf(expected, sizeof expected, "; to put it there: %sgdpa-jit warm '" TEXT "'", command);
    expect_failure(gdpa_kernel_get(ctx, &spec, &kernel), GDPA_E_NOT_READY, expected);
    assert_null(kernel);
    gdpa_ctx_destroy(ctx);
}

static gdpa_ctx_options strict_options(const char *folder)
{
    gdpa_ctx_options options = runtime_options(folder);
    options.mode = GDPA_MODE_STRICT;
    options.log = captured_log_line;
    options.log_user = &lines;
    captured_log_init(&lines);
    return options;
}

static void what_options_say_is_in_the_command(void **state)
{
    (void)state;
    char *folder = scratch_make(), command[9000];
    gdpa_ctx_options options = strict_options(folder);
    snprintf(command, sizeof command, "GDPAJIT_CACHE_DIR='%s' " COMPILER, folder);
    expect_command(&options, command);
    options.nvrtc_path = "/nowhere"; /* not the way to a kernel */
    snprintf(command, sizeof command, "GDPAJIT_CACHE_DIR='%s' ", folder);
    expect_command(&options, command);
    scratch_remove(folder);
}

static void what_variables_say_is_in_the_command(void **state)
{
    (void)state;
    char *folder = scratch_make(), command[9000];
    gdpa_ctx_options options = strict_options(NULL);
    options.cache_dir = NULL;
    options.nvrtc_path = NULL;
    setenv("GDPAJIT_CACHE_DIR", folder, 1);
    setenv("GDPAJIT_NVRTC", FAKE_NVRTC_PATH, 1);
    setenv("GDPAJIT_CACHE_SHARED", "yes", 1);
    setenv("GDPAJIT_MODE", "readonly", 1); /* another mode than that of the option would get in the way as well */
    snprintf(command, sizeof command, "GDPAJIT_MODE=auto GDPAJIT_CACHE_DIR='%s' GDPAJIT_CACHE_SHARED=yes " COMPILER,
             folder);
    expect_command(&options, command);
    setenv("GDPAJIT_MODE", "auto", 1);
    unsetenv("GDPAJIT_CACHE_SHARED");
    snprintf(command, sizeof command, "GDPAJIT_CACHE_DIR='%s' " COMPILER, folder);
    expect_command(&options, command);
    unsetenv("GDPAJIT_MODE");
    unsetenv("GDPAJIT_NVRTC");
    unsetenv("GDPAJIT_CACHE_DIR");
    scratch_remove(folder);
}

static void a_relative_folder_is_named_from_the_root_on(void **state)
{
    (void)state;
    char *folder = scratch_make(), before[4096], now[4096], command[9000];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(folder), 0);
    assert_non_null(getcwd(now, sizeof now));
    gdpa_ctx_options options = strict_options("it's below");
    snprintf(command, sizeof command, "GDPAJIT_CACHE_DIR='%s/it'\\''s below' " COMPILER, now);
    expect_command(&options, command);
    assert_int_equal(chdir(before), 0);
    scratch_remove(folder);
}

static void packs_that_were_searched_are_named(void **state)
{
    (void)state;
    char *folder = scratch_make(), packs[9000];
    gdpa_ctx_options options = strict_options(folder);
    snprintf(packs, sizeof packs, "%s/a.pack:%s/b.pack", folder, folder);
    options.packs = packs;
    gdpa_ctx *ctx = runtime_context(&options);
    const gdpa_spec spec = runtime_spec(TEXT);
    gdpa_kernel *kernel = NULL;
    snprintf(packs, sizeof packs, ", nor in a pack (%s/a.pack, %s/b.pack), and mode strict", folder, folder);
    expect_failure(gdpa_kernel_get(ctx, &spec, &kernel), GDPA_E_NOT_READY, packs);
    gdpa_ctx_destroy(ctx);
    scratch_remove(folder);
}

#define TEST(name) cmocka_unit_test_setup(name, fakes_reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_options_say_is_in_the_command),
        TEST(what_variables_say_is_in_the_command),
        TEST(a_relative_folder_is_named_from_the_root_on),
        TEST(packs_that_were_searched_are_named),
    };
    return cmocka_run_group_tests(tests, fakes_load, NULL);
}
