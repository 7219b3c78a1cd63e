/*
 * The handle: its lock, the open database, and every decision after a failure. The rules are in docs/cache.md ("What
 * to do when"); the aim of all of them is that a cache in any state costs at most a compile, never a wrong kernel and
 * never an error of the computation.
 */
#include "cache/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct cache_text {
    struct cache_text *next;
    char text[];
};

/*
 * SQLite and our mutexes do not survive a fork while another thread is inside of them: such a child runs without a
 * cache. These belong to the process, not to a handle, because SQLite's own locks do. A child that finds `inside` at 0
 * closes what it inherited and opens its own connection.
 */
static atomic_int process;
static atomic_int inside;
static atomic_bool stuck;

static bool process_is_sound(void)
{
    int self = (int)getpid();
    int last = atomic_load(&process);
    if (last != self) {
        if (last != 0 && atomic_load(&inside) != 0) {
            atomic_store(&stuck, true);
        }
        atomic_store(&process, self);
    }
    return !atomic_load(&stuck);
}

/* ---- What is said ------------------------------------------------------------------------------------------------ */

void cache_say(struct cache *cache, int level, const char *format, ...)
{
    if (!cache->log) {
        return;
    }
    char line[CACHE_WHY_SIZE + 512];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    cache->log(level, line, cache->log_user);
}

bool cache_say_first(struct cache *cache, enum cache_said what)
{
    bool first = (cache->said & what) == 0;
    cache->said |= what;
    return first;
}

/* False when that was the state already. */
static bool set_state(struct cache *cache, const char *text)
{
    if (strcmp(atomic_load(&cache->state), text) == 0) {
        return false;
    }
    for (const struct cache_text *known = cache->states; known; known = known->next) {
        if (strcmp(known->text, text) == 0) {
            atomic_store(&cache->state, known->text);
            return true;
        }
    }
    size_t size = strlen(text) + 1;
    struct cache_text *added = malloc(sizeof *added + size);
    if (!added) {
        atomic_store(&cache->state, "out of memory");
        return true;
    }
    memcpy(added->text, text, size);
    added->next = cache->states;
    cache->states = added;
    atomic_store(&cache->state, added->text);
    return true;
}

static void set_unusable(struct cache *cache, int level, const char *why)
{
    if (set_state(cache, why)) {
        cache_say(cache, level, "%s %s cannot be used: %s%s", cache->pack ? "pack" : "kernel cache", cache->path, why,
                  cache->pack ? "" : ". Compiled kernels are kept in memory only");
    }
}

static void set_read_only(struct cache *cache, const char *why)
{
    char text[CACHE_WHY_SIZE + 16];
    (void)snprintf(text, sizeof text, "read-only: %s", why);
    (void)set_state(cache, text);
}

/* ---- Open and close ---------------------------------------------------------------------------------------------- */

static void close_database(struct cache *cache, bool checkpoint)
{
    if (cache->open) {
        cache_database_close(&cache->database, checkpoint);
        cache->open = false;
    }
}

static bool is_damage(int error)
{
    int primary = error & 0xff;
    /* A constraint: there is a row where none can be. */
    return primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB || primary == SQLITE_CONSTRAINT;
}

/*
 * The file is renamed at most once by a process (aside.c): a disk that damages the next one as well is not written again.
 * A handle that finds its second damage gives up whoever renamed the first.
 */
static bool set_aside(struct cache *cache, const struct cache_folder *folder, const struct cache_identity *damaged,
                      const char *why)
{
    char name[128], problem[CACHE_WHY_SIZE], text[2 * CACHE_WHY_SIZE];
    if (cache->damaged_before) {
        cache->given_up = true;
        (void)snprintf(text, sizeof text, "it was damaged again (%s); check the disk", why);
        set_unusable(cache, CACHE_LOG_WARN, text);
        return false;
    }
    cache->damaged_before = true;
    if (!cache_file_set_aside(folder, damaged, name, problem)) {
        cache->given_up = true;
        (void)snprintf(text, sizeof text, "it is damaged (%s) and cannot be set aside: %s", why, problem);
        set_unusable(cache, CACHE_LOG_WARN, text);
        return false;
    }
    if (name[0] != '\0') {
        cache_say(cache, CACHE_LOG_WARN, "kernel cache %s is damaged (%s): set aside as %s, a new one is started",
                  cache->path, why, name);
    }
    return true;
}

