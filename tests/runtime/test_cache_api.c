/*
 * The public calls on the disk cache.
 */
#include "runtime/context.h"
#include "tests/support/runtime_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void fill(gdpa_ctx *ctx)
{
    static const char *const texts[] = {"fwd head_dim=64 activation=relu arch=sm_80",
                                        "fwd head_dim=64 activation=silu arch=sm_80",
                                        "fwd head_dim=96 activation=relu arch=sm_90a"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        gdpa_kernel *kernel = NULL;
        const gdpa_spec spec = runtime_spec(texts[i]);
        expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
        gdpa_kernel_release(kernel);
    }
}

struct seen {
    int count, stop_after;
    char key[33], name[256];
};

static int entry_see(const gdpa_cache_entry *entry, void *user)
{
    struct seen *seen = user;
    assert_int_equal(entry->size, sizeof *entry);
    assert_int_equal(strlen(entry->key), 32);
    expect_text(entry->name, "gdpa_fwd_sm");
    expect_text(entry->spec, "fwd head_dim=");
    assert_int_equal(strlen(entry->source_hash), 32);
    assert_string_equal(entry->nvrtc, "13.0");
    assert_int_equal(entry->registers, 42);
    assert_true(entry->binary_bytes > 4096 && entry->stored_bytes > 0 && entry->threads > 0);
    snprintf(seen->key, sizeof seen->key, "%s", entry->key);
    snprintf(seen->name, sizeof seen->name, "%s", entry->name);
    seen->count++;
    return seen->count == seen->stop_after;
}

static void entries_are_listed_described_and_removed(void **state)
{
    (void)state;
    char *folder = scratch_make();
    const gdpa_ctx_options options = runtime_options(folder);
    gdpa_ctx *ctx = runtime_context(&options);
    fill(ctx);
    struct seen seen = {.count = 0, .stop_after = 99};
    expect_ok(gdpa_cache_list(ctx, entry_see, &seen));
    assert_int_equal(seen.count, 3);
    seen = (struct seen){.count = 0, .stop_after = 2};
    expect_ok(gdpa_cache_list(ctx, entry_see, &seen));
    assert_int_equal(seen.count, 2);
    gdpa_cache_summary summary = {.size = sizeof summary};
    expect_ok(gdpa_cache_describe(ctx, &summary));
    expect_text(summary.path, folder);
    assert_string_equal(summary.state, "read-write");
    assert_int_equal(summary.entries, 3);
    assert_true(summary.bytes > 0);
    assert_true(summary.limit_bytes == INT64_C(1) << 30);
    int64_t good = -1, bad = -1, removed = -1;
    expect_ok(gdpa_cache_verify(ctx, &good, &bad));
    assert_int_equal(good, 3);
    assert_int_equal(bad, 0);
    expect_ok(gdpa_cache_remove(ctx, seen.key, &removed));
    assert_int_equal(removed, 1);
    expect_failure(gdpa_cache_remove(ctx, seen.key, &removed), GDPA_E_NOT_FOUND, seen.key);
    expect_ok(gdpa_cache_remove(ctx, NULL, &removed));
    assert_int_equal(removed, 2);
    expect_ok(gdpa_cache_verify(ctx, NULL, NULL));
    gdpa_ctx_destroy(ctx);
    scratch_remove(folder);
}

