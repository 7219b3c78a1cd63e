/*
 * Packs: written, found before the cache, refused when others could have changed them, never an error of a computation.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* chown */
#endif
#include "runtime/kernel.h"
#include "tests/support/runtime_fixture.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const texts[] = {"fwd head_dim=64 activation=relu arch=sm_80",
                                    "fwd head_dim=64 activation=silu arch=sm_80",
                                    "fwd head_dim=96 activation=relu arch=sm_90a"};
enum { TEXTS = sizeof texts / sizeof texts[0] };

struct place {
    char *folder;
    char cache[4200], other[4200], pack[4200];
};

static struct place place_make(void)
{
    struct place place = {.folder = scratch_make()};
    snprintf(place.cache, sizeof place.cache, "%s/cache", place.folder);
    snprintf(place.other, sizeof place.other, "%s/other", place.folder);
    snprintf(place.pack, sizeof place.pack, "%s/fleet.pack", place.folder);
    return place;
}

static gdpa_kernel *get(gdpa_ctx *ctx, const char *text)
{
    gdpa_kernel *kernel = NULL;
    const gdpa_spec spec = runtime_spec(text);
    expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
    return kernel;
}

/* A cache with all texts, packed. */
static gdpa_pack_report pack_made(const struct place *place, bool code_only)
{
    const gdpa_ctx_options options = runtime_options(place->cache);
    gdpa_ctx *ctx = runtime_context(&options);
    gdpa_pack_report report = {.size = sizeof report};
    for (int i = 0; i < TEXTS; i++) {
        gdpa_kernel_release(get(ctx, texts[i]));
    }
    expect_ok(gdpa_pack_write(ctx, place->pack, NULL, 0, code_only, &report));
    gdpa_ctx_destroy(ctx);
    return report;
}

static gdpa_ctx *context_with_packs(const char *cache, const char *packs, struct captured_log *log)
{
    gdpa_ctx_options options = runtime_options(cache);
    options.packs = packs;
    options.mode = GDPA_MODE_AUTO;
    if (log != NULL) {
        captured_log_init(log);
        options.log = captured_log_line;
        options.log_user = log;
    }
    return runtime_context(&options);
}

static void expect_hits(gdpa_ctx *ctx, uint64_t hits, uint64_t compiles)
{
    gdpa_stats stats = {.size = sizeof stats};
    for (int i = 0; i < TEXTS; i++) {
        gdpa_kernel_release(get(ctx, texts[i]));
    }
    expect_ok(gdpa_ctx_stats(ctx, &stats));
    assert_int_equal(stats.disk_hits, hits);
    assert_int_equal(stats.compiles, compiles);
}

static int files_in(const char *folder)
{
    int count = 0;
    DIR *directory = opendir(folder);
    for (struct dirent *entry = NULL; directory != NULL && (entry = readdir(directory)) != NULL;) {
        count += entry->d_name[0] != '.';
    }
    if (directory != NULL) {
        closedir(directory);
    }
    return count;
}

static void a_pack_is_one_file_that_serves_an_empty_cache(void **state)
{
    (void)state;
    struct place place = place_make();
    const gdpa_pack_report report = pack_made(&place, false);
    struct stat status;
    assert_int_equal(report.entries, TEXTS);
    assert_int_equal(report.bad, 0);
    assert_int_equal(strlen(report.sha256), 64);
    assert_int_equal(stat(place.pack, &status), 0);
    assert_int_equal(status.st_size, report.bytes);
    assert_int_equal(status.st_mode & 022, 0);
    assert_int_equal(files_in(place.folder), 2); /* the cache and the pack, nothing temporary */
    gdpa_ctx *ctx = context_with_packs(place.other, place.pack, NULL);
    expect_hits(ctx, TEXTS, 0);
    gdpa_kernel *kernel = get(ctx, texts[0]);
    char text[64];
    size_t length = 0;
    expect_failure(gdpa_kernel_artifact(kernel, GDPA_ARTIFACT_SOURCE, text, sizeof text, &length), GDPA_E_BUFFER, "");
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx);
    ctx = context_with_packs(place.other, place.folder, NULL); /* by folder */
    expect_hits(ctx, TEXTS, 0);
    gdpa_ctx_destroy(ctx);
    scratch_remove(place.folder);
}

