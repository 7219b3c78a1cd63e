/*
 * What can be wrong with a cache, seen by a program: whatever it is, the kernel is there, runs, and is the right one; at
 * most one warning says what was found. Each fault is met twice: before the cache is opened, and while it is open.
 *
 * The store alone, with many more faults, is in tests/cache.
 */
#include "runtime/context.h"
#include "runtime/elf.h"
#include "runtime/kernel.h"
#include "tests/support/cache_fixture.h"
#include "tests/support/cubin_maker.h"
#include "tests/support/runtime_fixture.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define SPEC "fwd head_dim=64 activation=relu arch=sm_90a family=portable"
#define OTHER "fwd head_dim=64 activation=square arch=sm_90a family=portable"

struct scene {
    char *folder;
    char file[4400];
    struct cache_key key, other; /* of SPEC and OTHER */
};

static struct captured_log lines;

static gdpa_ctx *context_on(const char *folder)
{
    gdpa_ctx_options options = runtime_options(folder);
    options.log = captured_log_line;
    options.log_user = &lines;
    options.log_level = GDPA_LOG_WARN;
    return runtime_context(&options);
}

/* The kernel, which must be the one asked for; "disk" or "compiled". */
static const char *origin_of(gdpa_ctx *ctx, const char *text, struct cache_key *key)
{
    gdpa_kernel *kernel = NULL;
    const gdpa_spec spec = runtime_spec(text);
    expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
    gdpa_kernel_info info = {.size = sizeof info};
    expect_ok(gdpa_kernel_info_get(kernel, &info));
    const struct cubin_expectation expected = {.arch = 90, .target = "sm_90a", .entry = info.name};
    assert_int_equal(cubin_check(kernel->code, kernel->code_size, &expected, NULL), GDPA_OK);
    if (key != NULL) {
        *key = kernel->disk_key;
    }
    gdpa_kernel_release(kernel);
    return strcmp(info.origin, "disk") == 0 ? "disk" : "compiled";
}

static int64_t sql_run(const struct scene *scene, const char *sql)
{
    struct fixture fixture;
    assert_true(strlen(scene->file) < sizeof fixture.file);
    strcpy(fixture.file, scene->file);
    return fixture_sql(&fixture, sql);
}

static struct scene scene_make(void)
{
    struct scene scene = {.folder = scratch_make()};
    snprintf(scene.file, sizeof scene.file, "%s/%s", scene.folder, CACHE_FILE_NAME);
    gdpa_ctx *ctx = context_on(scene.folder);
    assert_string_equal(origin_of(ctx, SPEC, &scene.key), "compiled");
    assert_string_equal(origin_of(ctx, OTHER, &scene.other), "compiled");
    gdpa_ctx_destroy(ctx);
    return scene;
}

/* ---- Faults ---------------------------------------------------------------------------------------------------------- */

static void nothing_wrong(const struct scene *scene)
{
    (void)scene;
}

static void header_zeroed(const struct scene *scene)
{
    size_t size;
    unsigned char *bytes = file_read(scene->file, &size);
    memset(bytes, 0, 100);
    file_write(scene->file, bytes, size);
    free(bytes);
}

static void a_text_file(const struct scene *scene)
{
    static const char text[] = "this is not a database, whatever its name says; it is a text of more than one hundred "
                               "characters, as long as a header\n";
    file_write(scene->file, text, sizeof text - 1);
}

static void cut_to_half(const struct scene *scene)
{
    struct stat status;
    assert_int_equal(stat(scene->file, &status), 0);
    assert_int_equal(truncate(scene->file, status.st_size / 2 / 8192 * 8192), 0);
}

static void cut_to_nothing(const struct scene *scene)
{
    assert_int_equal(truncate(scene->file, 0), 0);
}

static void removed(const struct scene *scene)
{
    assert_int_equal(unlink(scene->file), 0);
}

static void replaced_by_an_empty_one(const struct scene *scene)
{
    removed(scene);
    file_write(scene->file, "", 0);
    assert_int_equal(chmod(scene->file, 0600), 0);
}

static void of_a_newer_version(const struct scene *scene)
{
    (void)sql_run(scene, "PRAGMA user_version = 2; UPDATE meta SET value = 2 WHERE name = 'schema'");
}

static void open_to_everyone(const struct scene *scene)
{
    assert_int_equal(chmod(scene->folder, 0777), 0);
}

static void file_open_to_everyone(const struct scene *scene)
{
    assert_int_equal(chmod(scene->file, 0666), 0);
}

static void a_flipped_bit(const struct scene *scene)
{
    (void)sql_run(scene,
                  "UPDATE code SET data = CAST(substr(data, 1, 99) || CASE substr(data, 100, 1) WHEN x'00' THEN x'01' "
                  "ELSE x'00' END || substr(data, 101) AS BLOB)");
}

static void cut_code_of_the_size_it_says(const struct scene *scene)
{
    (void)sql_run(scene, "UPDATE code SET data = substr(data, 1, length(data) - 100);"
                         "UPDATE kernel SET code_size = code_size - 100");
}

