/*
 * The database as SQLite sees it: open modes, pragmas, schema, prepared statements, transactions.
 *
 *     kernel  one row an entry; row_hash covers every other column but id, so that a flipped bit in any of them is seen
 *     code    the cubin, raw, in a table of its own: lists do not read it
 *     aux     source, PTX, log, plan; compressed; the first to be evicted
 *     use     place in the order of use and number of hits; may be lost without harm
 *     meta    the counter that orders uses (a counter, not a clock: a clock that jumps changes nothing); the schema
 *             number once more
 *
 * Memory mapping stays off: a file that another process truncates, or a disk that fails, would then kill the process
 * that embeds the library instead of giving an error; it would save some 15 us of a load of 100 KB.
 */
#include "cache/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TABLES = 5 };

#define STRINGIFY_(number) #number
#define STRINGIFY(number) STRINGIFY_(number)

static const char schema_sql[] =
    "CREATE TABLE kernel(id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE,"
    " row_hash BLOB NOT NULL, code_hash BLOB NOT NULL, code_size INTEGER NOT NULL, arch INTEGER NOT NULL,"
    " registers INTEGER NOT NULL, spill_bytes INTEGER NOT NULL, stack_bytes INTEGER NOT NULL,"
    " smem_static INTEGER NOT NULL, smem_dynamic INTEGER NOT NULL, threads INTEGER NOT NULL,"
    " generate_ms REAL NOT NULL, compile_ms REAL NOT NULL, name TEXT NOT NULL, spec TEXT NOT NULL,"
    " target TEXT NOT NULL, nvrtc TEXT NOT NULL, source_hash TEXT NOT NULL, material BLOB NOT NULL) STRICT;"
    "CREATE INDEX kernel_name ON kernel(name, key);"
    "CREATE TABLE code(id INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;"
    "CREATE TABLE aux(id INTEGER NOT NULL, kind INTEGER NOT NULL, codec INTEGER NOT NULL, raw_size INTEGER NOT NULL,"
    " hash BLOB NOT NULL, data BLOB NOT NULL, PRIMARY KEY(id, kind)) STRICT;"
    "CREATE TABLE use(id INTEGER PRIMARY KEY, sequence INTEGER NOT NULL, hits INTEGER NOT NULL) STRICT;"
    "CREATE INDEX use_sequence ON use(sequence);"
    "CREATE TABLE meta(name TEXT NOT NULL PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
    "INSERT INTO meta VALUES('sequence', 0), ('schema', " STRINGIFY(
        CACHE_SCHEMA) ");"
                      "PRAGMA application_id = " STRINGIFY(CACHE_APPLICATION_ID) ";"
                                                                                 "PRAGMA user_version = " STRINGIFY(
                                                                                     CACHE_SCHEMA) ";";

/* secure_delete: Debian turns it on by default; zeroing what is freed is of no use here. */
static const char connection_sql[] = "PRAGMA trusted_schema = OFF;"
                                     "PRAGMA cell_size_check = ON;"
                                     "PRAGMA mmap_size = 0;"
                                     "PRAGMA synchronous = NORMAL;"
                                     "PRAGMA temp_store = MEMORY;"
                                     "PRAGMA secure_delete = OFF;"
                                     "PRAGMA journal_size_limit = 8388608;";

/* A counter beyond any real use can only come from damage. */
#define COUNTER_MAX "4000000000000000000"