static void describe_open(struct cache *cache, const struct cache_folder *folder)
{
    if (!cache->database.read_only) {
        if (!cache->writes_off) {
            (void)set_state(cache, "read-write");
        }
    } else if (cache->read_only) {
        (void)set_state(cache, "read-only");
    } else {
        set_read_only(cache, folder->writable ? "the file cannot be written" : "the folder cannot be written");
    }
}

static bool open_pack(struct cache *cache)
{
    char why[CACHE_WHY_SIZE];
    cache->open = cache_pack_open_database(cache, why);
    if (!cache->open) {
        set_unusable(cache, CACHE_LOG_WARN, why);
        return false;
    }
    cache->generation++;
    (void)set_state(cache, "read-only");
    return true;
}

/* One attempt, or two when a damaged file was in the way. */
static bool open_database(struct cache *cache, int busy_ms)
{
    char why[CACHE_WHY_SIZE];
    struct cache_folder folder;
    if (cache->given_up) {
        return false;
    }
    if (cache->pack) {
        return open_pack(cache);
    }
    if (!cache_folder_open_as(cache->dir, !cache->read_only, cache->shared, &folder, why)) {
        set_unusable(cache, CACHE_LOG_WARN, why);
        return false;
    }
    int error = cache_database_open(&folder, cache->read_only, busy_ms, &cache->database, why);
    bool ours = folder.writable && !cache->read_only;
    if (error != SQLITE_OK && is_damage(error) && ours) {
        const struct cache_identity damaged = cache->database.identity;
        if (!set_aside(cache, &folder, &damaged, why)) {
            cache_folder_close(&folder);
            return false;
        }
        error = cache_database_open(&folder, cache->read_only, busy_ms, &cache->database, why);
    }
    if (error == SQLITE_OK) {
        cache->open = true;
        cache->generation++;
        describe_open(cache, &folder);
    } else {
        /* Read-only on purpose and nothing there yet: nothing is wrong. */
        set_unusable(cache, error == SQLITE_NOTFOUND && cache->read_only ? CACHE_LOG_INFO : CACHE_LOG_WARN, why);
    }
    cache_folder_close(&folder);
    return error == SQLITE_OK;
}

static bool copy_options(struct cache *cache, const struct cache_options *options)
{
    cache->read_only = options->read_only;
    cache->shared = options->shared;
    cache->limit = options->limit_bytes > 0 ? options->limit_bytes : 0;
    cache->log = options->log;
    cache->log_user = options->log_user;
    if (options->version.data) {
        cache->version = cache_key_part_bytes(&options->version);
    }
    bool known = options->dir && options->dir[0] != '\0';
    cache->path = known ? cache_path_make(options->dir) : strdup("");
    cache->dir = cache->path ? strdup(cache->path) : NULL;
    if (!cache->dir || (options->version.data && !cache->version.data)) {
        return false;
    }
    char *slash = strrchr(cache->dir, '/');
    if (slash) {
        slash[slash == cache->dir ? 1 : 0] = '\0';
    }
    return true;
}

static void free_memory(struct cache *cache)
{
    free((void *)(uintptr_t)cache->version.data);
    free(cache->path);
    free(cache->dir);
    free(cache);
}

struct cache *cache_open(const struct cache_options *options)
{
    struct cache *cache = calloc(1, sizeof *cache);
    if (!cache) {
        return NULL;
    }
    atomic_init(&cache->state, "not open");
    atomic_init(&cache->bad, 0);
    atomic_init(&cache->evicted, 0);
    if (!copy_options(cache, options) || pthread_mutex_init(&cache->mutex, NULL) != 0) {
        free_memory(cache);
        return NULL;
    }
    cache->owner = (int)getpid();
    if (process_is_sound()) {
        atomic_fetch_add(&inside, 1);
        pthread_mutex_lock(&cache->mutex);
        (void)open_database(cache, CACHE_BUSY_CREATE_MS);
        cache_leave(cache);
    }
    return cache;
}

static int write_uses(struct cache *cache, bool all, int busy_ms)
{
    int error = cache_database_begin_write(&cache->database, busy_ms);
    if (error == SQLITE_OK) {
        error = cache_recency_write(&cache->recency, &cache->database, all);
        error = cache_database_end(&cache->database, error);
    }
    if (error == SQLITE_OK) {
        cache_recency_written(&cache->recency, all);
    }
    return error;
}