static void a_pack_without_sources_is_smaller(void **state)
{
    (void)state;
    struct place place = place_make();
    const gdpa_pack_report whole = pack_made(&place, false);
    const gdpa_pack_report code = pack_made(&place, true);
    assert_true(code.bytes < whole.bytes);
    gdpa_ctx *ctx = context_with_packs(place.other, place.pack, NULL);
    expect_hits(ctx, TEXTS, 0);
    gdpa_ctx_destroy(ctx);
    scratch_remove(place.folder);
}

static void a_pack_serves_strict_read_only_and_without_nvrtc(void **state)
{
    (void)state;
    struct place place = place_make();
    pack_made(&place, false);
    gdpa_ctx_options options = runtime_options(place.other);
    options.packs = place.pack;
    options.mode = GDPA_MODE_STRICT;
    options.nvrtc_path = "/nowhere/libnvrtc.so";
    gdpa_ctx *ctx = runtime_context(&options);
    expect_hits(ctx, TEXTS, 0);
    const gdpa_spec spec = runtime_spec("fwd head_dim=64 activation=gelu arch=sm_80");
    gdpa_kernel *kernel = NULL;
    expect_failure(gdpa_kernel_get(ctx, &spec, &kernel), GDPA_E_NOT_READY, "gdpa-jit warm");
    gdpa_ctx_destroy(ctx);
    scratch_remove(place.folder);
}

static void the_code_of_a_pack_is_used_whichever_nvrtc_made_it(void **state)
{
    (void)state;
    struct place place = place_make();
    pack_made(&place, false);
    fake_nvrtc_control->version(13, 1);
    gdpa_ctx *ctx = context_with_packs(place.other, place.pack, NULL);
    expect_hits(ctx, TEXTS, 0);
    gdpa_ctx_destroy(ctx);
    ctx = context_with_packs(place.other, NULL, NULL); /* but that of the cache is not */
    expect_hits(ctx, 0, TEXTS);
    gdpa_ctx_destroy(ctx);
    scratch_remove(place.folder);
}

static void mode_off_looks_into_no_pack(void **state)
{
    (void)state;
    struct place place = place_make();
    pack_made(&place, false);
    gdpa_ctx_options options = runtime_options(NULL);
    options.packs = place.pack;
    gdpa_ctx *ctx = runtime_context(&options);
    expect_hits(ctx, 0, TEXTS);
    gdpa_ctx_destroy(ctx);
    scratch_remove(place.folder);
}

static void expect_unused(const struct place *place, const char *packs, const char *why)
{
    static struct captured_log log;
    char fresh[4300];
    static int number;
    snprintf(fresh, sizeof fresh, "%s/fresh%d", place->folder, number++);
    gdpa_ctx *ctx = context_with_packs(fresh, packs, &log);
    expect_hits(ctx, 0, TEXTS);
    expect_text(log.text, why);
    gdpa_ctx_destroy(ctx);
}

static void a_pack_that_cannot_be_used_is_a_warning(void **state)
{
    (void)state;
    struct place place = place_make();
    char name[4400];
    const gdpa_pack_report report = pack_made(&place, false);
    expect_unused(&place, "/nowhere/at/all.pack", "cannot open it: No such file");
    expect_unused(&place, "/dev/null", "it is not a regular file");
    snprintf(name, sizeof name, "%s@sha256:12", place.pack);
    expect_unused(&place, name, "it must be 64 hex digits");
    snprintf(name, sizeof name, "%s@sha256:%064d", place.pack, 0);
    expect_unused(&place, name, "it is another file, or was changed");
    chmod(place.pack, 0666);
    expect_unused(&place, place.pack, "others may write it (mode 666): chmod go-w ");
    snprintf(name, sizeof name, "%s@sha256:%s", place.pack, report.sha256); /* the hash says that it is the right one */
    gdpa_ctx *ctx = context_with_packs(place.other, name, NULL);
    expect_hits(ctx, TEXTS, 0);
    gdpa_ctx_destroy(ctx);
    chmod(place.pack, 0644);
    if (geteuid() == 0 && chown(place.pack, 12345, (gid_t)-1) == 0) {
        expect_unused(&place, place.pack, "it belongs to user 12345, neither to root nor to this one");
        gdpa_ctx *trusting = context_with_packs(place.other, name, NULL);
        expect_hits(trusting, TEXTS, 0);
        gdpa_ctx_destroy(trusting);
    }
    scratch_remove(place.folder);
}