static const char *const statement_sql[CACHE_SQL_COUNT] = {
    [CACHE_SQL_BEGIN_READ] = "BEGIN",
    [CACHE_SQL_BEGIN_WRITE] = "BEGIN IMMEDIATE",
    [CACHE_SQL_COMMIT] = "COMMIT",
    [CACHE_SQL_ENTRY] = "SELECT " CACHE_ROW_COLUMNS " FROM kernel k LEFT JOIN use u ON u.id = k.id WHERE k.key = ?1",
    [CACHE_SQL_CODE] = "SELECT data FROM code WHERE id = ?1",
    [CACHE_SQL_AUX] = "SELECT kind, codec, raw_size, hash, data FROM aux WHERE id = ?1",
    [CACHE_SQL_AUX_SIZES] = "SELECT kind, raw_size, length(data) FROM aux WHERE id = ?1",
    [CACHE_SQL_LIST] = "SELECT " CACHE_ROW_COLUMNS " FROM kernel k LEFT JOIN use u ON u.id = k.id"
                       " ORDER BY u.sequence DESC, k.id DESC",
    [CACHE_SQL_KEYS] = "SELECT id, key FROM kernel NOT INDEXED ORDER BY id",
    /* ?2 and ?3 are NULL when the text is no prefix of a key. */
    [CACHE_SQL_FIND] = "SELECT key, name = ?1 FROM kernel"
                       " WHERE substr(name, 1, length(?1)) = ?1 OR key BETWEEN ?2 AND ?3",
    [CACHE_SQL_COUNT_ENTRIES] = "SELECT count(*) FROM kernel",
    [CACHE_SQL_ID_OF_KEY] = "SELECT id FROM kernel WHERE key = ?1",
    [CACHE_SQL_INSERT_ENTRY] = "INSERT INTO kernel(key, row_hash, code_hash, code_size, arch, registers, spill_bytes,"
                               " stack_bytes, smem_static, smem_dynamic, threads, generate_ms, compile_ms, name, spec,"
                               " target, nvrtc, source_hash, material)"
                               " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17,"
                               " ?18, ?19) ON CONFLICT(key) DO NOTHING",
    [CACHE_SQL_INSERT_CODE] = "INSERT OR REPLACE INTO code(id, data) VALUES(?1, ?2)",
    [CACHE_SQL_INSERT_AUX] = "INSERT OR REPLACE INTO aux(id, kind, codec, raw_size, hash, data)"
                             " VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
    [CACHE_SQL_INSERT_USE] = "INSERT OR REPLACE INTO use(id, sequence, hits)"
                             " VALUES(?1, (SELECT value FROM meta WHERE name = 'sequence'), 0)",
    [CACHE_SQL_TICK] = "INSERT INTO meta(name, value) VALUES('sequence', 1) ON CONFLICT(name) DO UPDATE"
                       " SET value = CASE WHEN value BETWEEN 0 AND " COUNTER_MAX " THEN value + 1 ELSE 1 END",
    [CACHE_SQL_TOUCH] =
        "INSERT INTO use(id, sequence, hits)"
        " SELECT id, (SELECT value FROM meta WHERE name = 'sequence'), ?2 FROM kernel WHERE key = ?1"
        " ON CONFLICT(id) DO UPDATE SET sequence = excluded.sequence,"
        " hits = CASE WHEN hits BETWEEN 0 AND " COUNTER_MAX " THEN hits + excluded.hits ELSE excluded.hits END",
    [CACHE_SQL_DELETE_ENTRY] = "DELETE FROM kernel WHERE id = ?1",
    [CACHE_SQL_DELETE_CODE] = "DELETE FROM code WHERE id = ?1",
    [CACHE_SQL_DELETE_AUX] = "DELETE FROM aux WHERE id = ?1",
    [CACHE_SQL_DELETE_USE] = "DELETE FROM use WHERE id = ?1",
    [CACHE_SQL_OLDEST_WITH_AUX] = "SELECT u.id, u.sequence FROM use u WHERE u.sequence >= ?1"
                                  " AND EXISTS(SELECT 1 FROM aux a WHERE a.id = u.id) ORDER BY u.sequence LIMIT 8",
    [CACHE_SQL_OLDEST_FOREIGN] = "SELECT u.id, u.sequence FROM use u JOIN kernel k ON k.id = u.id"
                                 " WHERE u.sequence >= ?1 AND instr(k.material, ?2) = 0 ORDER BY u.sequence LIMIT 8",
    [CACHE_SQL_COUNT_FOREIGN] = "SELECT count(*) FROM kernel WHERE instr(material, ?1) = 0",
    [CACHE_SQL_COUNT_PARTS] = "SELECT count(*) FROM aux",
    [CACHE_SQL_PART_BYTES] = "SELECT coalesce(sum(length(data)), 0) FROM aux",
    [CACHE_SQL_OLDEST] = "SELECT id, sequence FROM use WHERE id <> ?1 ORDER BY sequence LIMIT 8",
    [CACHE_SQL_PAGE_COUNT] = "PRAGMA page_count",
    [CACHE_SQL_FREE_PAGES] = "PRAGMA freelist_count",
    [CACHE_SQL_PAGE_SIZE] = "PRAGMA page_size",
};

