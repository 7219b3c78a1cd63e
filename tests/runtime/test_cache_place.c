/*
 * Homes on a network file system: the cache is kept on the machine, unless somebody named the folder.
 */
#include "runtime/cache_place.h"
#include "runtime/context.h"
#include "tests/support/cache_file_system.h"
#include "tests/support/runtime_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cmocka.h>

#define SPEC "fwd head_dim=64 activation=relu arch=sm_80"

static char *scratch;
static char home[4200], temporary[4200];
static struct captured_log log_lines;

static int set_up(void **state)
{
    scratch = scratch_make();
    snprintf(home, sizeof home, "%s/home", scratch);
    snprintf(temporary, sizeof temporary, "%s/tmp", scratch);
    mkdir(home, 0700);
    mkdir(temporary, 0700);
    setenv("HOME", home, 1);
    unsetenv("XDG_CACHE_HOME");
    setenv("TMPDIR", temporary, 1);
    captured_log_init(&log_lines);
    file_system_type = NETWORK_FILE_SYSTEM;
    file_system_below = home;
    return fakes_reset(state);
}

static int tear_down(void **state)
{
    (void)state;
    file_system_type = LOCAL_FILE_SYSTEM;
    file_system_below = NULL;
    unsetenv("TMPDIR");
    scratch_remove(scratch);
    return 0;
}

/* Gets a kernel; where the database is then. */
static const char *place_of(gdpa_ctx *ctx)
{
    gdpa_kernel *kernel = NULL;
    const gdpa_spec spec = runtime_spec(SPEC);
    expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
    gdpa_kernel_release(kernel);
    gdpa_cache_summary summary = {.size = sizeof summary};
    expect_ok(gdpa_cache_describe(ctx, &summary));
    assert_string_equal(summary.state, "read-write");
    assert_int_equal(summary.entries, 1);
    return summary.path;
}

static gdpa_ctx_options options_of(const char *cache_dir)
{
    gdpa_ctx_options options = runtime_options(cache_dir);
    options.mode = GDPA_MODE_AUTO;
    options.log = captured_log_line;
    options.log_user = &log_lines;
    options.log_level = GDPA_LOG_INFO;
    return options;
}

static void the_default_folder_moves_to_this_machine_and_it_is_said(void **state)
{
    (void)state;
    const gdpa_ctx_options options = options_of(NULL);
    gdpa_ctx *ctx = runtime_context(&options);
    char start[4300], text[1 << 14];
    struct stat status;
    size_t length = 0;
    snprintf(start, sizeof start, "%s/gdpajit-%lu-", temporary, (unsigned long)geteuid());
    const char *path = place_of(ctx);
    assert_memory_equal(path, start, strlen(start));
    expect_text(log_lines.text, "is on a network file system: kernels are kept in ");
    expect_ok(gdpa_ctx_describe(ctx, text, sizeof text, &length));
    expect_text(text, "cache.origin: default, on this machine because ");
    snprintf(start, sizeof start, "%s/.cache", home);
    assert_int_equal(stat(start, &status), -1); /* nothing was made there */
    gdpa_ctx_destroy(ctx);
    ctx = runtime_context(&options); /* and found again */
    assert_memory_equal(place_of(ctx), temporary, strlen(temporary));
    gdpa_stats stats = {.size = sizeof stats};
    expect_ok(gdpa_ctx_stats(ctx, &stats));
    assert_int_equal(stats.compiles, 0);
    gdpa_ctx_destroy(ctx);
}

/* A pack with the kernel of SPEC, in the folder that the cache would be in. */
static void pack_the_network_folder(char *folder, size_t size)
{
    char made[4300], pack[4400];
    snprintf(made, sizeof made, "%s/made", scratch);
    snprintf(folder, size, "%s/.cache", home);
    mkdir(folder, 0700);
    snprintf(folder, size, "%s/.cache/gdpajit", home);
    mkdir(folder, 0700);
    snprintf(pack, sizeof pack, "%s/site.pack", folder);
    const gdpa_ctx_options options = options_of(made);
    gdpa_ctx *ctx = runtime_context(&options);
    place_of(ctx);
    gdpa_pack_report report = {.size = sizeof report};
    expect_ok(gdpa_pack_write(ctx, pack, NULL, 0, false, &report));
    gdpa_ctx_destroy(ctx);
}

