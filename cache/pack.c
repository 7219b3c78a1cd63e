/*
 * Packs: made beside their final name, packed tight, synced, shown by a rename; opened by their path, without locks.
 *
 * A pack that is opened is a cache whose database is read-only and whose open never makes, repairs or renames anything.
 * With a SHA-256 the file is read once, hashed, and used from memory: a file that changes afterwards changes nothing.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* realpath */
#endif
#include "cache/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_STEP ((size_t)1 << 16)
#define CACHE_FILES "kernels-v" /* how the names of all files of a cache begin, whatever their schema */

struct cache_pack {
    char sha256[CACHE_SHA256_HEX]; /* "": not given */
    char *target;                  /* of one that is being made: its final name; NULL: it is read */
    char *temporary;               /* its name until then; removed when it comes to nothing */
};

/* ---- Hash and rights --------------------------------------------------------------------------------------------- */

static void hash_hex(SHA2_CTX *context, char hex[CACHE_SHA256_HEX])
{
    uint8_t digest[SHA256_DIGEST_LENGTH];
    SHA256Final(digest, context);
    for (size_t i = 0; i < sizeof digest; i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    }
}

static int open_regular(const char *path, struct stat *status, char why[CACHE_WHY_SIZE])
{
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0 || fstat(file, status) != 0) {
        cache_why(why, "cannot open it: %s", strerror(errno));
    } else if (!S_ISREG(status->st_mode)) {
        cache_why(why, "it is not a regular file");
    } else {
        return file;
    }
    if (file >= 0) {
        (void)close(file);
    }
    return -1;
}

bool cache_file_sha256(const char *path, char hex[CACHE_SHA256_HEX], char *why, size_t why_size)
{
    struct stat status;
    char reason[CACHE_WHY_SIZE] = "";
    uint8_t *bytes = malloc(READ_STEP);
    int file = bytes ? open_regular(path, &status, reason) : -1;
    ssize_t count = file < 0 ? -1 : 1;
    SHA2_CTX context;
    SHA256Init(&context);
    while (count > 0) {
        count = read(file, bytes, READ_STEP);
        if (count > 0) {
            SHA256Update(&context, bytes, (size_t)count);
        }
    }
    if (file >= 0) {
        (void)close(file);
    }
    free(bytes);
    hash_hex(&context, hex);
    if (count < 0) {
        (void)snprintf(why, why_size, "%s: %s", path, reason[0] != '\0' ? reason : strerror(errno));
    }
    return count == 0;
}

/* Everything of the file, in memory that SQLite frees. */
static void *read_all(const char *path, size_t *size, char why[CACHE_WHY_SIZE])
{
    struct stat status;
    int file = open_regular(path, &status, why);
    if (file < 0) {
        return NULL;
    }
    size_t wanted = (size_t)status.st_size, done = 0;
    char *bytes = sqlite3_malloc64(wanted + 1);
    ssize_t count = bytes ? 1 : -1;
    while (count > 0 && done < wanted) {
        count = read(file, bytes + done, wanted - done);
        done += count > 0 ? (size_t)count : 0;
    }
    (void)close(file);
    if (!bytes || done < wanted) {
        cache_why(why, bytes ? "it cannot be read, or became shorter meanwhile" : "out of memory");
        sqlite3_free(bytes);
        return NULL;
    }
    *size = wanted;
    return bytes;
}