static void artifacts_of_entries_are_found_by_any_unique_prefix(void **state)
{
    (void)state;
    char *folder = scratch_make();
    const gdpa_ctx_options options = runtime_options(folder);
    gdpa_ctx *ctx = runtime_context(&options);
    fill(ctx);
    struct seen seen = {.count = 0, .stop_after = 1};
    expect_ok(gdpa_cache_list(ctx, entry_see, &seen));
    static char data[1 << 20];
    size_t length = 0;
    for (int what = GDPA_ARTIFACT_SOURCE; what <= GDPA_ARTIFACT_LOG; what++) {
        expect_ok(gdpa_cache_artifact(ctx, seen.key, (gdpa_artifact)what, data, sizeof data, &length));
        assert_true(length > 10);
        expect_ok(gdpa_cache_artifact(ctx, seen.name, (gdpa_artifact)what, data, sizeof data, &length));
    }
    expect_ok(gdpa_cache_artifact(ctx, "gdpa_fwd_sm90", GDPA_ARTIFACT_PTX, data, sizeof data, &length));
    expect_text(data, ".target sm_90a");
    expect_failure(gdpa_cache_artifact(ctx, "gdpa_fwd_sm80", GDPA_ARTIFACT_PTX, data, sizeof data, &length),
                   GDPA_E_NOT_FOUND, "2 entries of ");
    expect_text(gdpa_last_error(), "give more of it");
    expect_failure(gdpa_cache_artifact(ctx, "gdpa_bwd", GDPA_ARTIFACT_PTX, data, sizeof data, &length),
                   GDPA_E_NOT_FOUND, "no entry gdpa_bwd in ");
    expect_failure(gdpa_cache_artifact(ctx, seen.key, GDPA_ARTIFACT_PTX, data, 3, &length), GDPA_E_BUFFER, "3");
    expect_failure(gdpa_cache_artifact(ctx, seen.key, (gdpa_artifact)9, data, 3, &length), GDPA_E_ARGUMENT,
                   "what is 9");
    expect_failure(gdpa_cache_artifact(ctx, NULL, GDPA_ARTIFACT_PTX, data, 3, &length), GDPA_E_ARGUMENT, "key is NULL");
    gdpa_ctx_destroy(ctx);
    scratch_remove(folder);
}

static void cleaning_up_brings_the_cache_below_the_limit(void **state)
{
    (void)state;
    char *folder = scratch_make();
    const gdpa_ctx_options options = runtime_options(folder);
    gdpa_ctx *ctx = runtime_context(&options);
    gdpa_cache_gc_report report = {.size = sizeof report};
    gdpa_cache_summary summary = {.size = sizeof summary};
    gdpa_stats stats = {.size = sizeof stats};
    fill(ctx);
    expect_ok(gdpa_cache_gc(ctx, 0, &report));
    assert_int_equal(report.entries, 0);
    expect_ok(gdpa_cache_describe(ctx, &summary));
    assert_int_equal(summary.entries, 3);
    assert_int_equal(summary.foreign_entries, 0);
    assert_int_equal(summary.set_aside, 0);
    assert_int_equal(summary.network, 0);
    assert_int_equal(summary.locks, 1);
    assert_true(summary.part_bytes > 0 && summary.file_bytes >= summary.bytes);
    expect_ok(gdpa_cache_gc(ctx, 1, &report));
    assert_int_equal(report.entries, 3);
    assert_true(report.parts >= 3);
    assert_true(report.bytes_after < report.bytes_before);
    expect_ok(gdpa_ctx_stats(ctx, &stats));
    assert_int_equal(stats.evictions, 3);
    expect_ok(gdpa_cache_gc(ctx, 1, NULL));
    expect_failure(gdpa_cache_gc(ctx, -1, NULL), GDPA_E_ARGUMENT, "limit_bytes is -1");
    report.size = 3;
    expect_failure(gdpa_cache_gc(ctx, 0, &report), GDPA_E_VERSION, "gdpa_cache_gc_report.size is 3");
    expect_failure(gdpa_cache_gc(NULL, 0, NULL), GDPA_E_ARGUMENT, "ctx is NULL");
    gdpa_ctx_destroy(ctx);
    gdpa_ctx_options reading = runtime_options(folder);
    reading.mode = GDPA_MODE_READONLY;
    reading.log_level = GDPA_LOG_NONE;
    ctx = runtime_context(&reading);
    expect_failure(gdpa_cache_gc(ctx, 0, NULL), GDPA_E_CACHE, "read-only. Make room on its disk");
    gdpa_ctx_destroy(ctx);
    scratch_remove(folder);
}

