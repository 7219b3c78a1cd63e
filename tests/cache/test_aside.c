/*
 * Damaged databases are renamed with their side files, by one of many processes, and only the newest are kept.
 */
#include "tests/support/cache_fixture.h"

#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void open_folder_of(struct fixture *fixture, struct cache_folder *folder)
{
    char why[CACHE_WHY_SIZE];
    if (!cache_folder_open(fixture->dir, true, folder, why)) {
        fail_msg("%s", why);
    }
}

static void write_beside(const struct fixture *fixture, const char *suffix, const char *text)
{
    char path[500];
    (void)snprintf(path, sizeof path, "%s%s", fixture->file, suffix);
    file_write(path, text, strlen(text));
}

static void assert_holds(const struct fixture *fixture, const char *name, const char *suffix, const char *text)
{
    char path[800];
    size_t size;
    (void)snprintf(path, sizeof path, "%s/%s%s", fixture->dir, name, suffix);
    unsigned char *bytes = file_read(path, &size);
    assert_int_equal(size, strlen(text));
    assert_memory_equal(bytes, text, size);
    free(bytes);
}

static void the_database_and_its_side_files_are_renamed(void **state)
{
    struct fixture *fixture = *state;
    struct cache_folder folder;
    struct cache_identity damaged;
    char name[128], why[CACHE_WHY_SIZE], expected[128];
    open_folder_of(fixture, &folder);
    write_beside(fixture, "", "database");
    write_beside(fixture, "-wal", "log");
    write_beside(fixture, "-shm", "index");
    write_beside(fixture, "-journal", "journal");
    assert_true(cache_identity_of(fixture->file, &damaged));
    assert_true(cache_file_set_aside(&folder, &damaged, name, why));
    (void)snprintf(expected, sizeof expected, CACHE_FILE_NAME ".damaged-%ld-0", (long)getpid());
    assert_string_equal(name, expected);
    assert_holds(fixture, name, "", "database");
    assert_holds(fixture, name, "-wal", "log");
    assert_holds(fixture, name, "-shm", "index");
    assert_holds(fixture, name, "-journal", "journal");
    assert_int_equal(count_names(fixture->dir, CACHE_FILE_NAME), 4);
    cache_folder_close(&folder);
}

static void a_file_that_took_the_place_of_the_damaged_one_stays(void **state)
{
    struct fixture *fixture = *state;
    struct cache_folder folder;
    struct cache_identity damaged;
    char name[128] = "x", why[CACHE_WHY_SIZE];
    open_folder_of(fixture, &folder);
    write_beside(fixture, ".old", "damaged");
    write_beside(fixture, "", "good");
    write_beside(fixture, "-wal", "log of the good one");
    char old[500];
    (void)snprintf(old, sizeof old, "%s.old", fixture->file);
    assert_true(cache_identity_of(old, &damaged));
    assert_true(cache_file_set_aside(&folder, &damaged, name, why));
    assert_string_equal(name, "");
    assert_holds(fixture, CACHE_FILE_NAME, "", "good");
    assert_holds(fixture, CACHE_FILE_NAME, "-wal", "log of the good one");
    cache_folder_close(&folder);
}

static void names_are_counted_and_only_the_newest_three_are_kept(void **state)
{
    struct fixture *fixture = *state;
    struct cache_folder folder;
    char name[128], why[CACHE_WHY_SIZE], text[16];
    open_folder_of(fixture, &folder);
    for (int i = 0; i < 6; i++) {
        struct cache_identity damaged;
        (void)snprintf(text, sizeof text, "number %d", i);
        write_beside(fixture, "", text);
        write_beside(fixture, "-wal", text);
        write_beside(fixture, ".damaged-by-hand", "not ours");
        assert_true(cache_identity_of(fixture->file, &damaged));
        cache_aside_forget();
        assert_true(cache_file_set_aside(&folder, &damaged, name, why));
        assert_holds(fixture, name, "", text);
        const struct timespec pause = {0, 20000000}; /* the age of a file has the grain of the kernel's clock */
        (void)nanosleep(&pause, NULL);
    }
    assert_holds(fixture, CACHE_FILE_NAME, ".damaged-by-hand", "not ours");
    assert_int_equal(count_names(fixture->dir, CACHE_FILE_NAME ".damaged-"), 1 + 2 * 3);
    cache_folder_close(&folder);
}

static int set_aside_in_child(struct fixture *fixture)
{
    struct cache_folder folder;
    struct cache_identity damaged;
    char name[128], why[CACHE_WHY_SIZE];
    CHECK(cache_identity_of(fixture->file, &damaged));
    CHECK(cache_folder_open(fixture->dir, true, &folder, why));
    CHECK(!cache_file_set_aside(&folder, &damaged, name, why));
    CHECK(strstr(why, "cannot rename") && strstr(why, fixture->dir));
    CHECK(cache_identity_of(fixture->file, &damaged));
    return 0;
}

static void a_folder_that_cannot_be_written_keeps_the_file_and_says_why(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(mkdir(fixture->dir, 0755), 0);
    write_beside(fixture, "", "database");
    assert_int_equal(chmod(fixture->dir, 0555), 0);
    assert_int_equal(in_child(set_aside_in_child, fixture, true), 0);
}

static void of_many_processes_one_renames(void **state)
{
    struct fixture *fixture = *state;
    struct cache_folder folder;
    struct cache_identity damaged;
    open_folder_of(fixture, &folder);
    write_beside(fixture, "", "damaged");
    assert_true(cache_identity_of(fixture->file, &damaged));
    pid_t children[8];
    for (size_t i = 0; i < COUNT_OF(children); i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            char name[128], why[CACHE_WHY_SIZE];
            bool gone = cache_file_set_aside(&folder, &damaged, name, why);
            /* Whoever renamed it starts a new one, which the others must leave alone. */
            bool made = gone && (name[0] == '\0' || cache_file_create(&folder, CACHE_FILE_NAME, why));
            _exit(made ? name[0] != '\0' : 99);
        }
    }
    int renamed = 0;
    for (size_t i = 0; i < COUNT_OF(children); i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
        renamed += WEXITSTATUS(status);
    }
    assert_int_equal(renamed, 1);
    assert_int_equal(count_names(fixture->dir, CACHE_FILE_NAME ".damaged-"), 1);
    assert_holds(fixture, CACHE_FILE_NAME, "", "");
    cache_folder_close(&folder);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(the_database_and_its_side_files_are_renamed),
        WITH_FIXTURE(a_file_that_took_the_place_of_the_damaged_one_stays),
        WITH_FIXTURE(names_are_counted_and_only_the_newest_three_are_kept),
        WITH_FIXTURE(a_folder_that_cannot_be_written_keeps_the_file_and_says_why),
        WITH_FIXTURE(of_many_processes_one_renames),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
