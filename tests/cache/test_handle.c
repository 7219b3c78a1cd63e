/*
 * The handle: its states, read-only folders and files, files that are removed or replaced while open, forks.
 */
#include "tests/support/cache_file_system.h"
#include "tests/support/cache_fixture.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void fill(struct fixture *fixture, unsigned count)
{
    struct cache *cache = fixture_open(fixture);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(sample_put(cache, i, 5000), CACHE_OK);
    }
    cache_close(cache);
}

/* ---- Refused ----------------------------------------------------------------------------------------------------- */

static void a_refused_folder_gives_one_warning_and_a_reason(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(mkdir(fixture->dir, 0700), 0);
    assert_int_equal(chmod(fixture->dir, 0777), 0);
    struct cache *cache = fixture_open(fixture);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(sample_put(cache, i, 10), CACHE_UNUSABLE);
        assert_int_equal(sample_get(cache, i, 10, NULL), CACHE_UNUSABLE);
    }
    assert_int_equal(fixture->warnings, 1);
    assert_logged(fixture, "chmod go-w");
    assert_non_null(strstr(cache_state(cache), "mode 0777"));
    assert_int_equal(count_names(fixture->dir, "kernels"), 0);
    /* Cured by the remedy that was named, without a new process. */
    assert_int_equal(chmod(fixture->dir, 0755), 0);
    assert_int_equal(sample_put(cache, 1, 10), CACHE_OK);
    assert_string_equal(cache_state(cache), "read-write");
    cache_close(cache);
}

static void states_stay_valid_while_they_change(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(mkdir(fixture->dir, 0700), 0);
    assert_int_equal(chmod(fixture->dir, 0777), 0);
    struct cache *cache = fixture_open(fixture);
    const char *first = cache_state(cache);
    char *copy = strdup(first);
    assert_int_equal(chmod(fixture->dir, 0700), 0);
    assert_int_equal(sample_put(cache, 1, 10), CACHE_OK);
    assert_string_equal(first, copy);
    free(copy);
    cache_close(cache);
}

static void the_folder_given_survives_a_change_of_the_current_folder(void **state)
{
    struct fixture *fixture = *state;
    char before[1000];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(fixture->base), 0);
    struct cache_options options = fixture_options(fixture);
    options.dir = "cache";
    struct cache *cache = cache_open(&options);
    assert_int_equal(chdir("/"), 0);
    assert_string_equal(cache_path(cache), fixture->file);
    assert_int_equal(unlink(fixture->file), 0);
    assert_int_equal(sample_put(cache, 1, 10), CACHE_OK);
    assert_int_equal(access(fixture->file, F_OK), 0);
    cache_close(cache);
    assert_int_equal(chdir(before), 0);
}

/* ---- Read-only ------------------------------------------------------------------------------------------------------ */

static int read_what_is_there(struct fixture *fixture)
{
    struct cache *cache = fixture_open(fixture);
    bool wrong = false;
    CHECK(strncmp(cache_state(cache), "read-only: ", 11) == 0);
    for (unsigned i = 0; i < 5; i++) {
        CHECK(sample_get(cache, i, 5000, &wrong) == CACHE_OK);
        CHECK(!wrong);
        CHECK(sample_get(cache, 100 + i, 5000, &wrong) == CACHE_MISS);
        CHECK(sample_put(cache, 100 + i, 5000) == CACHE_UNUSABLE);
        CHECK(cache_remove(cache, NULL, NULL) == CACHE_UNUSABLE);
    }
    CHECK(fixture->warnings == 1);
    CHECK(strstr(fixture->log, "read-only") && strstr(fixture->log, "kept in memory only"));
    int64_t good, bad;
    CHECK(cache_verify(cache, NULL, NULL, &good, &bad) == CACHE_OK);
    CHECK(good == 5 && bad == 0);
    cache_close(cache);
    return 0;
}

static void a_folder_that_cannot_be_written_is_read(void **state)
{
    struct fixture *fixture = *state;
    fill(fixture, 5);
    assert_int_equal(chmod(fixture->file, 0444), 0);
    assert_int_equal(chmod(fixture->dir, 0555), 0);
    assert_int_equal(in_child(read_what_is_there, fixture, true), 0);
    assert_int_equal(count_names(fixture->dir, "kernels"), 1);
}

