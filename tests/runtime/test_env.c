/*
 * The environment: what is read, when, and what is said about variables that are none of ours.
 */
#include "runtime/env.h"
#include "tests/support/runtime_fixture.h"

#include <sys/auxv.h>
#include <sys/stat.h>
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

static const gdpa_allocator no_allocator;

static void values_are_copied_once(void **state)
{
    (void)state;
    struct env env;
    const gdpa_allocator allocator = memory_allocator(&no_allocator);
    setenv("GDPAJIT_MODE", "strict", 1);
    setenv("GDPAJIT_NVRTC", "", 1);
    assert_true(env_read(&env, &allocator));
    setenv("GDPAJIT_MODE", "off", 1);
    assert_string_equal(env.values[ENV_MODE], "strict");
    assert_null(env.values[ENV_NVRTC]); /* empty is as good as not set */
    assert_null(env.values[ENV_DUMP]);
    env_deinit(&env, &allocator);
    unsetenv("GDPAJIT_MODE");
    unsetenv("GDPAJIT_NVRTC");
}

static void every_variable_has_a_name_a_default_and_a_line_of_text(void **state)
{
    (void)state;
    for (int i = 0; i < ENV_COUNT; i++) {
        assert_true(strlen(env_rows[i].name) > 3);
        assert_true(strlen(env_rows[i].fallback) > 0);
        assert_true(strlen(env_rows[i].doc) > 0);
        assert_int_equal(i < ENV_OWN_COUNT, strncmp(env_rows[i].name, "GDPAJIT_", 8) == 0);
    }
}

struct unknown {
    int count;
    char nearest[64];
};

static void unknown_seen(const char *name, const char *nearest, void *user)
{
    struct unknown *unknown = user;
    unknown->count++;
    assert_string_equal(name, "GDPAJIT_CACHEDIR");
    assert_non_null(nearest);
    strncpy(unknown->nearest, nearest, sizeof unknown->nearest - 1);
}

static void a_misspelt_variable_is_reported_once_with_the_nearest_name(void **state)
{
    (void)state;
    struct unknown unknown = {0, ""};
    const struct env env = {.ignored = false};
    setenv("GDPAJIT_CACHEDIR", "/x", 1);
    setenv("GDPAJIT_SETUP_SOMETHING", "1", 1); /* for the scripts, not for the library */
    env_report_unknown(&env, unknown_seen, &unknown);
    env_report_unknown(&env, unknown_seen, &unknown);
    assert_int_equal(unknown.count, 1);
    assert_string_equal(unknown.nearest, "GDPAJIT_CACHE_DIR");
    unsetenv("GDPAJIT_CACHEDIR");
    unsetenv("GDPAJIT_SETUP_SOMETHING");
}

static void sizes_have_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes; /* -1: refused */
    } cases[] = {{"0", 0},
                 {"4096", 4096},
                 {"1k", 1024},
                 {"1K", 1024},
                 {"3M", 3 << 20},
                 {"2G", INT64_C(2) << 30},
                 {"1T", INT64_C(1) << 40},
                 {"2GiB", INT64_C(2) << 30},
                 {"5MB", 5 << 20},
                 {"", -1},
                 {"-1", -1},
                 {"x", -1},
                 {"1Q", -1},
                 {"1Mx", -1},
                 {"1 G", -1},
                 {"9000000000000000000000", -1},
                 {"9000000000G", -1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t bytes = -1;
        if (env_parse_size(cases[i].text, &bytes) != (cases[i].bytes >= 0) || bytes != cases[i].bytes) {
            fail_msg("\"%s\" gives %lld", cases[i].text, (long long)bytes);
        }
    }
}

static void seconds_are_plain_numbers_up_to_a_year(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int32_t seconds; /* -1: refused */
    } cases[] = {{"0", 0},   {"120", 120}, {"31622400", 31622400},        {"31622401", -1}, {"", -1}, {"-1", -1},
                 {"1s", -1}, {" 1", -1},   {"9000000000000000000000", -1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int32_t seconds = -1;
        if (env_parse_seconds(cases[i].text, &seconds) != (cases[i].seconds >= 0) || seconds != cases[i].seconds) {
            fail_msg("\"%s\" gives %d", cases[i].text, (int)seconds);
        }
    }
}

/* What the copy of this program does that runs with another group than its caller's: 3 when that raised no privileges. */
static int child_of_other_group(void)
{
    struct env env;
    const gdpa_allocator allocator = memory_allocator(&no_allocator);
    if (getauxval(AT_SECURE) == 0) {
        return 3;
    }
    if (!env_read(&env, &allocator)) {
        return 1;
    }
    const bool ignored = env.ignored && env.values[ENV_MODE] == NULL && env.values[ENV_HOME] == NULL;
    env_deinit(&env, &allocator);
    return ignored ? 0 : 1;
}

static bool copy_file(const char *from, const char *to)
{
    static char bytes[1 << 16];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    size_t count = 0;
    bool good = in != NULL && out != NULL;
    while (good && (count = fread(bytes, 1, sizeof bytes, in)) > 0) {
        good = fwrite(bytes, 1, count, out) == count;
    }
    if (in != NULL) {
        fclose(in);
    }
    return out != NULL && fclose(out) == 0 && good;
}

static void a_process_with_raised_privileges_reads_nothing(void **state)
{
    (void)state;
    enum { OTHER_GROUP = 1 };
    char *folder = scratch_make();
    char copy[4200];
    snprintf(copy, sizeof copy, "%s/copy", folder);
    chmod(folder, 0755);
    const bool ready = getegid() != OTHER_GROUP && copy_file("/proc/self/exe", copy) &&
                       chown(copy, (uid_t)-1, OTHER_GROUP) == 0 && chmod(copy, 02755) == 0;
    int status = 3 << 8;
    if (ready) {
        const pid_t child = fork();
        if (child == 0) {
            setenv("GDPAJIT_MODE", "strict", 1);
            execl(copy, copy, "--child", (char *)NULL);
            _exit(3);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
    }
    scratch_remove(folder);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 3) {
        skip(); /* not root, or a file system that knows no such bit */
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int clear(void **state)
{
    return fakes_load(state);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--child") == 0) {
        return child_of_other_group();
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_with_raised_privileges_reads_nothing),
        cmocka_unit_test(values_are_copied_once),
        cmocka_unit_test(every_variable_has_a_name_a_default_and_a_line_of_text),
        cmocka_unit_test(a_misspelt_variable_is_reported_once_with_the_nearest_name),
        cmocka_unit_test(sizes_have_units),
        cmocka_unit_test(seconds_are_plain_numbers_up_to_a_year),
    };
    return cmocka_run_group_tests(tests, clear, NULL);
}
