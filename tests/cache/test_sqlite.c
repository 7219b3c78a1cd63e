/*
 * The database file: how it is made, opened and refused.
 */
#include "tests/support/cache_fixture.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

struct opened {
    struct cache_folder folder;
    struct cache_database database;
    char why[CACHE_WHY_SIZE];
};

static int open_as(struct fixture *fixture, struct opened *opened, bool network, bool read_only)
{
    memset(opened, 0, sizeof *opened);
    if (!cache_folder_open(fixture->dir, true, &opened->folder, opened->why)) {
        fail_msg("%s", opened->why);
    }
    opened->folder.network = network;
    return cache_database_open(&opened->folder, read_only, CACHE_BUSY_CREATE_MS, &opened->database, opened->why);
}

static void close_all(struct opened *opened)
{
    cache_database_close(&opened->database, true);
    cache_database_close(&opened->database, true);
    cache_folder_close(&opened->folder);
}

static void assert_opens(struct fixture *fixture)
{
    struct opened opened;
    int error = open_as(fixture, &opened, false, false);
    if (error != SQLITE_OK) {
        fail_msg("%d: %s", error, opened.why);
    }
    close_all(&opened);
}

static void assert_opens_with(struct fixture *fixture, int expected, const char *reason)
{
    struct opened opened;
    int error = open_as(fixture, &opened, false, false);
    assert_int_equal(error & 0xff, expected);
    if (!strstr(opened.why, reason)) {
        fail_msg("no \"%s\" in \"%s\"", reason, opened.why);
    }
    assert_null(opened.database.handle);
    close_all(&opened);
}

static void a_new_file_has_the_schema_and_the_settings_of_this_version(void **state)
{
    struct fixture *fixture = *state;
    assert_opens(fixture);
    static const struct {
        const char *sql;
        int64_t value;
    } cases[] = {
        {"PRAGMA application_id", CACHE_APPLICATION_ID},
        {"PRAGMA user_version", CACHE_SCHEMA},
        {"PRAGMA page_size", 8192},
        {"PRAGMA auto_vacuum", 2},
        {"SELECT count(*) FROM pragma_journal_mode WHERE journal_mode = 'wal'", 1},
        {"SELECT count(*) FROM sqlite_schema WHERE type = 'table'", 5},
        {"SELECT count(*) FROM pragma_table_list WHERE strict = 1", 5},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(fixture_sql(fixture, cases[i].sql), cases[i].value);
    }
    /* The name carries the schema number. */
    char expected[64];
    (void)snprintf(expected, sizeof expected, "kernels-v%d.sqlite3", CACHE_SCHEMA);
    assert_string_equal(CACHE_FILE_NAME, expected);
    assert_opens(fixture);
}

static void every_statement_fits_the_schema(void **state)
{
    struct fixture *fixture = *state;
    struct opened opened;
    assert_int_equal(open_as(fixture, &opened, false, false), SQLITE_OK);
    for (int i = 0; i < CACHE_SQL_COUNT; i++) {
        int error;
        sqlite3_stmt *statement = cache_database_statement(&opened.database, (enum cache_statement)i, &error);
        if (!statement || error != SQLITE_OK) {
            fail_msg("statement %d: %s", i, sqlite3_errmsg(opened.database.handle));
        }
        assert_ptr_equal(cache_database_statement(&opened.database, (enum cache_statement)i, &error), statement);
    }
    close_all(&opened);
}

static void an_empty_file_is_filled(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(mkdir(fixture->dir, 0700), 0);
    file_write(fixture->file, "", 0);
    assert_opens(fixture);
    assert_int_equal(fixture_sql(fixture, "PRAGMA user_version"), CACHE_SCHEMA);
}

static void a_file_whose_maker_died_before_the_tables_is_filled(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(mkdir(fixture->dir, 0700), 0);
    int file = open(fixture->file, O_CREAT | O_WRONLY, 0600);
    assert_true(file >= 0 && close(file) == 0);
    (void)fixture_sql(fixture, "PRAGMA page_size = 8192; PRAGMA journal_mode = WAL");
    assert_opens(fixture);
    assert_int_equal(fixture_sql(fixture, "PRAGMA user_version"), CACHE_SCHEMA);
}