static void rows_swapped(const struct scene *scene)
{
    (void)sql_run(scene, "UPDATE code SET id = -id; UPDATE code SET id = id + 3 WHERE id < 0");
}

/* An entry that passes all checks of the store, with something else in it. */
static void entry_replace(const struct scene *scene, const struct cubin_recipe *recipe, size_t cut, bool forged)
{
    struct cache_entry entry, other;
    const struct cache_options options = {.dir = scene->folder};
    struct cache *cache = cache_open(&options);
    assert_int_equal(cache_get(cache, &scene->key, NULL, 0, true, &entry), CACHE_OK);
    assert_int_equal(cache_get(cache, &scene->other, NULL, 0, true, &other), CACHE_OK);
    struct cache_entry spoilt = entry;
    struct cubin_recipe own = *recipe;
    size_t size = 0;
    own.entry = recipe->entry != NULL ? recipe->entry : entry.name;
    unsigned char *code = cubin_make(&own, &size);
    spoilt.code = (struct cache_bytes){code, size - cut};
    if (forged) {
        spoilt.material = other.material;
        spoilt.code = other.code;
    }
    assert_int_equal(cache_remove(cache, &scene->key, NULL), CACHE_OK);
    assert_int_equal(cache_put(cache, &spoilt), CACHE_OK);
    cache_entry_deinit(&entry);
    cache_entry_deinit(&other);
    cache_close(cache);
    free(code);
}

static void code_of_another_generation(const struct scene *scene)
{
    entry_replace(scene, &(struct cubin_recipe){.target = "sm_80", .abi = 8, .text_size = 64}, 0, false);
}

static void code_without_the_suffix(const struct scene *scene)
{
    entry_replace(scene, &(struct cubin_recipe){.target = "sm_90", .abi = 8, .text_size = 64}, 0, false);
}

static void code_of_another_kernel(const struct scene *scene)
{
    entry_replace(scene, &(struct cubin_recipe){.entry = "other", .target = "sm_90a", .abi = 8, .text_size = 64}, 0,
                  false);
}

static void cut_code_with_the_right_hash(const struct scene *scene)
{
    entry_replace(scene, &(struct cubin_recipe){.target = "sm_90a", .abi = 8, .text_size = 64}, 60, false);
}

static void a_forged_collision(const struct scene *scene)
{
    entry_replace(scene, &(struct cubin_recipe){.target = "sm_90a", .abi = 8, .text_size = 64}, 0, true);
}

static void clock_in_the_past_and_in_the_future(const struct scene *scene)
{
    struct timespec times[2] = {{0, 0}, {4000000000L, 0}};
    assert_int_equal(utimensat(AT_FDCWD, scene->file, times, 0), 0);
}

/* ---- What is then ---------------------------------------------------------------------------------------------------- */

static const struct fault {
    void (*inject)(const struct scene *scene);
    const char *text;   /* of the warning; NULL: nothing is said */
    uint64_t bad;       /* entries counted as bad */
    const char *origin; /* of SPEC then */
    const char *next;   /* and in the next process */
    bool open_misses;   /* while the cache is open it is noticed at a miss only: SPEC itself still comes from it */
} faults[] = {
    {nothing_wrong, NULL, 0, "disk", "disk", true},
    {clock_in_the_past_and_in_the_future, NULL, 0, "disk", "disk", true},
    {header_zeroed, "set aside as", 0, "compiled", "disk", false},
    {a_text_file, "set aside as", 0, "compiled", "disk", false},
    {cut_to_half, "set aside as", 0, "compiled", "disk", false},
    {cut_to_nothing, NULL, 0, "compiled", "disk", false},
    {removed, NULL, 0, "compiled", "disk", true},
    {replaced_by_an_empty_one, NULL, 0, "compiled", "disk", true},
    {of_a_newer_version, "it is left as it is", 0, "compiled", "compiled", true},
    {open_to_everyone, "so that others can write it; run: chmod go-w", 0, "compiled", "compiled", true},
    {file_open_to_everyone, "so that others can write it; run: chmod go-w", 0, "compiled", "compiled", true},
    {a_flipped_bit, "its code was changed", 1, "compiled", "disk", false},
    {cut_code_of_the_size_it_says, "its row was changed", 1, "compiled", "disk", false},
    {rows_swapped, "its code was changed", 1, "compiled", "disk", false},
    {code_of_another_generation, "code for compute capability 8.0, expected 9.0", 1, "compiled", "disk", false},
    {code_without_the_suffix, "its tool note does not name the target sm_90a", 1, "compiled", "disk", false},
    {code_of_another_kernel, "is not used and removed", 1, "compiled", "disk", false},
    {cut_code_with_the_right_hash, "is not used and removed", 1, "compiled", "disk", false},
    {a_forged_collision, "its key material is that of another kernel", 1, "compiled", "disk", false},
};

static void log_expect(const char *what, size_t number, const char *text)
{
    if (lines.lines > 1 || (lines.lines == 1) != (text != NULL)) {
        fail_msg("fault %zu, %s: %d lines:\n%s", number, what, lines.lines, lines.text);
    }
    if (text != NULL) {
        expect_text(lines.text, text);
    }
}