static void bytes_write(const char *path, long at, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, at, SEEK_SET);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

static void a_damaged_pack_gives_no_wrong_kernel(void **state)
{
    (void)state;
    struct place place = place_make();
    const gdpa_pack_report report = pack_made(&place, true);
    gdpa_pack_report checked = {.size = sizeof checked};
    /* Somewhere in every page, in turn: whatever comes of it, kernels come out right. */
    for (long at = 100; at < report.bytes; at += 4096) {
        char fresh[4300];
        pack_made(&place, true);
        bytes_write(place.pack, at, "\xa5\x5a\xa5\x5a\xa5\x5a\xa5\x5a", 8);
        snprintf(fresh, sizeof fresh, "%s/damaged%ld", place.folder, at);
        gdpa_ctx *ctx = context_with_packs(fresh, place.pack, NULL);
        for (int i = 0; i < TEXTS; i++) {
            gdpa_kernel *kernel = get(ctx, texts[i]);
            gdpa_kernel_info info = {.size = sizeof info};
            expect_ok(gdpa_kernel_info_get(kernel, &info));
            expect_ok(gdpa_kernel_artifact(kernel, GDPA_ARTIFACT_CUBIN, NULL, 0, NULL) == GDPA_E_BUFFER
                          ? GDPA_OK
                          : GDPA_E_INTERNAL);
            gdpa_kernel_release(kernel);
        }
        gdpa_ctx_destroy(ctx);
    }
    assert_int_equal(truncate(place.pack, report.bytes / 2), 0);
    gdpa_ctx *ctx = context_with_packs(place.other, place.pack, NULL);
    expect_hits(ctx, 0, TEXTS);
    assert_true(gdpa_pack_read(ctx, place.pack, 0, &checked) == GDPA_E_CACHE || checked.entries < TEXTS);
    gdpa_ctx_destroy(ctx);
    scratch_remove(place.folder);
}

static void packs_are_unpacked_and_compared(void **state)
{
    (void)state;
    struct place place = place_make();
    pack_made(&place, false);
    gdpa_ctx *ctx = context_with_packs(place.other, NULL, NULL);
    gdpa_pack_report report = {.size = sizeof report};
    expect_ok(gdpa_pack_read(ctx, place.pack, 0, &report));
    assert_int_equal(report.entries, TEXTS);
    assert_int_equal(report.present + report.stored, 0);
    expect_ok(gdpa_pack_read(ctx, place.pack, 1, &report));
    assert_int_equal(report.stored, TEXTS);
    expect_ok(gdpa_pack_read(ctx, place.pack, 1, &report));
    assert_int_equal(report.present, TEXTS);
    assert_int_equal(report.different, 0);
    expect_hits(ctx, TEXTS, 0);
    expect_failure(gdpa_pack_read(ctx, "/nowhere.pack", 1, NULL), GDPA_E_CACHE, "cannot open it");
    expect_failure(gdpa_pack_read(ctx, "x@sha256:1", 1, NULL), GDPA_E_ARGUMENT, "64 hex digits");
    gdpa_ctx_destroy(ctx);
    scratch_remove(place.folder);
}

static void the_pack_wins_where_it_disagrees_with_the_cache_and_that_is_reported(void **state)
{
    (void)state;
    struct place place = place_make();
    pack_made(&place, false);
    fake_nvrtc_control->seed(7); /* another code under the same key */
    gdpa_ctx *ctx = context_with_packs(place.other, NULL, NULL);
    expect_hits(ctx, 0, TEXTS);
    gdpa_pack_report report = {.size = sizeof report};
    expect_ok(gdpa_pack_read(ctx, place.pack, 1, &report));
    assert_int_equal(report.present, TEXTS);
    assert_int_equal(report.different, TEXTS);
    assert_int_equal(report.stored, 0);
    gdpa_ctx_destroy(ctx);
    ctx = context_with_packs(place.other, place.pack, NULL);
    expect_hits(ctx, TEXTS, 0);
    gdpa_kernel *kernel = get(ctx, texts[0]);
    unsigned char ours[1 << 16], first[1 << 16];
    size_t size = 0, first_size = 0;
    expect_ok(gdpa_kernel_artifact(kernel, GDPA_ARTIFACT_CUBIN, ours, sizeof ours, &size));
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx);
    ctx = context_with_packs(place.cache, NULL, NULL);
    kernel = get(ctx, texts[0]);
    expect_ok(gdpa_kernel_artifact(kernel, GDPA_ARTIFACT_CUBIN, first, sizeof first, &first_size));
    assert_int_equal(size, first_size);
    assert_memory_equal(ours, first, size);
    gdpa_kernel_release(kernel);
    gdpa_ctx_destroy(ctx);
    scratch_remove(place.folder);
}

