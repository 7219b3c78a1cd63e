/*
 * What the files of cache/ share and nobody else sees.
 *
 * Layers, lower ones first: hash.c, key.c, blob.c, path.c and aside.c know no database; sqlite.c knows SQLite but no entries;
 * entry.c maps a row to an entry and back; handle.c owns the connection, its lock and every decision after a failure;
 * recency.c, evict.c, store.c, query.c and turn.c are what callers ask for. docs/cache.md says what is promised.
 */
#ifndef GDPA_CACHE_INTERNAL_H
#define GDPA_CACHE_INTERNAL_H

#include "cache/cache.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <sys/types.h>

/* A new schema is a new number, hence a new file: no file is ever migrated, and versions live side by side. */
#define CACHE_SCHEMA 1
#define CACHE_FILE_NAME "kernels-v1.sqlite3"
#define CACHE_LOCK_NAME "kernels-v1.lock"
#define CACHE_APPLICATION_ID 0x67647061 /* "gdpa" */

#define CACHE_WHY_SIZE 1024
#define CACHE_HASH_SIZE 16
#define CACHE_VALUE_MAX (INT64_C(256) << 20) /* bytes of one part; larger sizes can only come from damage */

/* gdpa_log_level of the public header, which this folder does not include. */
enum cache_log_level { CACHE_LOG_WARN = 3, CACHE_LOG_INFO = 4, CACHE_LOG_DEBUG = 5 };

/* ---- hash.c: XXH3-128, in the byte order that is the same on every machine ------------------------------------ */

void cache_hash(uint64_t seed, const struct cache_bytes *parts, size_t count, uint8_t hash[CACHE_HASH_SIZE]);
void cache_store_u64(uint8_t bytes[8], uint64_t value); /* little endian */

/* ---- key.c --------------------------------------------------------------------------------------------------- */

/* One part as it is in every key material that has it; malloced, no data on lack of memory. */
struct cache_bytes cache_key_part_bytes(const struct cache_key_part *part);

/* ---- arena: the memory behind the pointers of an entry --------------------------------------------------------- */

struct cache_arena;

/* At least one byte, aligned for anything; NULL on lack of memory. */
void *cache_arena_take(struct cache_arena **arena, size_t size);
void cache_arena_free(struct cache_arena *arena);

/* ---- blob.c ---------------------------------------------------------------------------------------------------- */

enum cache_codec { CACHE_CODEC_RAW = 0, CACHE_CODEC_ZSTD = 1 };

/* Kinds of blobs: those of enum cache_aux, and the code. */
enum { CACHE_KIND_CODE = 255 };

/* A blob as it is stored. */
struct cache_blob {
    int64_t codec;
    int64_t raw_size;
    uint8_t hash[CACHE_HASH_SIZE]; /* of key, kind, raw size and raw bytes: a blob of another entry never passes */
    struct cache_bytes stored;
    void *owned; /* what cache_blob_deinit frees; NULL when `stored` is borrowed */
};

void cache_blob_hash(const struct cache_key *key, int kind, const struct cache_bytes *raw,
                     uint8_t hash[CACHE_HASH_SIZE]);
/* Compresses when that makes it smaller. */
enum cache_result cache_blob_pack(const struct cache_key *key, int kind, const struct cache_bytes *raw,
                                  struct cache_blob *blob);
/* CACHE_MISS: codec, size or hash is wrong. */
enum cache_result cache_blob_unpack(const struct cache_key *key, int kind, const struct cache_blob *blob,
                                    struct cache_arena **arena, struct cache_bytes *raw);
void cache_blob_deinit(struct cache_blob *blob);

/* ---- path.c and aside.c ----------------------------------------------------------------------------------------- */

struct cache_folder {
    int fd;
    char *path;    /* without symbolic links */
    bool writable; /* by this process */
    bool shared;   /* what is made here can be written by the group */
    bool network;  /* shared memory and locks cannot be relied on */
};

/* What tells one file from another that took its name. */
struct cache_identity {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec changed;
};

enum cache_file_state { CACHE_FILE_GOOD, CACHE_FILE_ABSENT, CACHE_FILE_REFUSED };