static void every_fault_found_at_the_start_costs_a_compile_and_a_line_at_most(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(faults); i++) {
        const struct fault *fault = &faults[i];
        struct scene scene = scene_make();
        gdpa_stats stats = {.size = sizeof stats};
        fault->inject(&scene);
        captured_log_init(&lines);
        gdpa_ctx *ctx = context_on(scene.folder);
        const char *origin = origin_of(ctx, SPEC, NULL);
        expect_ok(gdpa_ctx_stats(ctx, &stats));
        if (strcmp(origin, fault->origin) != 0 || stats.bad_entries != fault->bad) {
            fail_msg("fault %zu: %s, %d bad:\n%s", i, origin, (int)stats.bad_entries, lines.text);
        }
        log_expect("at the start", i, fault->text);
        gdpa_ctx_destroy(ctx);
        ctx = context_on(scene.folder);
        assert_string_equal(origin_of(ctx, SPEC, NULL), fault->next);
        gdpa_ctx_destroy(ctx);
        scratch_remove(scene.folder);
    }
}

static void every_fault_that_comes_while_the_cache_is_open_costs_no_more(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(faults); i++) {
        const struct fault *fault = &faults[i];
        struct scene scene = scene_make();
        captured_log_init(&lines);
        gdpa_ctx *ctx = context_on(scene.folder);
        assert_string_equal(origin_of(ctx, OTHER, NULL), "disk");
        fault->inject(&scene);
        const char *origin = origin_of(ctx, SPEC, NULL);
        assert_true(fault->open_misses || strcmp(origin, fault->origin) == 0 || strcmp(origin, "disk") == 0);
        (void)origin_of(ctx, "fwd head_dim=32 activation=relu arch=sm_90a family=portable", NULL); /* a miss */
        (void)origin_of(ctx, "fwd head_dim=96 activation=relu arch=sm_90a family=portable", NULL);
        if (lines.lines > 2) {
            fail_msg("fault %zu: %d lines:\n%s", i, lines.lines, lines.text);
        }
        gdpa_ctx_destroy(ctx);
        (void)chmod(scene.folder, 0700);
        ctx = context_on(scene.folder);
        (void)origin_of(ctx, SPEC, NULL);
        gdpa_ctx_destroy(ctx);
        scratch_remove(scene.folder);
    }
}

/* ---- Many kernels ---------------------------------------------------------------------------------------------------- */

static long resident_kib(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

/*
 * A kernel in memory is its code, its names and a plan: some 6 KiB and the code (docs/cache.md), which is 1 KiB here.
 */
static void thousands_of_kernels_take_bounded_memory_and_disk(void **state)
{
    (void)state;
    static const char *const activations[] = {"relu", "square", "identity"};
    const int64_t limit = 3000000;
    char *folder = scratch_make();
    gdpa_ctx_options options = runtime_options(folder);
    options.cache_limit_bytes = limit;
    gdpa_ctx *ctx = runtime_context(&options);
    const int count = INSTRUMENTED ? 150 : 1500;
    long first = 0;
    int made = 0;
    for (int dim = 8; dim <= 256 && made < count; dim += 8) {
        for (int window = 1; window <= 48 && made < count; window++) {
            char text[160];
            gdpa_kernel *kernel = NULL;
            snprintf(text, sizeof text, "fwd head_dim=%d activation=%s window_left=%d arch=sm_80", dim,
                     activations[window % 3], window);
            const gdpa_spec spec = runtime_spec(text);
            expect_ok(gdpa_kernel_get(ctx, &spec, &kernel));
            gdpa_kernel_release(kernel);
            first = ++made == count / 10 ? resident_kib() : first;
        }
    }
    const long grown = resident_kib() - first;
    gdpa_cache_summary summary = {.size = sizeof summary};
    gdpa_stats stats = {.size = sizeof stats};
    expect_ok(gdpa_cache_describe(ctx, &summary));
    expect_ok(gdpa_ctx_stats(ctx, &stats));
    print_message(
        "# %d kernels, %d compiles: %ld KiB more memory after the first tenth, %lld bytes of cache, %d evicted\n", made,
        (int)stats.compiles, grown, (long long)summary.bytes, (int)stats.evictions);
    assert_true(made == count);
    assert_true(summary.bytes <= limit);
    if (!INSTRUMENTED) {
        assert_true(stats.evictions > 0);
        assert_true(grown < 18L * count);
    }
    gdpa_ctx_destroy(ctx);
    struct stat status;
    char file[4400];
    snprintf(file, sizeof file, "%s/%s", folder, CACHE_FILE_NAME);
    assert_int_equal(stat(file, &status), 0);
    assert_true(status.st_size <= limit + (1 << 20));
    scratch_remove(folder);
}

#define TEST(name) cmocka_unit_test_setup(name, fakes_reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_fault_found_at_the_start_costs_a_compile_and_a_line_at_most),
        TEST(every_fault_that_comes_while_the_cache_is_open_costs_no_more),
        TEST(thousands_of_kernels_take_bounded_memory_and_disk),
    };
    return cmocka_run_group_tests(tests, fakes_load, NULL);
}