/* ---- Statements ------------------------------------------------------------------------------------------------- */

sqlite3_stmt *cache_database_statement(struct cache_database *database, enum cache_statement id, int *error)
{
    if (!database->statements[id]) {
        *error = sqlite3_prepare_v3(database->handle, statement_sql[id], -1, SQLITE_PREPARE_PERSISTENT,
                                    &database->statements[id], NULL);
        if (*error != SQLITE_OK) {
            return NULL;
        }
    }
    *error = SQLITE_OK;
    return database->statements[id];
}

bool cache_database_fits(struct cache_database *database)
{
    for (int i = 0; i < CACHE_SQL_COUNT; i++) {
        int error;
        if (!cache_database_statement(database, (enum cache_statement)i, &error) && (error & 0xff) == SQLITE_ERROR) {
            return false;
        }
    }
    return true;
}

static void bind(sqlite3_stmt *statement, const char *types, va_list arguments)
{
    for (int i = 0; types[i]; i++) {
        if (types[i] == 'i') {
            (void)sqlite3_bind_int64(statement, i + 1, va_arg(arguments, int64_t));
        } else {
            const struct cache_bytes *bytes = va_arg(arguments, const struct cache_bytes *);
            const void *data = bytes->data ? bytes->data : "";
            (void)sqlite3_bind_blob64(statement, i + 1, data, bytes->size, SQLITE_STATIC);
        }
    }
}

int cache_database_do(struct cache_database *database, enum cache_statement id, const char *types, ...)
{
    int error;
    sqlite3_stmt *statement = cache_database_statement(database, id, &error);
    if (!statement) {
        return error;
    }
    va_list arguments;
    va_start(arguments, types);
    bind(statement, types, arguments);
    va_end(arguments);
    do {
        error = sqlite3_step(statement);
    } while (error == SQLITE_ROW);
    (void)sqlite3_reset(statement);
    (void)sqlite3_clear_bindings(statement);
    return error == SQLITE_DONE ? SQLITE_OK : error;
}

int cache_database_number(struct cache_database *database, enum cache_statement id, int64_t *number)
{
    int error;
    sqlite3_stmt *statement = cache_database_statement(database, id, &error);
    if (!statement) {
        return error;
    }
    error = sqlite3_step(statement);
    if (error == SQLITE_ROW) {
        *number = sqlite3_column_int64(statement, 0);
        error = SQLITE_OK;
    } else if (error == SQLITE_DONE) {
        error = SQLITE_CORRUPT;
    }
    (void)sqlite3_reset(statement);
    return error;
}

int cache_database_begin_write(struct cache_database *database, int busy_ms)
{
    (void)sqlite3_busy_timeout(database->handle, busy_ms);
    int error = cache_database_do(database, CACHE_SQL_BEGIN_WRITE, "");
    (void)sqlite3_busy_timeout(database->handle, CACHE_BUSY_MS);
    return error;
}

int cache_database_end(struct cache_database *database, int error)
{
    if (error == SQLITE_OK) {
        error = cache_database_do(database, CACHE_SQL_COMMIT, "");
    }
    /* Some errors have rolled back already. */
    if (!sqlite3_get_autocommit(database->handle)) {
        (void)sqlite3_exec(database->handle, "ROLLBACK", NULL, NULL, NULL);
    }
    return error;
}