static void files_of_others_are_told_apart(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        const char *sql;
        int error;
        const char *reason;
    } cases[] = {
        {"CREATE TABLE kernel(id)", SQLITE_NOTADB, "not a kernel cache"},
        {"PRAGMA application_id = 5", SQLITE_NOTADB, "not a kernel cache"},
        {"PRAGMA application_id = 1734635617; CREATE TABLE kernel(id)", SQLITE_NOTADB, "schema 0"},
        {"PRAGMA application_id = 1734635617; PRAGMA user_version = 1", SQLITE_CORRUPT, "tables are damaged"},
        {"PRAGMA application_id = 1734635617; PRAGMA user_version = 2", SQLITE_CORRUPT, "contents do not"},
        {"PRAGMA application_id = 1734635617; PRAGMA user_version = 2; CREATE TABLE meta(name, value);"
         "INSERT INTO meta VALUES('schema', 1)",
         SQLITE_CORRUPT, "contents do not"},
        {"PRAGMA application_id = 1734635617; PRAGMA user_version = 2; CREATE TABLE meta(name, value);"
         "INSERT INTO meta VALUES('schema', 2)",
         SQLITE_MISMATCH, "left as it is"},
    };
    assert_int_equal(mkdir(fixture->dir, 0700), 0);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        file_write(fixture->file, "", 0);
        (void)fixture_sql(fixture, cases[i].sql);
        size_t before_size, after_size;
        unsigned char *before = file_read(fixture->file, &before_size);
        assert_opens_with(fixture, cases[i].error, cases[i].reason);
        unsigned char *after = file_read(fixture->file, &after_size);
        assert_int_equal(before_size, after_size);
        assert_memory_equal(before, after, after_size);
        free(before);
        free(after);
        assert_int_equal(unlink(fixture->file), 0);
    }
}

static void files_that_are_no_database_are_told_apart(void **state)
{
    struct fixture *fixture = *state;
    static const char text[] = "this is a text file, somewhat longer than the hundred bytes of a header, which SQLite "
                               "reads before it says anything at all about it";
    assert_int_equal(mkdir(fixture->dir, 0700), 0);
    file_write(fixture->file, text, sizeof text);
    assert_opens_with(fixture, SQLITE_NOTADB, "not a database");
    /* Less than a page counts as nothing. */
    file_write(fixture->file, "x", 1);
    assert_opens(fixture);
}

static void a_file_format_of_a_later_sqlite_is_not_taken_for_a_write_protected_file(void **state)
{
    struct fixture *fixture = *state;
    assert_opens(fixture);
    size_t size;
    unsigned char *bytes = file_read(fixture->file, &size);
    assert_true(size > 100);
    bytes[18] = 3;
    file_write(fixture->file, bytes, size);
    free(bytes);
    assert_opens_with(fixture, SQLITE_NOTADB, "file format");
}

static void without_the_right_to_make_it_a_missing_file_is_not_found(void **state)
{
    struct fixture *fixture = *state;
    struct opened opened;
    assert_int_equal(open_as(fixture, &opened, false, true), SQLITE_NOTFOUND);
    assert_non_null(strstr(opened.why, "No such file"));
    close_all(&opened);
    assert_int_equal(access(fixture->file, F_OK), -1);
}

static void read_only_never_makes_tables(void **state)
{
    struct fixture *fixture = *state;
    struct opened opened;
    assert_int_equal(mkdir(fixture->dir, 0700), 0);
    file_write(fixture->file, "", 0);
    assert_int_equal(open_as(fixture, &opened, false, true), SQLITE_EMPTY);
    close_all(&opened);
    size_t size;
    free(file_read(fixture->file, &size));
    assert_int_equal(size, 0);
}

static void paths_with_every_kind_of_character_open(void **state)
{
    struct fixture *fixture = *state;
    static const char *const names[] = {"a b",   "a?b=c&mode=memory", "a#b",          "a%41b", "%",
                                        "a'b\"", "\xc3\xa9\xff",      "file:x",       "+;:@!", "tab\tline\n",
                                        "~",     "back\\slash",       "a?immutable=1"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        (void)snprintf(fixture->dir, sizeof fixture->dir, "%s/%s", fixture->base, names[i]);
        (void)snprintf(fixture->file, sizeof fixture->file, "%s/%s", fixture->dir, CACHE_FILE_NAME);
        assert_opens(fixture);
        assert_int_equal(access(fixture->file, F_OK), 0);
    }
}

static void a_path_that_is_too_long_for_sqlite_is_named(void **state)
{
    struct fixture *fixture = *state;
    char dir[700];
    size_t used = (size_t)snprintf(dir, sizeof dir, "%s", fixture->base);
    while (used < 520) {
        used += (size_t)snprintf(dir + used, sizeof dir - used, "/%.60s",
                                 "a-folder-whose-name-has-about-sixty-letters-in-it-1234567890");
    }
    struct opened opened = {.why = ""};
    assert_true(cache_folder_open(dir, true, &opened.folder, opened.why));
    int error = cache_database_open(&opened.folder, false, 0, &opened.database, opened.why);
    assert_int_equal(error, SQLITE_PERM);
    assert_non_null(strstr(opened.why, "too long"));
    close_all(&opened);
}