void cache_close(struct cache *cache)
{
    if (!cache || !process_is_sound()) {
        return; /* after an unlucky fork nothing of it can be touched */
    }
    bool own = cache->owner == (int)getpid();
    if (own && cache->open && !cache->database.read_only && !cache->writes_off && cache->recency.count > 0) {
        (void)write_uses(cache, true, CACHE_BUSY_MS);
    }
    close_database(cache, own);
    cache_recency_deinit(&cache->recency);
    cache_pack_free(cache->pack);
    while (cache->states) {
        struct cache_text *next = cache->states->next;
        free(cache->states);
        cache->states = next;
    }
    (void)pthread_mutex_destroy(&cache->mutex);
    free_memory(cache);
}

/* ---- Inside ------------------------------------------------------------------------------------------------------- */

bool cache_enter(struct cache *cache)
{
    if (!process_is_sound()) {
        return false;
    }
    atomic_fetch_add(&inside, 1);
    pthread_mutex_lock(&cache->mutex);
    int self = (int)getpid();
    if (cache->owner != self) {
        /* The parent goes on with its connection and writes its own uses. */
        close_database(cache, false);
        cache_recency_deinit(&cache->recency);
        cache->owner = self;
    }
    if (cache->open || open_database(cache, CACHE_BUSY_MS)) {
        return true;
    }
    cache_leave(cache);
    return false;
}

void cache_leave(struct cache *cache)
{
    pthread_mutex_unlock(&cache->mutex);
    atomic_fetch_sub(&inside, 1);
}

bool cache_reopen_if_moved(struct cache *cache)
{
    struct cache_identity now;
    if (cache->open) {
        bool there = cache_identity_of(cache->path, &now);
        if (there && (cache->database.immutable ? cache_identity_unchanged(&now, &cache->database.identity)
                                                : cache_identity_same_file(&now, &cache->database.identity))) {
            return false;
        }
        cache_say(cache, CACHE_LOG_INFO, "kernel cache %s was %s by another process: opened anew", cache->path,
                  there ? "replaced" : "removed");
        close_database(cache, false);
    }
    return open_database(cache, CACHE_BUSY_MS);
}

bool cache_may_write(struct cache *cache)
{
    (void)cache_reopen_if_moved(cache);
    if (!cache->open) {
        return false;
    }
    if (!cache->database.read_only && !cache->writes_off) {
        return true;
    }
    if (cache_say_first(cache, CACHE_SAID_READ_ONLY) && !cache->writes_off) {
        cache_say(cache, cache->read_only ? CACHE_LOG_INFO : CACHE_LOG_WARN,
                  "kernel cache %s is %s: what is compiled now is kept in memory only", cache->path,
                  cache_state(cache));
    }
    return false;
}

/*
 * The first write into an empty log syncs its head: some 7 ms of the way to a first launch (measured on ext4), for notes
 * that may be lost. Without it a power cut just then can damage the file, which is noticed and costs compiles. A
 * checkpoint is never done in this mode.
 */
static int write_uses_unsynced(struct cache *cache)
{
    sqlite3 *handle = cache->database.handle;
    (void)sqlite3_wal_autocheckpoint(handle, 0);
    (void)sqlite3_exec(handle, "PRAGMA synchronous = OFF", NULL, NULL, NULL);
    int error = write_uses(cache, false, 0);
    (void)sqlite3_exec(handle, "PRAGMA synchronous = NORMAL", NULL, NULL, NULL);
    (void)sqlite3_wal_autocheckpoint(handle, CACHE_CHECKPOINT_PAGES);
    return error;
}

void cache_note_use(struct cache *cache, const struct cache_key *key)
{
    if (cache->database.read_only || cache->writes_off) {
        return;
    }
    cache_recency_note(&cache->recency, key);
    /* A rollback journal on a network file system costs several round trips: only together, or with the next write. */
    size_t worth = cache->database.network ? 64 : 1;
    if (cache->recency.waiting < worth) {
        return;
    }
    int error = cache->database.network ? write_uses(cache, false, 0) : write_uses_unsynced(cache);
    if (error != SQLITE_OK && (error & 0xff) != SQLITE_BUSY) {
        (void)cache_failed(cache, error, true, "note a use");
    }
}