int cache_database_delete(struct cache_database *database, int64_t id)
{
    static const enum cache_statement deletions[] = {CACHE_SQL_DELETE_ENTRY, CACHE_SQL_DELETE_CODE,
                                                     CACHE_SQL_DELETE_AUX, CACHE_SQL_DELETE_USE};
    int error = SQLITE_OK;
    for (size_t i = 0; error == SQLITE_OK && i < sizeof deletions / sizeof deletions[0]; i++) {
        error = cache_database_do(database, deletions[i], "i", id);
    }
    return error;
}

/* ---- Open -------------------------------------------------------------------------------------------------------- */

/* file NULL: the path is that of the file. */
static char *make_uri(const char *path, const char *file, bool immutable)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-";
    static const char digits[] = "0123456789ABCDEF";
    char *uri = malloc(3 * strlen(path) + (file ? strlen(file) : 0) + sizeof "file:/?immutable=1");
    if (!uri) {
        return NULL;
    }
    char *at = uri + sprintf(uri, "file:");
    for (const char *byte = path; *byte; byte++) {
        if (strchr(plain, *byte)) {
            *at++ = *byte;
        } else {
            *at++ = '%';
            *at++ = digits[(unsigned char)*byte >> 4];
            *at++ = digits[(unsigned char)*byte & 15];
        }
    }
    (void)sprintf(at, "%s%s%s", file ? "/" : "", file ? file : "", immutable ? "?immutable=1" : "");
    return uri;
}

static int first_number(sqlite3 *handle, const char *sql, int64_t *number)
{
    sqlite3_stmt *statement = NULL;
    int error = sqlite3_prepare_v2(handle, sql, -1, &statement, NULL);
    if (error == SQLITE_OK) {
        error = sqlite3_step(statement);
        if (error == SQLITE_ROW) {
            *number = sqlite3_column_int64(statement, 0);
            error = SQLITE_OK;
        }
    }
    (void)sqlite3_finalize(statement);
    return error;
}

static int explain(struct cache_database *database, int error, const char *what, char why[CACHE_WHY_SIZE])
{
    if (error != SQLITE_OK) {
        cache_why(why, "%s: %s (SQLite error %d)", what,
                  database->handle ? sqlite3_errmsg(database->handle) : sqlite3_errstr(error),
                  database->handle ? sqlite3_extended_errcode(database->handle) : error);
    }
    return error;
}

/* A header that names a file format that does not exist gives the code of a mistaken statement. */
static int format_error_is_damage(int error)
{
    return (error & 0xff) == SQLITE_ERROR ? SQLITE_CORRUPT : error;
}