static void a_folder_that_cannot_be_written_is_read_with_the_log_in_it(void **state)
{
    struct fixture *fixture = *state;
    struct cache *writer = fixture_open(fixture);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(sample_put(writer, i, 5000), CACHE_OK);
    }
    /* The writer still runs: what it stored is in the log only. */
    assert_int_equal(count_names(fixture->dir, CACHE_FILE_NAME "-wal"), 1);
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < COUNT_OF(suffixes); i++) {
        char path[500];
        (void)snprintf(path, sizeof path, "%s%s", fixture->file, suffixes[i]);
        assert_int_equal(chmod(path, 0644), 0);
    }
    assert_int_equal(chmod(fixture->dir, 0755), 0);
    if (geteuid() == 0) {
        assert_int_equal(in_child(read_what_is_there, fixture, true), 0);
    }
    cache_close(writer);
}

static void a_file_that_cannot_be_written_is_read(void **state)
{
    struct fixture *fixture = *state;
    fill(fixture, 5);
    if (geteuid() == 0) {
        assert_int_equal(chown(fixture->dir, 65534, 65534), 0);
    }
    assert_int_equal(chmod(fixture->file, 0444), 0);
    assert_int_equal(in_child(read_what_is_there, fixture, true), 0);
}

static int find_nothing_to_read(struct fixture *fixture)
{
    struct cache *cache = fixture_open(fixture);
    CHECK(sample_get(cache, 1, 10, NULL) == CACHE_UNUSABLE);
    CHECK(sample_put(cache, 1, 10) == CACHE_UNUSABLE);
    CHECK(fixture->warnings == 1);
    CHECK(strstr(cache_state(cache), "No such file"));
    cache_close(cache);
    return 0;
}

static void a_folder_that_cannot_be_written_and_is_empty_gives_one_warning(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(mkdir(fixture->dir, 0555), 0);
    assert_int_equal(in_child(find_nothing_to_read, fixture, true), 0);
}

/* A reader without locks, in a child with other rights, that waits for the parent to write. */
static int signals[2][2];

static int read_changes_of_another(struct fixture *fixture)
{
    struct cache *cache = fixture_open(fixture);
    bool wrong = false;
    char byte = 0;
    CHECK(cache->database.immutable);
    CHECK(sample_get(cache, 1, 5000, &wrong) == CACHE_OK);
    CHECK(sample_get(cache, 7, 5000, &wrong) == CACHE_MISS);
    CHECK(write(signals[0][1], &byte, 1) == 1);
    CHECK(read(signals[1][0], &byte, 1) == 1);
    CHECK(sample_get(cache, 7, 5000, &wrong) == CACHE_OK);
    CHECK(sample_get(cache, 1, 5000, &wrong) == CACHE_OK);
    CHECK(!wrong);
    cache_close(cache);
    return 0;
}

static void a_reader_without_locks_notices_changes_at_its_next_miss(void **state)
{
    struct fixture *fixture = *state;
    if (geteuid() != 0) {
        skip(); /* needs one user that may write and one that may not */
    }
    fill(fixture, 5);
    assert_int_equal(chmod(fixture->file, 0644), 0);
    assert_int_equal(chmod(fixture->dir, 0755), 0);
    assert_true(pipe(signals[0]) == 0 && pipe(signals[1]) == 0);
    pid_t writer = fork();
    assert_true(writer >= 0);
    if (writer == 0) {
        char byte;
        bool ready = read(signals[0][0], &byte, 1) == 1;
        fill(fixture, 10);
        _exit(ready && write(signals[1][1], &byte, 1) == 1 ? 0 : 1);
    }
    assert_int_equal(in_child(read_changes_of_another, fixture, true), 0);
    int status;
    assert_int_equal(waitpid(writer, &status, 0), writer);
    assert_int_equal(status, 0);
    for (int i = 0; i < 4; i++) {
        (void)close(signals[i / 2][i % 2]);
    }
}