/* ---- Failures ------------------------------------------------------------------------------------------------------ */

static void replace_damaged(struct cache *cache, int error, const char *doing)
{
    char why[CACHE_WHY_SIZE], problem[CACHE_WHY_SIZE];
    bool told = sqlite3_errcode(cache->database.handle) != SQLITE_OK;
    cache_why(why, "cannot %s: %s (SQLite error %d)", doing,
              told ? sqlite3_errmsg(cache->database.handle) : sqlite3_errstr(error), error);
    const struct cache_identity damaged = cache->database.identity;
    bool ours = !cache->database.read_only && !cache->pack;
    close_database(cache, false);
    if (!ours) {
        set_unusable(cache, CACHE_LOG_WARN, why);
        return;
    }
    struct cache_folder folder;
    if (!cache_folder_open_as(cache->dir, true, cache->shared, &folder, problem)) {
        set_unusable(cache, CACHE_LOG_WARN, problem);
        return;
    }
    bool replaced = set_aside(cache, &folder, &damaged, why);
    cache_folder_close(&folder);
    if (replaced) {
        (void)open_database(cache, CACHE_BUSY_MS);
    }
}

static void stop_writing(struct cache *cache, int error, const char *doing)
{
    bool full = (error & 0xff) == SQLITE_FULL;
    cache->writes_off = true;
    set_read_only(cache, full ? "the disk is full" : "the disk cannot be written");
    if (cache_say_first(cache, CACHE_SAID_WRITE_ERROR)) {
        cache_say(cache, CACHE_LOG_WARN,
                  "kernel cache %s: cannot %s: %s (SQLite error %d). It is not written any more by this process; %s",
                  cache->path, doing, sqlite3_errstr(error), error,
                  full ? "free space, or set GDPAJIT_CACHE_DIR to another disk" : "check the disk");
    }
}

static void report_read(struct cache *cache, int error, const char *doing)
{
    if (cache_say_first(cache, CACHE_SAID_READ_ERROR)) {
        cache_say(cache, CACHE_LOG_WARN, "kernel cache %s: cannot %s: %s (SQLite error %d); taken as a miss",
                  cache->path, doing, sqlite3_errstr(error), error);
    }
}

enum cache_result cache_failed(struct cache *cache, int error, bool writing, const char *doing)
{
    const enum cache_result result = writing ? CACHE_UNUSABLE : CACHE_MISS;
    int primary = error & 0xff;
    if (primary == SQLITE_NOMEM || error == SQLITE_IOERR_NOMEM) {
        return CACHE_MEMORY;
    }
    if (is_damage(error) || (primary == SQLITE_ERROR && !cache_database_fits(&cache->database))) {
        replace_damaged(cache, error, doing);
    } else if (primary == SQLITE_BUSY || primary == SQLITE_LOCKED || primary == SQLITE_PROTOCOL) {
        cache_say(cache, CACHE_LOG_DEBUG, "kernel cache %s: cannot %s now: another process has it locked", cache->path,
                  doing);
    } else if (error == SQLITE_READONLY_DBMOVED) {
        (void)cache_reopen_if_moved(cache);
    } else if (primary == SQLITE_TOOBIG) {
        cache_say(cache, CACHE_LOG_WARN, "kernel cache %s: cannot %s: larger than %lld MiB", cache->path, doing,
                  (long long)(CACHE_VALUE_MAX >> 20));
    } else if (writing) {
        stop_writing(cache, error, doing);
    } else {
        report_read(cache, error, doing);
    }
    return result;
}

/* ---- Properties ------------------------------------------------------------------------------------------------------ */

const char *cache_path(const struct cache *cache)
{
    return cache->path;
}

bool cache_is_writable(const struct cache *cache)
{
    return !cache->pack && !cache->read_only;
}

const char *cache_state(const struct cache *cache)
{
    return atomic_load(&stuck) ? "the process was forked while the cache was in use" : atomic_load(&cache->state);
}

uint64_t cache_bad_entries(const struct cache *cache)
{
    return atomic_load(&cache->bad);
}

uint64_t cache_evicted(const struct cache *cache)
{
    return atomic_load(&cache->evicted);
}