static void expect_compiles(const gdpa_ctx_options *options, uint64_t compiles)
{
    gdpa_ctx *ctx = runtime_context(options);
    gdpa_kernel *kernel = NULL;
    gdpa_stats stats = {.size = sizeof stats};
    const gdpa_spec spec = runtime_spec(SPEC);
    expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
    gdpa_kernel_release(kernel);
    expect_ok(gdpa_ctx_stats(ctx, &stats));
    assert_int_equal(stats.compiles, compiles);
    gdpa_ctx_destroy(ctx);
}

static void packs_in_the_folder_that_was_left_are_searched_and_nothing_is_written_there(void **state)
{
    (void)state;
    char folder[4300], database[4400];
    struct stat status;
    pack_the_network_folder(folder, sizeof folder);
    gdpa_ctx_options options = options_of(NULL);
    expect_compiles(&options, 0);
    snprintf(database, sizeof database, "%s/kernels-v1.sqlite3", folder);
    assert_int_equal(stat(database, &status), -1);
    options.packs = "/nowhere/at-all.pack"; /* those that were named come first, and take nothing away */
    expect_compiles(&options, 0);
    options.packs = NULL;
    options.mode = GDPA_MODE_READONLY;
    expect_compiles(&options, 0);
}

static void a_folder_on_a_local_disk_is_a_cache_and_no_source_of_packs(void **state)
{
    (void)state;
    char folder[4300];
    pack_the_network_folder(folder, sizeof folder);
    file_system_type = LOCAL_FILE_SYSTEM;
    const gdpa_ctx_options options = options_of(NULL);
    expect_compiles(&options, 1);
}

static void a_folder_that_somebody_named_is_used_without_a_log_in_shared_memory(void **state)
{
    (void)state;
    char named[4300], wal[4600];
    struct stat status;
    snprintf(named, sizeof named, "%s/named", home);
    const gdpa_ctx_options options = options_of(named);
    gdpa_ctx *ctx = runtime_context(&options);
    const char *path = place_of(ctx);
    assert_memory_equal(path, named, strlen(named));
    snprintf(wal, sizeof wal, "%s-wal", path);
    assert_int_equal(stat(wal, &status), -1);
    assert_null(strstr(log_lines.text, "network"));
    gdpa_ctx_destroy(ctx);
}

static void without_a_better_place_the_folder_stays(void **state)
{
    (void)state;
    const gdpa_ctx_options options = options_of(NULL);
    file_system_below = NULL; /* all of the machine, as in some containers */
    gdpa_ctx *ctx = runtime_context(&options);
    assert_memory_equal(place_of(ctx), home, strlen(home));
    gdpa_ctx_destroy(ctx);
}

static void a_local_home_is_used(void **state)
{
    (void)state;
    const gdpa_ctx_options options = options_of(NULL);
    file_system_type = LOCAL_FILE_SYSTEM;
    gdpa_ctx *ctx = runtime_context(&options);
    assert_memory_equal(place_of(ctx), home, strlen(home));
    gdpa_ctx_destroy(ctx);
}

/* Everybody can make a folder of that name in a temporary folder. */
static void a_folder_that_somebody_else_could_have_planted_is_refused(void **state)
{
    (void)state;
    struct env env;
    const gdpa_allocator none = {NULL, NULL, NULL};
    const gdpa_allocator allocator = memory_allocator(&none);
    assert_true(env_read(&env, &allocator));
    char *local = cache_place_local(home, &env, &allocator);
    assert_non_null(local);
    assert_int_equal(symlink(home, local), 0);
    const gdpa_ctx_options options = options_of(NULL);
    gdpa_ctx *ctx = runtime_context(&options);
    gdpa_kernel *kernel = NULL;
    const gdpa_spec spec = runtime_spec(SPEC);
    expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
    gdpa_kernel_release(kernel);
    expect_text(log_lines.text, "is a symbolic link");
    gdpa_ctx_destroy(ctx);
    memory_free(&allocator, local);
    env_deinit(&env, &allocator);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_default_folder_moves_to_this_machine_and_it_is_said),
        TEST(packs_in_the_folder_that_was_left_are_searched_and_nothing_is_written_there),
        TEST(a_folder_on_a_local_disk_is_a_cache_and_no_source_of_packs),
        TEST(a_folder_that_somebody_named_is_used_without_a_log_in_shared_memory),
        TEST(without_a_better_place_the_folder_stays),
        TEST(a_local_home_is_used),
        TEST(a_folder_that_somebody_else_could_have_planted_is_refused),
    };
    return cmocka_run_group_tests(tests, fakes_load, NULL);
}