static void read_only_by_choice_never_writes(void **state)
{
    struct fixture *fixture = *state;
    struct cache_options options = fixture_options(fixture);
    options.read_only = true;
    struct cache *cache = cache_open(&options);
    assert_int_equal(sample_get(cache, 1, 5000, NULL), CACHE_UNUSABLE);
    assert_int_equal(access(fixture->dir, F_OK), -1);
    assert_int_equal(fixture->warnings, 1);
    fill(fixture, 3);
    fixture_forget_log(fixture);
    /* What appears later is found. */
    assert_int_equal(sample_get(cache, 1, 5000, NULL), CACHE_OK);
    assert_string_equal(cache_state(cache), "read-only");
    assert_int_equal(sample_put(cache, 9, 5000), CACHE_UNUSABLE);
    assert_int_equal(sample_get(cache, 9, 5000, NULL), CACHE_MISS);
    assert_int_equal(fixture->warnings, 0);
    cache_close(cache);
    assert_int_equal(fixture_sql(fixture, "SELECT sum(hits) FROM use"), 0);
    assert_int_equal(fixture_sql(fixture, "SELECT count(*) FROM kernel"), 3);
}

/* ---- Removed and replaced -------------------------------------------------------------------------------------------- */

static void a_file_that_is_removed_while_open_is_made_anew(void **state)
{
    struct fixture *fixture = *state;
    for (int folder_too = 0; folder_too < 2; folder_too++) {
        struct cache *cache = fixture_open(fixture);
        assert_int_equal(sample_put(cache, 1, 5000), CACHE_OK);
        char command[900];
        (void)snprintf(command, sizeof command, folder_too ? "rm -r '%s'" : "rm '%s'",
                       folder_too ? fixture->dir : fixture->file);
        assert_int_equal(system(command), 0);
        /* Still open: hits go on, the next miss notices. */
        assert_int_equal(sample_get(cache, 1, 5000, NULL), CACHE_OK);
        assert_int_equal(sample_get(cache, 2, 5000, NULL), CACHE_MISS);
        assert_int_equal(access(fixture->file, F_OK), 0);
        assert_int_equal(sample_get(cache, 1, 5000, NULL), CACHE_MISS);
        assert_int_equal(sample_put(cache, 2, 5000), CACHE_OK);
        assert_int_equal(sample_get(cache, 2, 5000, NULL), CACHE_OK);
        assert_string_equal(cache_state(cache), "read-write");
        cache_close(cache);
        assert_int_equal(fixture_sql(fixture, "SELECT count(*) FROM kernel"), 1);
        assert_logged(fixture, "removed by another process");
        assert_int_equal(cache_bad_entries(cache = fixture_open(fixture)), 0);
        assert_int_equal(cache_remove(cache, NULL, NULL), CACHE_OK);
        cache_close(cache);
        fixture_forget_log(fixture);
    }
}

static void what_is_stored_after_a_removal_goes_into_the_new_file(void **state)
{
    struct fixture *fixture = *state;
    struct cache *cache = fixture_open(fixture);
    assert_int_equal(sample_put(cache, 1, 5000), CACHE_OK);
    assert_int_equal(unlink(fixture->file), 0);
    assert_int_equal(sample_put(cache, 2, 5000), CACHE_OK);
    cache_close(cache);
    assert_int_equal(fixture_sql(fixture, "SELECT count(*) FROM kernel"), 1);
}