static bool owner_is_trusted(const struct stat *status, const char *path, char why[CACHE_WHY_SIZE])
{
    if (status->st_uid != geteuid() && status->st_uid != 0) {
        cache_why(why,
                  "it belongs to user %ld, neither to root nor to this one (%ld): name its SHA-256 "
                  "(%s@sha256:...), or copy it",
                  (long)status->st_uid, (long)geteuid(), path);
        return false;
    }
    if ((status->st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        cache_why(why, "others may write it (mode %03o): chmod go-w %s, or name its SHA-256 (%s@sha256:...)",
                  (unsigned)(status->st_mode & 0777), path, path);
        return false;
    }
    return true;
}

/* ---- Read -------------------------------------------------------------------------------------------------------- */

/* A file that is cut short, damaged or something else: SQLite's words do not say what to do. */
static bool is_a_pack(int error, char why[CACHE_WHY_SIZE])
{
    int primary = error & 0xff;
    if (primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB || primary == SQLITE_NOTFOUND ||
        primary == SQLITE_EMPTY) {
        char reason[CACHE_WHY_SIZE];
        (void)snprintf(reason, sizeof reason, "%s", why);
        cache_why(why, "it is no pack, or damaged, or not all of it is there (%.900s): copy or make it anew", reason);
    }
    return error == SQLITE_OK;
}

static bool open_hashed(struct cache *cache, char why[CACHE_WHY_SIZE])
{
    char found[CACHE_SHA256_HEX];
    size_t size = 0;
    void *bytes = read_all(cache->path, &size, why);
    if (!bytes) {
        return false;
    }
    SHA2_CTX context;
    SHA256Init(&context);
    SHA256Update(&context, bytes, size);
    hash_hex(&context, found);
    if (strcmp(found, cache->pack->sha256) != 0) {
        cache_why(why, "its SHA-256 is %s, not %s as was named: it is another file, or was changed", found,
                  cache->pack->sha256);
        sqlite3_free(bytes);
        return false;
    }
    return is_a_pack(cache_database_open_bytes(bytes, size, &cache->database, why), why);
}

bool cache_pack_open_database(struct cache *cache, char why[CACHE_WHY_SIZE])
{
    struct stat status;
    struct cache_identity identity;
    if (cache->pack->target) {
        cache_why(why, "it is being made, and is not there any more");
        return false;
    }
    int file = open_regular(cache->path, &status, why);
    if (file < 0) {
        return false;
    }
    (void)close(file); /* SQLite has no locks on a file that it reads as immutable */
    if (!cache_identity_of(cache->path, &identity)) {
        cache_why(why, "it went away while it was opened");
        return false;
    }
    if (identity.device != status.st_dev || identity.inode != status.st_ino) {
        cache_why(why, "it was replaced while it was opened");
        return false;
    }
    bool hashed = cache->pack->sha256[0] != '\0';
    if (hashed ? !open_hashed(cache, why)
               : !owner_is_trusted(&status, cache->path, why) ||
                     !is_a_pack(cache_database_open_pack(cache->path, &cache->database, why), why)) {
        return false;
    }
    cache->database.identity = identity;
    return true;
}

void cache_pack_free(struct cache_pack *pack)
{
    if (pack) {
        if (pack->temporary) {
            (void)unlink(pack->temporary);
        }
        free(pack->temporary);
        free(pack->target);
        free(pack);
    }
}

/* Takes `pack`; NULL on lack of memory. */
static struct cache *handle_make(char *path, struct cache_pack *pack)
{
    struct cache *cache = calloc(1, sizeof *cache);
    if (!cache || !path || !pack || pthread_mutex_init(&cache->mutex, NULL) != 0) {
        cache_pack_free(pack);
        free(path);
        free(cache);
        return NULL;
    }
    atomic_init(&cache->state, "not open");
    atomic_init(&cache->bad, 0);
    cache->path = path;
    cache->pack = pack;
    cache->owner = (int)getpid();
    return cache;
}

struct cache *cache_pack_open(const struct cache_pack_options *options)
{
    struct cache_pack *pack = calloc(1, sizeof *pack);
    char *path = realpath(options->path, NULL);
    if (!path) {
        path = strdup(options->path); /* opening it says what is wrong */
    }
    struct cache *cache = handle_make(path, pack);
    if (!cache) {
        return NULL;
    }
    if (options->sha256) {
        for (size_t i = 0; i < CACHE_SHA256_HEX - 1 && options->sha256[i] != '\0'; i++) {
            char digit = options->sha256[i];
            pack->sha256[i] = digit >= 'A' && digit <= 'F' ? (char)(digit - 'A' + 'a') : digit;
        }
    }
    cache->read_only = true;
    cache->log = options->log;
    cache->log_user = options->log_user;
    if (cache_enter(cache)) {
        cache_leave(cache);
    }
    return cache;
}

/* ---- Write ------------------------------------------------------------------------------------------------------- */

/*
 * Publishing replaces what has the name: that must be a pack that was there before, no device, folder or link, and none of
 * the files of a cache, whose log would be taken for that of the pack.
 */
static bool target_is_fit(const char *target, char why[CACHE_WHY_SIZE])
{
    struct stat status;
    const char *slash = strrchr(target, '/');
    const char *name = slash ? slash + 1 : target;
    if (name[0] == '\0') {
        cache_why(why, "%s", target[0] == '\0' ? "its name is empty" : "it names a folder; name a file in it");
    } else if (strncmp(name, CACHE_FILES, sizeof CACHE_FILES - 1) == 0) {
        cache_why(why, "%s... are the files of a cache; choose another name", CACHE_FILES);
    } else if (lstat(target, &status) != 0 || S_ISREG(status.st_mode)) {
        return true;
    } else if (S_ISLNK(status.st_mode)) {
        cache_why(why, "it is a symbolic link, which would be replaced; name the file that it leads to, or remove it");
    } else {
        cache_why(why, "it is %s; name a file", S_ISDIR(status.st_mode) ? "a folder" : "no regular file");
    }
    return false;
}

/* "FILE.tmp-XXXXXX" beside the final name, empty and readable by all who may read what this process makes. */
static char *temporary_make(const char *target, char why[CACHE_WHY_SIZE])
{
    size_t size = strlen(target) + sizeof ".tmp-XXXXXX";
    char *path = malloc(size);
    if (!path) {
        cache_why(why, "out of memory");
        return NULL;
    }
    (void)snprintf(path, size, "%s.tmp-XXXXXX", target);
    int file = mkstemp(path);
    if (file < 0) {
        cache_why(why, "cannot make %s: %s", path, strerror(errno));
        free(path);
        return NULL;
    }
    mode_t mask = umask(0);
    (void)umask(mask);
    (void)fchmod(file, 0644 & ~mask & ~(mode_t)022);
    (void)close(file);
    return path;
}

struct cache *cache_pack_create(const char *path, char *why, size_t why_size)
{
    char reason[CACHE_WHY_SIZE] = "out of memory";
    struct cache_pack *pack = calloc(1, sizeof *pack);
    if (pack) {
        pack->target = strdup(path);
    }
    if (pack && pack->target && target_is_fit(path, reason)) {
        pack->temporary = temporary_make(path, reason);
    }
    char *name = pack && pack->temporary ? strdup(pack->temporary) : NULL;
    struct cache *cache = handle_make(name, pack);
    if (cache && cache_database_create_pack(cache->path, &cache->database, reason) == SQLITE_OK &&
        cache_identity_of(cache->path, &cache->database.identity)) {
        cache->open = true;
        return cache;
    }
    (void)snprintf(why, why_size, "%s", reason);
    cache_close(cache);
    return NULL;
}

static bool sync_path(const char *path, int flags)
{
    int file = open(path, O_RDONLY | O_CLOEXEC | flags);
    bool good = file >= 0 && fsync(file) == 0;
    if (file >= 0) {
        (void)close(file);
    }
    return good;
}

static void sync_folder_of(const char *path)
{
    char *folder = strdup(path);
    char *slash = folder ? strrchr(folder, '/') : NULL;
    if (slash) {
        slash[slash == folder ? 1 : 0] = '\0';
    }
    (void)sync_path(slash ? folder : ".", O_DIRECTORY);
    free(folder);
}

bool cache_pack_publish(struct cache *pack, char *why, size_t why_size)
{
    /* VACUUM needs a journal of its own, which it makes elsewhere. */
    int error = sqlite3_exec(pack->database.handle,
                             "DELETE FROM use; UPDATE meta SET value = 0 WHERE name = 'sequence';"
                             "PRAGMA journal_mode = DELETE; PRAGMA auto_vacuum = NONE; VACUUM",
                             NULL, NULL, NULL);
    if (error != SQLITE_OK) {
        (void)snprintf(why, why_size, "%s: %s (SQLite error %d)", pack->path, sqlite3_errmsg(pack->database.handle),
                       error);
        return false;
    }
    cache_database_close(&pack->database, true);
    pack->open = false;
    if (!sync_path(pack->path, 0) || rename(pack->path, pack->pack->target) != 0) {
        (void)snprintf(why, why_size, "%s cannot become %s: %s", pack->path, pack->pack->target, strerror(errno));
        return false;
    }
    free(pack->pack->temporary);
    pack->pack->temporary = NULL;
    sync_folder_of(pack->pack->target);
    return true;
}
