/*
 * Rows: what is bound to an insertion is read back, and the hash of a row is that of its contents, byte by byte.
 */
#include "tests/support/cache_fixture.h"

struct table {
    struct cache_folder folder;
    struct cache_database database;
};

static void table_open(struct fixture *fixture, struct table *table)
{
    char why[CACHE_WHY_SIZE];
    if (!cache_folder_open(fixture->dir, true, &table->folder, why) ||
        cache_database_open(&table->folder, false, 0, &table->database, why) != SQLITE_OK) {
        fail_msg("%s", why);
    }
}

static void table_close(struct table *table)
{
    cache_database_close(&table->database, true);
    cache_folder_close(&table->folder);
}

static void insert(struct table *table, const struct cache_entry *entry, const uint8_t code_hash[CACHE_HASH_SIZE])
{
    int error;
    sqlite3_stmt *statement = cache_database_statement(&table->database, CACHE_SQL_INSERT_ENTRY, &error);
    assert_non_null(statement);
    assert_int_equal(cache_row_bind(statement, entry, code_hash), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_DONE);
    (void)sqlite3_reset(statement);
}

static enum cache_result read_back(struct table *table, const struct cache_key *key, struct cache_row *row)
{
    int error;
    sqlite3_stmt *statement = cache_database_statement(&table->database, CACHE_SQL_ENTRY, &error);
    assert_non_null(statement);
    assert_int_equal(sqlite3_bind_blob(statement, 1, key->bytes, 16, SQLITE_STATIC), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    enum cache_result result = cache_row_read(statement, row);
    (void)sqlite3_reset(statement);
    return result;
}

static void a_row_is_read_back_with_the_size_of_its_code_and_without_the_code(void **state)
{
    struct fixture *fixture = *state;
    static const uint8_t code_hash[CACHE_HASH_SIZE] = {5, 6, 7};
    struct table table;
    struct sample sample;
    struct cache_row row;
    table_open(fixture, &table);
    sample_init(&sample, 77, 1234);
    insert(&table, &sample.entry, code_hash);
    assert_int_equal(read_back(&table, &sample.entry.key, &row), CACHE_OK);
    assert_int_equal(row.id, 1);
    assert_memory_equal(row.code_hash, code_hash, sizeof code_hash);
    assert_null(row.entry.code.data);
    assert_int_equal(row.entry.code.size, 1234);
    assert_int_equal(row.entry.sequence, 0);
    row.entry.code = sample.entry.code;
    assert_true(sample_equals(&sample, &row.entry, false));
    cache_arena_free(row.arena);
    sample_deinit(&sample);
    table_close(&table);
}

static void text_that_moves_from_one_column_to_the_next_changes_the_hash(void **state)
{
    struct fixture *fixture = *state;
    static const uint8_t code_hash[CACHE_HASH_SIZE] = {5};
    struct table table;
    struct sample sample;
    struct cache_row row;
    table_open(fixture, &table);
    sample_init(&sample, 77, 1234);
    sample.entry.target = "sm_90";
    sample.entry.nvrtc = "a13.0";
    insert(&table, &sample.entry, code_hash);
    (void)fixture_sql(fixture, "UPDATE kernel SET target = 'sm_90a', nvrtc = '13.0'");
    assert_int_equal(read_back(&table, &sample.entry.key, &row), CACHE_MISS);
    assert_int_equal(row.id, 1);
    assert_null(row.arena);
    (void)fixture_sql(fixture, "UPDATE kernel SET target = 'sm_90', nvrtc = 'a13.0'");
    assert_int_equal(read_back(&table, &sample.entry.key, &row), CACHE_OK);
    cache_arena_free(row.arena);
    sample_deinit(&sample);
    table_close(&table);
}

/* The limit of the connection, as for anything else that SQLite refuses to take. */
static void a_row_that_is_too_large_is_refused_when_it_is_bound(void **state)
{
    struct fixture *fixture = *state;
    static const uint8_t code_hash[CACHE_HASH_SIZE] = {5};
    struct table table;
    struct sample sample;
    int error;
    table_open(fixture, &table);
    sample_init(&sample, 77, 1234);
    sqlite3_stmt *statement = cache_database_statement(&table.database, CACHE_SQL_INSERT_ENTRY, &error);
    assert_non_null(statement);
    (void)sqlite3_limit(table.database.handle, SQLITE_LIMIT_LENGTH, 20);
    assert_int_equal(cache_row_bind(statement, &sample.entry, code_hash), SQLITE_TOOBIG);
    sample_deinit(&sample);
    table_close(&table);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(a_row_is_read_back_with_the_size_of_its_code_and_without_the_code),
        WITH_FIXTURE(text_that_moves_from_one_column_to_the_next_changes_the_hash),
        WITH_FIXTURE(a_row_that_is_too_large_is_refused_when_it_is_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