static void a_file_that_is_replaced_while_open_is_opened_at_the_next_miss(void **state)
{
    struct fixture *fixture = *state;
    char kept[500], wal[500];
    fill(fixture, 3);
    (void)snprintf(kept, sizeof kept, "%s.kept", fixture->file);
    (void)snprintf(wal, sizeof wal, "%s-wal", fixture->file);
    assert_int_equal(rename(fixture->file, kept), 0);
    struct cache *cache = fixture_open(fixture);
    assert_int_equal(sample_put(cache, 50, 5000), CACHE_OK);
    assert_int_equal(unlink(wal), 0);
    assert_int_equal(rename(kept, fixture->file), 0);
    assert_int_equal(sample_get(cache, 1, 5000, NULL), CACHE_OK);
    assert_int_equal(sample_get(cache, 50, 5000, NULL), CACHE_MISS);
    assert_int_equal(sample_put(cache, 51, 5000), CACHE_OK);
    assert_logged(fixture, "replaced by another process");
    cache_close(cache);
    assert_int_equal(fixture_sql(fixture, "SELECT count(*) FROM kernel"), 4);
    assert_int_equal(fixture_sql(fixture, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'"),
                     1);
}

static void a_file_of_a_newer_version_is_left_untouched(void **state)
{
    struct fixture *fixture = *state;
    char newer[500];
    size_t before_size, after_size;
    fill(fixture, 2);
    (void)snprintf(newer, sizeof newer, "%s/kernels-v%d.sqlite3", fixture->dir, CACHE_SCHEMA + 1);
    (void)fixture_sql(fixture, "PRAGMA user_version = 2; PRAGMA journal_mode = DELETE;"
                               "UPDATE meta SET value = 2 WHERE name = 'schema'");
    for (int under_our_name = 0; under_our_name < 2; under_our_name++) {
        const char *path = under_our_name ? fixture->file : newer;
        assert_int_equal(rename(under_our_name ? newer : fixture->file, path), 0);
        unsigned char *before = file_read(path, &before_size);
        struct cache *cache = fixture_open(fixture);
        if (under_our_name) {
            assert_non_null(strstr(cache_state(cache), "left as it is"));
            assert_int_equal(sample_put(cache, 1, 5000), CACHE_UNUSABLE);
        } else {
            assert_int_equal(sample_put(cache, 1, 5000), CACHE_OK);
        }
        cache_close(cache);
        unsigned char *after = file_read(path, &after_size);
        assert_int_equal(before_size, after_size);
        assert_memory_equal(before, after, after_size);
        free(before);
        free(after);
    }
    assert_int_equal(count_names(fixture->dir, CACHE_FILE_NAME ".damaged"), 0);
}

/* ---- Network --------------------------------------------------------------------------------------------------------- */

static void on_a_network_file_system_everything_works_without_a_log(void **state)
{
    struct fixture *fixture = *state;
    fill(fixture, 3);
    file_system_type = NETWORK_FILE_SYSTEM;
    struct cache *cache = fixture_open(fixture);
    assert_string_equal(cache_state(cache), "read-write");
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(sample_put(cache, i, 5000), CACHE_OK);
        assert_int_equal(sample_get(cache, i, 5000, NULL), CACHE_OK);
        assert_int_equal(count_names(fixture->dir, CACHE_FILE_NAME "-wal"), 0);
        assert_int_equal(count_names(fixture->dir, CACHE_FILE_NAME "-shm"), 0);
    }
    cache_close(cache);
    file_system_type = LOCAL_FILE_SYSTEM;
    assert_int_equal(fixture_sql(fixture, "SELECT sum(hits) FROM use"), 6);
    cache = fixture_open(fixture);
    assert_int_equal(sample_get(cache, 5, 5000, NULL), CACHE_OK);
    cache_close(cache);
    assert_int_equal(fixture_sql(fixture, "SELECT count(*) FROM pragma_journal_mode WHERE journal_mode = 'wal'"), 1);
}

/* ---- Forks ------------------------------------------------------------------------------------------------------------ */

static struct cache *inherited;

static int use_in_child(struct fixture *fixture)
{
    bool wrong = false;
    (void)fixture;
    CHECK(sample_get(inherited, 1, 5000, &wrong) == CACHE_OK && !wrong);
    for (unsigned i = 10; i < 40; i++) {
        CHECK(sample_put(inherited, i, 5000) == CACHE_OK);
    }
    CHECK(strcmp(cache_state(inherited), "read-write") == 0);
    cache_close(inherited);
    return 0;
}

static int close_in_child(struct fixture *fixture)
{
    (void)fixture;
    cache_close(inherited);
    return 0;
}

static void a_forked_child_uses_the_cache_through_a_connection_of_its_own(void **state)
{
    struct fixture *fixture = *state;
    inherited = fixture_open(fixture);
    assert_int_equal(sample_put(inherited, 1, 5000), CACHE_OK);
    assert_int_equal(in_child(use_in_child, fixture, false), 0);
    assert_int_equal(in_child(close_in_child, fixture, false), 0);
    /* The parent's log is still there and its own connection sees what the child stored. */
    assert_int_equal(count_names(fixture->dir, CACHE_FILE_NAME "-wal"), 1);
    for (unsigned i = 10; i < 40; i++) {
        assert_int_equal(sample_get(inherited, i, 5000, NULL), CACHE_OK);
    }
    assert_int_equal(sample_put(inherited, 2, 5000), CACHE_OK);
    cache_close(inherited);
    assert_int_equal(fixture_sql(fixture, "SELECT count(*) FROM kernel"), 32);
}