static void a_pack_that_is_replaced_is_opened_anew(void **state)
{
    (void)state;
    struct place place = place_make();
    pack_made(&place, false);
    gdpa_ctx *ctx = context_with_packs(place.other, place.pack, NULL);
    gdpa_kernel_release(get(ctx, texts[0]));
    gdpa_ctx *maker = context_with_packs(place.cache, NULL, NULL);
    gdpa_kernel_release(get(maker, "fwd head_dim=64 activation=gelu arch=sm_80"));
    expect_ok(gdpa_pack_write(maker, place.pack, NULL, 0, 0, NULL));
    gdpa_ctx_destroy(maker);
    gdpa_kernel_release(get(ctx, "fwd head_dim=64 activation=gelu arch=sm_80"));
    gdpa_stats stats = {.size = sizeof stats};
    expect_ok(gdpa_ctx_stats(ctx, &stats));
    assert_int_equal(stats.compiles, 0);
    gdpa_ctx_destroy(ctx);
    scratch_remove(place.folder);
}

static void what_cannot_be_packed_is_refused_and_leaves_nothing(void **state)
{
    (void)state;
    static const char *const keys[] = {"00000000000000000000000000000000"}, *const bad_keys[] = {"no key"};
    struct place place = place_make();
    const gdpa_ctx_options options = runtime_options(place.cache);
    gdpa_ctx *ctx = runtime_context(&options);
    gdpa_kernel_release(get(ctx, texts[0]));
    expect_failure(gdpa_pack_write(NULL, place.pack, NULL, 0, 0, NULL), GDPA_E_ARGUMENT, "ctx is NULL");
    expect_failure(gdpa_pack_write(ctx, NULL, NULL, 0, 0, NULL), GDPA_E_ARGUMENT, "path is NULL");
    expect_failure(gdpa_pack_read(ctx, NULL, 0, NULL), GDPA_E_ARGUMENT, "path is NULL");
    expect_failure(gdpa_pack_write(ctx, place.pack, keys, 1, 0, NULL), GDPA_E_NOT_FOUND, "no entry 0000");
    expect_failure(gdpa_pack_write(ctx, place.pack, bad_keys, 1, 0, NULL), GDPA_E_ARGUMENT, "32 hex digits");
    expect_failure(gdpa_pack_write(ctx, "/nowhere/at/all.pack", NULL, 0, 0, NULL), GDPA_E_CACHE, "cannot make");
    assert_int_equal(files_in(place.folder), 1);
    gdpa_ctx_destroy(ctx);
    const gdpa_ctx_options off = runtime_options(NULL);
    ctx = runtime_context(&off);
    expect_failure(gdpa_pack_write(ctx, place.pack, NULL, 0, 0, NULL), GDPA_E_CACHE, "the mode is off");
    expect_failure(gdpa_pack_read(ctx, place.pack, 1, NULL), GDPA_E_CACHE, "the mode is off");
    gdpa_ctx_destroy(ctx);
    scratch_remove(place.folder);
}

#define TEST(name) cmocka_unit_test_setup(name, fakes_reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_pack_is_one_file_that_serves_an_empty_cache),
        TEST(a_pack_without_sources_is_smaller),
        TEST(a_pack_serves_strict_read_only_and_without_nvrtc),
        TEST(the_code_of_a_pack_is_used_whichever_nvrtc_made_it),
        TEST(mode_off_looks_into_no_pack),
        TEST(a_pack_that_cannot_be_used_is_a_warning),
        TEST(a_damaged_pack_gives_no_wrong_kernel),
        TEST(packs_are_unpacked_and_compared),
        TEST(the_pack_wins_where_it_disagrees_with_the_cache_and_that_is_reported),
        TEST(a_pack_that_is_replaced_is_opened_anew),
        TEST(what_cannot_be_packed_is_refused_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, fakes_load, NULL);
}