static void set_limits(struct cache_database *database, int busy_ms)
{
    (void)sqlite3_extended_result_codes(database->handle, 1);
    (void)sqlite3_busy_timeout(database->handle, busy_ms);
    (void)sqlite3_limit(database->handle, SQLITE_LIMIT_LENGTH, (int)CACHE_VALUE_MAX + 4096);
    (void)sqlite3_db_config(database->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
}

static int open_handle(const struct cache_folder *folder, bool read_only, bool immutable, int busy_ms,
                       struct cache_database *database, char why[CACHE_WHY_SIZE])
{
    char *uri = make_uri(folder->path, CACHE_FILE_NAME, immutable);
    if (!uri) {
        cache_why(why, "out of memory");
        return SQLITE_NOMEM;
    }
    /* No mutex of its own: handle.c never lets two threads in. */
    int flags = SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_NOFOLLOW |
                (read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE);
    int error = sqlite3_open_v2(uri, &database->handle, flags, NULL);
    free(uri);
    if (error != SQLITE_OK) {
        return explain(database, error, "cannot open the database", why);
    }
    set_limits(database, busy_ms);
    /* Before the first read, so that only the rights of the file count. */
    database->read_only = sqlite3_db_readonly(database->handle, "main") != 0;
    database->immutable = immutable;
    database->network = folder->network;
    if (folder->network) {
        /* Before the first read, also that of another pragma: a log found here is then read without shared memory. */
        error = sqlite3_exec(database->handle, "PRAGMA locking_mode = EXCLUSIVE", NULL, NULL, NULL);
    }
    if (error == SQLITE_OK) {
        error = sqlite3_exec(database->handle, connection_sql, NULL, NULL, NULL);
    }
    return format_error_is_damage(explain(database, error, "cannot set up the connection", why));
}

/* Two processes may come here at once; the second finds the tables made. */
static int create_schema(struct cache_database *database)
{
    int error =
        sqlite3_exec(database->handle, "PRAGMA page_size = 8192; PRAGMA auto_vacuum = INCREMENTAL; BEGIN IMMEDIATE",
                     NULL, NULL, NULL);
    if (error != SQLITE_OK) {
        return error;
    }
    int64_t tables = 0;
    error = first_number(database->handle, "SELECT count(*) FROM sqlite_schema", &tables);
    if (error == SQLITE_OK && tables == 0) {
        error = sqlite3_exec(database->handle, schema_sql, NULL, NULL, NULL);
    }
    return cache_database_end(database, error);
}

/* A newer version says its number in two places; in one place alone it is a flipped bit. */
static int check_newer(struct cache_database *database, int64_t version, char why[CACHE_WHY_SIZE])
{
    int64_t said = 0;
    if (first_number(database->handle, "SELECT value FROM meta WHERE name = 'schema'", &said) == SQLITE_OK &&
        said == version) {
        cache_why(why, "it has schema %lld, this version knows %d; it is left as it is", (long long)version,
                  CACHE_SCHEMA);
        return SQLITE_MISMATCH;
    }
    cache_why(why, "its header names schema %lld, its contents do not", (long long)version);
    return SQLITE_CORRUPT;
}

struct header {
    int64_t application, version, objects, tables;
};

/* In one transaction: between two of them another process may make the tables. */
static int read_header(struct cache_database *database, struct header *header)
{
    const struct {
        const char *sql;
        int64_t *number;
    } queries[] = {
        {"PRAGMA application_id", &header->application},
        {"PRAGMA user_version", &header->version},
        {"SELECT count(*) FROM sqlite_schema", &header->objects},
        {"SELECT count(*) FROM sqlite_schema WHERE type = 'table'"
         " AND name IN ('kernel', 'code', 'aux', 'use', 'meta')",
         &header->tables},
    };
    int error = cache_database_do(database, CACHE_SQL_BEGIN_READ, "");
    for (size_t i = 0; error == SQLITE_OK && i < sizeof queries / sizeof queries[0]; i++) {
        error = first_number(database->handle, queries[i].sql, queries[i].number);
    }
    return cache_database_end(database, error);
}

/* SQLITE_EMPTY: nothing in it yet. */
static int check_schema(struct cache_database *database, char why[CACHE_WHY_SIZE])
{
    struct header header = {0, 0, 0, 0};
    int error = explain(database, read_header(database, &header), "cannot read the database", why);
    if (error != SQLITE_OK) {
        return format_error_is_damage(error);
    }
    if (header.application == 0 && header.version == 0 && header.objects == 0) {
        cache_why(why, "the database is empty");
        return SQLITE_EMPTY;
    }
    if (header.application != CACHE_APPLICATION_ID || header.version < CACHE_SCHEMA) {
        cache_why(why, "it is not a kernel cache (application id %lld, schema %lld)", (long long)header.application,
                  (long long)header.version);
        return SQLITE_NOTADB;
    }
    if (header.version > CACHE_SCHEMA) {
        return check_newer(database, header.version, why);
    }
    /* Preparing it needs columns as expected; anything else is damage in the schema. */
    if (header.tables != TABLES || !cache_database_statement(database, CACHE_SQL_ENTRY, &error)) {
        cache_why(why, "its tables are damaged");
        return error == SQLITE_OK || (error & 0xff) == SQLITE_ERROR ? SQLITE_CORRUPT : error;
    }
    return SQLITE_OK;
}

static int set_journal(struct cache_database *database)
{
    if (database->network) {
        int error = SQLITE_OK;
        if (!database->read_only) {
            error = sqlite3_exec(database->handle, "PRAGMA journal_mode = TRUNCATE", NULL, NULL, NULL);
        }
        /* The read lets go of the lock that the exclusive mode keeps. */
        return error != SQLITE_OK
                   ? error
                   : sqlite3_exec(database->handle, "PRAGMA locking_mode = NORMAL; SELECT count(*) FROM meta", NULL,
                                  NULL, NULL);
    }
    if (database->read_only) {
        return SQLITE_OK;
    }
    /* Another process that has the file open may forbid the change: the next one to open it makes it. */
    int error = sqlite3_exec(database->handle, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
    return (error & 0xff) == SQLITE_BUSY ? SQLITE_OK : error;
}

static int open_once(const struct cache_folder *folder, bool read_only, bool immutable, int busy_ms,
                     struct cache_database *database, char why[CACHE_WHY_SIZE])
{
    int error = open_handle(folder, read_only, immutable, busy_ms, database, why);
    if (error != SQLITE_OK) {
        return error;
    }
    error = check_schema(database, why);
    if (error == SQLITE_OK && !database->read_only && sqlite3_db_readonly(database->handle, "main") != 0) {
        /* A file that claims to be of a later SQLite is read, but never written. We did not make it so. */
        cache_why(why, "its header names an unknown file format");
        error = SQLITE_NOTADB;
    }
    if (error == SQLITE_EMPTY && !database->read_only) {
        error = explain(database, create_schema(database), "cannot make the tables", why);
        if (error == SQLITE_OK) {
            error = check_schema(database, why);
        }
    }
    if (error == SQLITE_OK) {
        error = explain(database, set_journal(database), "cannot set the journal mode", why);
    }
    int moved = 0;
    if (error == SQLITE_OK && !immutable &&
        sqlite3_file_control(database->handle, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved) {
        cache_why(why, "it was replaced while it was opened");
        error = SQLITE_BUSY;
    }
    (void)sqlite3_busy_timeout(database->handle, CACHE_BUSY_MS);
    return error;
}

static bool has_log(const struct cache_folder *folder)
{
    char path[4096];
    struct cache_identity identity;
    int length = snprintf(path, sizeof path, "%s/%s-wal", folder->path, CACHE_FILE_NAME);
    return length > 0 && (size_t)length < sizeof path && cache_identity_of(path, &identity) && identity.size > 0;
}

/* Errors of a read-only open that reading without locks can get around. */
static bool immutable_may_help(int error)
{
    int primary = error & 0xff;
    return primary == SQLITE_CANTOPEN || primary == SQLITE_READONLY || primary == SQLITE_PERM ||
           primary == SQLITE_IOERR || primary == SQLITE_PROTOCOL;
}

int cache_database_open(const struct cache_folder *folder, bool read_only, int busy_ms, struct cache_database *database,
                        char why[CACHE_WHY_SIZE])
{
    memset(database, 0, sizeof *database);
    size_t path_size = strlen(folder->path) + sizeof "/" CACHE_FILE_NAME "-journal";
    if (path_size > (size_t)sqlite3_vfs_find(NULL)->mxPathname) {
        cache_why(why, "the path of folder %s is too long for SQLite; set GDPAJIT_CACHE_DIR to a shorter one",
                  folder->path);
        return SQLITE_PERM;
    }
    read_only = read_only || !folder->writable;
    enum cache_file_state state = cache_file_check(folder, CACHE_FILE_NAME, &database->identity, why);
    if (state == CACHE_FILE_ABSENT && !read_only && cache_file_create(folder, CACHE_FILE_NAME, why)) {
        state = cache_file_check(folder, CACHE_FILE_NAME, &database->identity, why);
    }
    if (state != CACHE_FILE_GOOD) {
        return state == CACHE_FILE_ABSENT ? SQLITE_NOTFOUND : SQLITE_PERM;
    }
    const struct cache_identity identity = database->identity;
    /* A folder that cannot be written has nobody's log in it, or one of a process with other rights. */
    bool immutable = !folder->writable && !has_log(folder);
    int error = open_once(folder, read_only, immutable, busy_ms, database, why);
    if (error != SQLITE_OK && !immutable && database->handle &&
        (read_only || sqlite3_db_readonly(database->handle, "main") == 1) && immutable_may_help(error)) {
        cache_database_close(database, false);
        error = open_once(folder, true, true, busy_ms, database, why);
    }
    if (error != SQLITE_OK) {
        cache_database_close(database, false);
    }
    database->identity = identity;
    return error;
}

/* ---- Packs: one file, named by its path -------------------------------------------------------------------------- */

static int settle_pack(struct cache_database *database, int error, char why[CACHE_WHY_SIZE])
{
    if (explain(database, error, "cannot open the pack", why) == SQLITE_OK) {
        set_limits(database, CACHE_BUSY_MS);
        error = explain(database, sqlite3_exec(database->handle, connection_sql, NULL, NULL, NULL),
                        "cannot set up the connection", why);
    }
    return error;
}

static int check_pack(struct cache_database *database, int error, char why[CACHE_WHY_SIZE])
{
    if (error == SQLITE_OK) {
        database->read_only = true;
        database->immutable = true;
        error = check_schema(database, why);
    }
    if (error != SQLITE_OK) {
        cache_database_close(database, false);
    }
    return error;
}

int cache_database_open_pack(const char *path, struct cache_database *database, char why[CACHE_WHY_SIZE])
{
    memset(database, 0, sizeof *database);
    char *uri = make_uri(path, NULL, true);
    if (!uri) {
        cache_why(why, "out of memory");
        return SQLITE_NOMEM;
    }
    int flags = SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_READONLY;
    int error = settle_pack(database, sqlite3_open_v2(uri, &database->handle, flags, NULL), why);
    free(uri);
    return check_pack(database, error, why);
}

int cache_database_open_bytes(void *bytes, size_t size, struct cache_database *database, char why[CACHE_WHY_SIZE])
{
    memset(database, 0, sizeof *database);
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY;
    int error = sqlite3_open_v2(":memory:", &database->handle, flags, NULL);
    if (error == SQLITE_OK) {
        /* Frees the bytes when it fails, too. */
        error = sqlite3_deserialize(database->handle, "main", bytes, (sqlite3_int64)size, (sqlite3_int64)size,
                                    SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_READONLY);
    } else {
        sqlite3_free(bytes);
    }
    return check_pack(database, settle_pack(database, error, why), why);
}

int cache_database_create_pack(const char *path, struct cache_database *database, char why[CACHE_WHY_SIZE])
{
    memset(database, 0, sizeof *database);
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_READWRITE;
    int error = settle_pack(database, sqlite3_open_v2(path, &database->handle, flags, NULL), why);
    if (error == SQLITE_OK) {
        /* Nobody sees the file before it is whole; the rename that shows it comes after a sync. */
        error = sqlite3_exec(database->handle, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF", NULL, NULL, NULL);
        error = error == SQLITE_OK ? create_schema(database) : error;
        error = explain(database, error, "cannot make the tables", why);
    }
    if (error != SQLITE_OK) {
        cache_database_close(database, false);
    }
    return error;
}

void cache_database_close(struct cache_database *database, bool checkpoint)
{
    if (database->handle && !checkpoint) {
        (void)sqlite3_db_config(database->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    }
    for (size_t i = 0; i < CACHE_SQL_COUNT; i++) {
        (void)sqlite3_finalize(database->statements[i]);
    }
    (void)sqlite3_close(database->handle);
    memset(database, 0, sizeof *database);
}