static int fork_and_leave(struct fixture *fixture)
{
    struct cache *cache = fixture_open(fixture);
    CHECK(sample_put(cache, 1, 5000) == CACHE_OK);
    inherited = cache;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int line = use_in_child(fixture);
        _exit(line != 0);
    }
    cache_close(cache);
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return 0;
}

static void parent_and_child_close_in_any_order(void **state)
{
    struct fixture *fixture = *state;
    for (int round = 0; round < 20; round++) {
        assert_int_equal(in_child(fork_and_leave, fixture, false), 0);
    }
    assert_int_equal(fixture_sql(fixture, "SELECT count(*) FROM kernel"), 31);
    assert_int_equal(fixture_sql(fixture, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'"),
                     1);
}

static struct cache *held;
static atomic_bool is_held, may_leave;

static void *hold_the_lock(void *argument)
{
    (void)argument;
    if (cache_enter(held)) {
        atomic_store(&is_held, true);
        while (!atomic_load(&may_leave)) {
            const struct timespec pause = {0, 1000000};
            (void)nanosleep(&pause, NULL);
        }
        cache_leave(held);
    }
    return NULL;
}

static int find_it_stuck(struct fixture *fixture)
{
    CHECK(sample_get(held, 1, 5000, NULL) == CACHE_UNUSABLE);
    CHECK(sample_put(held, 2, 5000) == CACHE_UNUSABLE);
    CHECK(strstr(cache_state(held), "forked"));
    struct cache *another = fixture_open(fixture);
    CHECK(sample_get(another, 1, 5000, NULL) == CACHE_UNUSABLE);
    cache_close(another);
    cache_close(held);
    return 0;
}

static void a_fork_while_a_thread_is_inside_costs_the_child_its_cache_and_nothing_else(void **state)
{
    struct fixture *fixture = *state;
    pthread_t thread;
    held = fixture_open(fixture);
    assert_int_equal(sample_put(held, 1, 5000), CACHE_OK);
    assert_int_equal(pthread_create(&thread, NULL, hold_the_lock, NULL), 0);
    while (!atomic_load(&is_held)) {
        const struct timespec pause = {0, 1000000};
        (void)nanosleep(&pause, NULL);
    }
    assert_int_equal(in_child(find_it_stuck, fixture, false), 0);
    atomic_store(&may_leave, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(sample_get(held, 1, 5000, NULL), CACHE_OK);
    cache_close(held);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(a_refused_folder_gives_one_warning_and_a_reason),
        WITH_FIXTURE(states_stay_valid_while_they_change),
        WITH_FIXTURE(the_folder_given_survives_a_change_of_the_current_folder),
        WITH_FIXTURE(a_folder_that_cannot_be_written_is_read),
        WITH_FIXTURE(a_folder_that_cannot_be_written_is_read_with_the_log_in_it),
        WITH_FIXTURE(a_file_that_cannot_be_written_is_read),
        WITH_FIXTURE(a_folder_that_cannot_be_written_and_is_empty_gives_one_warning),
        WITH_FIXTURE(a_reader_without_locks_notices_changes_at_its_next_miss),
        WITH_FIXTURE(read_only_by_choice_never_writes),
        WITH_FIXTURE(a_file_that_is_removed_while_open_is_made_anew),
        WITH_FIXTURE(what_is_stored_after_a_removal_goes_into_the_new_file),
        WITH_FIXTURE(a_file_that_is_replaced_while_open_is_opened_at_the_next_miss),
        WITH_FIXTURE(a_file_of_a_newer_version_is_left_untouched),
        WITH_FIXTURE(on_a_network_file_system_everything_works_without_a_log),
        WITH_FIXTURE(a_forked_child_uses_the_cache_through_a_connection_of_its_own),
        WITH_FIXTURE(parent_and_child_close_in_any_order),
        WITH_FIXTURE(a_fork_while_a_thread_is_inside_costs_the_child_its_cache_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