static void without_a_cache_the_reason_is_given(void **state)
{
    (void)state;
    const gdpa_ctx_options options = runtime_options(NULL);
    gdpa_ctx *ctx = runtime_context(&options);
    struct seen seen = {.count = 0, .stop_after = 1};
    size_t length = 0;
    static const char reason[] = "there is no kernel cache: the mode is off (gdpa_ctx_options.mode)";
    expect_failure(gdpa_cache_list(ctx, entry_see, &seen), GDPA_E_CACHE, reason);
    expect_failure(gdpa_cache_verify(ctx, NULL, NULL), GDPA_E_CACHE, reason);
    expect_failure(gdpa_cache_remove(ctx, NULL, NULL), GDPA_E_CACHE, reason);
    expect_failure(gdpa_cache_artifact(ctx, "a", GDPA_ARTIFACT_PTX, NULL, 0, &length), GDPA_E_CACHE, reason);
    gdpa_cache_summary summary = {.size = sizeof summary};
    expect_ok(gdpa_cache_describe(ctx, &summary));
    assert_string_equal(summary.path, "");
    expect_text(summary.state, "the mode is off");
    gdpa_ctx_destroy(ctx);
}

static void a_folder_that_cannot_be_used_is_an_error_of_these_calls(void **state)
{
    (void)state;
    static struct captured_log log;
    captured_log_init(&log);
    char *folder = scratch_make();
    char file[4200];
    snprintf(file, sizeof file, "%s/a-file", folder);
    fclose(fopen(file, "w"));
    gdpa_ctx_options options = runtime_options(file);
    options.log = captured_log_line;
    options.log_user = &log;
    gdpa_ctx *ctx = runtime_context(&options);
    struct seen seen = {.count = 0, .stop_after = 1};
    expect_failure(gdpa_cache_list(ctx, entry_see, &seen), GDPA_E_CACHE, "cannot be used: ");
    gdpa_ctx_destroy(ctx);
    scratch_remove(folder);
}

static void bad_calls_are_refused(void **state)
{
    (void)state;
    char *folder = scratch_make();
    const gdpa_ctx_options options = runtime_options(folder);
    gdpa_ctx *ctx = runtime_context(&options);
    gdpa_cache_summary summary = {.size = 4};
    expect_failure(gdpa_cache_list(NULL, entry_see, NULL), GDPA_E_ARGUMENT, "ctx is NULL");
    expect_failure(gdpa_cache_list(ctx, NULL, NULL), GDPA_E_ARGUMENT, "visit is NULL");
    expect_failure(gdpa_cache_describe(ctx, NULL), GDPA_E_ARGUMENT, "summary is NULL");
    expect_failure(gdpa_cache_describe(NULL, &summary), GDPA_E_ARGUMENT, "ctx is NULL");
    expect_failure(gdpa_cache_describe(ctx, &summary), GDPA_E_VERSION, "gdpa_cache_summary.size is 4");
    expect_failure(gdpa_cache_remove(ctx, "xyz", NULL), GDPA_E_ARGUMENT, "key \"xyz\" is not a cache key");
    gdpa_ctx_destroy(ctx);
    scratch_remove(folder);
}

#define TEST(name) cmocka_unit_test_setup(name, fakes_reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(entries_are_listed_described_and_removed),
        TEST(artifacts_of_entries_are_found_by_any_unique_prefix),
        TEST(cleaning_up_brings_the_cache_below_the_limit),
        TEST(without_a_cache_the_reason_is_given),
        TEST(a_folder_that_cannot_be_used_is_an_error_of_these_calls),
        TEST(bad_calls_are_refused),
    };
    return cmocka_run_group_tests(tests, fakes_load, NULL);
}