/* "dir/CACHE_FILE_NAME" from the root on, without touching the disk; NULL on lack of memory. */
char *cache_path_make(const char *dir);
bool cache_path_is_network(uint64_t file_system_type);
/* Makes the folder (0700) and its parents when asked to. On false, `why` says what is wrong with it. */
bool cache_folder_open(const char *dir, bool create, struct cache_folder *folder, char why[CACHE_WHY_SIZE]);
/* With `shared` a folder and files that a group of this process can write are accepted, whoever of it made them. */
bool cache_folder_open_as(const char *dir, bool create, bool shared, struct cache_folder *folder,
                          char why[CACHE_WHY_SIZE]);
void cache_folder_close(struct cache_folder *folder);
enum cache_file_state cache_file_check(const struct cache_folder *folder, const char *name,
                                       struct cache_identity *identity, char why[CACHE_WHY_SIZE]);
/* An empty file, 0600, without ever opening it; true too when another process was first. */
bool cache_file_create(const struct cache_folder *folder, const char *name, char why[CACHE_WHY_SIZE]);
bool cache_identity_same_file(const struct cache_identity *a, const struct cache_identity *b);
bool cache_identity_unchanged(const struct cache_identity *a, const struct cache_identity *b);
bool cache_identity_of(const char *path, struct cache_identity *identity);
/* Of the database and all files beside it that start with its name. */
int64_t cache_folder_bytes(const struct cache_folder *folder);
void cache_why(char why[CACHE_WHY_SIZE], const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Renames the damaged database and its side files, unless somebody else did (then *name is empty). False when the
 * damaged file is still there: a process renames once in a folder, whatever the number of its handles, so that a disk
 * that damages every new file is not filled with them.
 */
bool cache_file_set_aside(const struct cache_folder *folder, const struct cache_identity *damaged, char name[128],
                          char why[CACHE_WHY_SIZE]);

/* As in a new process: for tests. */
void cache_aside_forget(void);

/* Removes what was set aside, or counts it only; how many. */
int64_t cache_aside_count(const struct cache_folder *folder, bool remove);

/* ---- turn.c: locks in CACHE_LOCK_NAME, for a moment or while a kernel is compiled --------------------------------- */

#define CACHE_LOCK_MAINTENANCE ((off_t)1 << 62) /* offsets below it are those of keys */
#define CACHE_LOCK_TRIAL (CACHE_LOCK_MAINTENANCE + 1)

/* The side file, made when absent; -1 when it cannot be had, with the reason. */
int cache_lock_open(const struct cache_folder *folder, char why[CACHE_WHY_SIZE]);
/* 0, or an errno: EAGAIN when another descriptor has it. Closing the descriptor unlocks. */
int cache_lock_try(int fd, off_t offset);

/* ---- sqlite.c --------------------------------------------------------------------------------------------------- */

enum cache_statement {
    CACHE_SQL_BEGIN_READ,
    CACHE_SQL_BEGIN_WRITE,
    CACHE_SQL_COMMIT,
    CACHE_SQL_ENTRY,
    CACHE_SQL_CODE,
    CACHE_SQL_AUX,
    CACHE_SQL_AUX_SIZES,
    CACHE_SQL_LIST,
    CACHE_SQL_KEYS,
    CACHE_SQL_FIND,
    CACHE_SQL_COUNT_ENTRIES,
    CACHE_SQL_ID_OF_KEY,
    CACHE_SQL_INSERT_ENTRY,
    CACHE_SQL_INSERT_CODE,
    CACHE_SQL_INSERT_AUX,
    CACHE_SQL_INSERT_USE,
    CACHE_SQL_TICK,
    CACHE_SQL_TOUCH,
    CACHE_SQL_DELETE_ENTRY,
    CACHE_SQL_DELETE_CODE,
    CACHE_SQL_DELETE_AUX,
    CACHE_SQL_DELETE_USE,
    CACHE_SQL_OLDEST_WITH_AUX,
    CACHE_SQL_OLDEST_FOREIGN,
    CACHE_SQL_OLDEST,
    CACHE_SQL_COUNT_FOREIGN,
    CACHE_SQL_COUNT_PARTS,
    CACHE_SQL_PART_BYTES,
    CACHE_SQL_PAGE_COUNT,
    CACHE_SQL_FREE_PAGES,
    CACHE_SQL_PAGE_SIZE,
    CACHE_SQL_COUNT
};

struct cache_database {
    sqlite3 *handle;
    sqlite3_stmt *statements[CACHE_SQL_COUNT]; /* made on first use */
    struct cache_identity identity;
    bool read_only;
    bool immutable; /* read without locks: the folder cannot be written, so nobody tells us of changes */
    bool network;
};

#define CACHE_BUSY_MS 250
#define CACHE_CHECKPOINT_PAGES 1000 /* what SQLite does by itself */
#define CACHE_BUSY_CREATE_MS 2000

/*
 * SQLITE_OK or an SQLite error, with `why`: CORRUPT and NOTADB for a file to be set aside, MISMATCH for one of a newer
 * version, NOTFOUND when there is no file and none may be made, BUSY when it is locked.
 */
int cache_database_open(const struct cache_folder *folder, bool read_only, int busy_ms, struct cache_database *database,
                        char why[CACHE_WHY_SIZE]);
/* A pack, never written: from its file without locks, or from bytes of sqlite3_malloc, which become the database's. */
int cache_database_open_pack(const char *path, struct cache_database *database, char why[CACHE_WHY_SIZE]);
int cache_database_open_bytes(void *bytes, size_t size, struct cache_database *database, char why[CACHE_WHY_SIZE]);
/* An empty file is filled with empty tables, to become a pack. */
int cache_database_create_pack(const char *path, struct cache_database *database, char why[CACHE_WHY_SIZE]);
/* Without a checkpoint the side files stay as they are: for files that are no longer ours to touch. */
void cache_database_close(struct cache_database *database, bool checkpoint);
sqlite3_stmt *cache_database_statement(struct cache_database *database, enum cache_statement id, int *error);
/* False when a statement no longer fits the tables: their definitions are damaged. */
bool cache_database_fits(struct cache_database *database);
/* Binds by `types` (i: int64_t, b: const struct cache_bytes *), runs to the end, resets. */
int cache_database_do(struct cache_database *database, enum cache_statement id, const char *types, ...);
/* The single number that a statement gives. */
int cache_database_number(struct cache_database *database, enum cache_statement id, int64_t *number);
int cache_database_begin_write(struct cache_database *database, int busy_ms);
/* Commits when error is SQLITE_OK, else rolls back; the first error. */
int cache_database_end(struct cache_database *database, int error);
int cache_database_delete(struct cache_database *database, int64_t id);

/* ---- entry.c ---------------------------------------------------------------------------------------------------- */

/* The columns that cache_row_read expects, in its order; k is kernel, u is use. */
#define CACHE_ROW_COLUMNS                                                                                              \
    "k.id, k.key, k.row_hash, k.code_hash, k.code_size, k.arch, k.registers, k.spill_bytes, k.stack_bytes, "           \
    "k.smem_static, k.smem_dynamic, k.threads, k.generate_ms, k.compile_ms, k.name, k.spec, k.target, k.nvrtc, "       \
    "k.source_hash, k.material, coalesce(u.sequence, 0), coalesce(u.hits, 0)"

struct cache_row {
    int64_t id;
    uint8_t code_hash[CACHE_HASH_SIZE];
    struct cache_entry entry; /* code.data is NULL, code.size is filled in */
    struct cache_arena *arena;
};

/* CACHE_MISS: the row's own hash does not fit its columns; row->id is set all the same. */
enum cache_result cache_row_read(sqlite3_stmt *statement, struct cache_row *row);
/* Binds every column but the id to CACHE_SQL_INSERT_ENTRY. */
int cache_row_bind(sqlite3_stmt *statement, const struct cache_entry *entry, const uint8_t code_hash[CACHE_HASH_SIZE]);

/* ---- recency.c -------------------------------------------------------------------------------------------------- */

struct cache_touch {
    struct cache_key key;
    uint32_t hits; /* not yet written */
    bool taken;
    bool written; /* its place in the order of use is on disk for this process */
};

/* The keys that this process has used: an open-addressing table. */
struct cache_recency {
    struct cache_touch *slots;
    size_t capacity, count;
    size_t waiting; /* keys with hits whose place was never written */
};

/* Lack of memory only loses the note. */
void cache_recency_note(struct cache_recency *recency, const struct cache_key *key);
void cache_recency_deinit(struct cache_recency *recency);
/* Inside a write transaction: writes what waits, or with `all` every hit not yet written. */
int cache_recency_write(struct cache_recency *recency, struct cache_database *database, bool all);
/* After the commit of such a transaction. */
void cache_recency_written(struct cache_recency *recency, bool all);

/* ---- handle.c --------------------------------------------------------------------------------------------------- */

/* How far the passes of one eviction have come. */
struct cache_eviction {
    int stage;    /* of evict.c */
    int64_t from; /* entries used before this have nothing left for this stage */
};

struct cache_text;
struct cache_pack;

struct cache {
    pthread_mutex_t mutex;
    atomic_ullong bad;     /* entries that failed their checks */
    atomic_ullong evicted; /* entries that had to make room */
    _Atomic(const char *) state;
    struct cache_text *states; /* every state there was, so that a borrowed string stays valid */

    char *dir, *path;
    bool read_only, shared;
    int64_t limit;
    struct cache_bytes version; /* the part of the key material as it is stored; owned */
    void (*log)(int level, const char *line, void *user);
    void *log_user;

    struct cache_pack *pack; /* of pack.c; NULL: a cache in a folder */

    /* Under the mutex. */
    int owner; /* the process that opened the database */
    bool open;
    unsigned generation; /* of the open database: a retry makes sense only on another one */
    struct cache_database database;
    bool writes_off;     /* full or failing disk: no more writes by this process */
    bool damaged_before; /* one file was set aside; a second time is given up */
    bool given_up;
    unsigned said; /* bits of enum cache_said */
    struct cache_recency recency;
    bool evicting; /* a pass ran out of time above the target */
    struct cache_eviction eviction;
};

enum cache_said {
    CACHE_SAID_READ_ONLY = 1,
    CACHE_SAID_READ_ERROR = 2,
    CACHE_SAID_WRITE_ERROR = 4,
    CACHE_SAID_NO_LOCK = 8
};

/* Takes the mutex and makes sure of a database. False: the call cannot be served (the mutex is not held). */
bool cache_enter(struct cache *cache);
void cache_leave(struct cache *cache);
/* Inside: whether writes are possible; says once when they are not. Re-opens a database that was replaced. */
bool cache_may_write(struct cache *cache);
/* Inside: true when the file under the name is no longer the open one and was opened instead. */
bool cache_reopen_if_moved(struct cache *cache);
/* Inside, after a hit: writes the order of use now when that is cheap, else later. */
void cache_note_use(struct cache *cache, const struct cache_key *key);
/* Inside: what an SQLite error means for the caller, after doing what it asks for (set aside, stop writing, say so). */
enum cache_result cache_failed(struct cache *cache, int error, bool writing, const char *doing);
/* Inside: true the first time for each bit of enum cache_said. */
bool cache_say_first(struct cache *cache, enum cache_said what);
void cache_say(struct cache *cache, int level, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- pack.c ------------------------------------------------------------------------------------------------------- */

/* Opens the database of a pack; false, with the reason, when it is not one or not trusted. */
bool cache_pack_open_database(struct cache *cache, char why[CACHE_WHY_SIZE]);
void cache_pack_free(struct cache_pack *pack);

/* ---- evict.c, store.c ------------------------------------------------------------------------------------------- */

/* Inside, after a commit: one pass of bounded time towards the size limit. */
void cache_evict(struct cache *cache, int64_t keep_id);
/* Inside: all of it, however long that takes. An SQLite error. */
int cache_evict_fully(struct cache *cache, int64_t limit);
/* Inside, after SQLITE_FULL: frees a little where that is possible without room. False: nothing was freed. */
bool cache_make_room(struct cache *cache);
/* Inside: removes rows that belong to no entry. An SQLite error. */
int cache_sweep(struct cache *cache);
int cache_used_bytes(struct cache_database *database, int64_t *bytes);
/* Inside: the entry with all its checks. A bad one is removed. */
enum cache_result cache_read(struct cache *cache, const struct cache_key *key, const struct cache_bytes *material,
                             bool with_aux, struct cache_entry *out);

#endif