static void on_a_network_file_system_there_is_no_log_and_no_shared_memory(void **state)
{
    struct fixture *fixture = *state;
    struct opened opened;
    assert_int_equal(open_as(fixture, &opened, true, false), SQLITE_OK);
    assert_int_equal(cache_database_begin_write(&opened.database, 0), SQLITE_OK);
    assert_int_equal(cache_database_do(&opened.database, CACHE_SQL_TICK, ""), SQLITE_OK);
    assert_int_equal(count_names(fixture->dir, CACHE_FILE_NAME "-wal"), 0);
    assert_int_equal(count_names(fixture->dir, CACHE_FILE_NAME "-shm"), 0);
    assert_int_equal(cache_database_end(&opened.database, SQLITE_OK), SQLITE_OK);
    /* No lock stays behind. */
    assert_int_equal(
        fixture_sql(fixture, "UPDATE meta SET value = value + 1; SELECT value FROM meta WHERE name = 'sequence'"), 2);
    assert_int_equal(fixture_sql(fixture, "SELECT count(*) FROM pragma_journal_mode WHERE journal_mode <> 'wal'"), 1);
    close_all(&opened);
}

static void a_local_file_that_was_moved_to_a_network_loses_its_log_mode(void **state)
{
    struct fixture *fixture = *state;
    struct opened opened;
    assert_opens(fixture);
    assert_int_equal(open_as(fixture, &opened, true, false), SQLITE_OK);
    assert_int_equal(count_names(fixture->dir, CACHE_FILE_NAME "-shm"), 0);
    close_all(&opened);
    assert_int_equal(fixture_sql(fixture, "SELECT count(*) FROM pragma_journal_mode WHERE journal_mode <> 'wal'"), 1);
}

static void readers_on_a_network_do_not_hold_up_writers(void **state)
{
    struct fixture *fixture = *state;
    for (int log_mode = 0; log_mode < 2; log_mode++) {
        struct opened reader;
        struct cache_identity identity;
        if (log_mode == 0) {
            assert_int_equal(open_as(fixture, &reader, true, false), SQLITE_OK);
            close_all(&reader);
        } else {
            assert_opens(fixture);
        }
        assert_int_equal(open_as(fixture, &reader, true, true), SQLITE_OK);
        assert_true(reader.database.read_only);
        (void)fixture_sql(fixture, "UPDATE meta SET value = value + 1");
        assert_false(log_mode == 0 && reader.database.immutable);
        close_all(&reader);
        assert_true(cache_identity_of(fixture->file, &identity));
    }
}

static void processes_that_open_at_once_make_one_database(void **state)
{
    struct fixture *fixture = *state;
    for (int round = 0; round < 5; round++) {
        int start[2];
        assert_int_equal(pipe(start), 0);
        pid_t children[8];
        for (size_t i = 0; i < COUNT_OF(children); i++) {
            (void)fflush(NULL);
            children[i] = fork();
            assert_true(children[i] >= 0);
            if (children[i] == 0) {
                char byte;
                struct opened opened;
                (void)close(start[1]);
                bool ready = read(start[0], &byte, 1) == 0;
                int error = open_as(fixture, &opened, false, false);
                if (error != SQLITE_OK) {
                    (void)fprintf(stderr, "# %d: %s\n", error, opened.why);
                }
                _exit(ready && error == SQLITE_OK ? 0 : 1);
            }
        }
        (void)close(start[0]);
        (void)close(start[1]);
        for (size_t i = 0; i < COUNT_OF(children); i++) {
            int status;
            assert_int_equal(waitpid(children[i], &status, 0), children[i]);
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        }
        assert_int_equal(fixture_sql(fixture, "SELECT count(*) FROM meta"), 2);
        assert_opens(fixture);
        assert_int_equal(count_names(fixture->dir, CACHE_FILE_NAME), 1);
        assert_int_equal(unlink(fixture->file), 0);
    }
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(a_new_file_has_the_schema_and_the_settings_of_this_version),
        WITH_FIXTURE(every_statement_fits_the_schema),
        WITH_FIXTURE(an_empty_file_is_filled),
        WITH_FIXTURE(a_file_whose_maker_died_before_the_tables_is_filled),
        WITH_FIXTURE(files_of_others_are_told_apart),
        WITH_FIXTURE(files_that_are_no_database_are_told_apart),
        WITH_FIXTURE(a_file_format_of_a_later_sqlite_is_not_taken_for_a_write_protected_file),
        WITH_FIXTURE(without_the_right_to_make_it_a_missing_file_is_not_found),
        WITH_FIXTURE(read_only_never_makes_tables),
        WITH_FIXTURE(paths_with_every_kind_of_character_open),
        WITH_FIXTURE(a_path_that_is_too_long_for_sqlite_is_named),
        WITH_FIXTURE(on_a_network_file_system_there_is_no_log_and_no_shared_memory),
        WITH_FIXTURE(a_local_file_that_was_moved_to_a_network_loses_its_log_mode),
        WITH_FIXTURE(readers_on_a_network_do_not_hold_up_writers),
        WITH_FIXTURE(processes_that_open_at_once_make_one_database),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
