/*
 * A damaged database is renamed, never repaired and never deleted at once: a person may want to look at it. The renames
 * happen under a lock in a side file, which the kernel drops when its holder dies, and only while the name still leads
 * to the damaged file: of many processes that find the damage one renames, and none renames the new file.
 */
#include "cache/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ASIDE_MARK CACHE_FILE_NAME ".damaged-"
#define ASIDE_KEPT 3        /* damaged databases left for inspection, the newest ones */
#define ASIDE_NUMBERS 10000 /* of one process */
#define LOCK_ATTEMPTS 50    /* 20 ms apart */

/* Without a lock (none supported, holder stopped) the check of the identity alone must do. */
static int lock_folder(const struct cache_folder *folder)
{
    char why[CACHE_WHY_SIZE];
    int fd = cache_lock_open(folder, why);
    const struct timespec pause = {0, 20000000L};
    for (int i = 0; fd >= 0 && i < LOCK_ATTEMPTS && cache_lock_try(fd, CACHE_LOCK_MAINTENANCE) == EAGAIN; i++) {
        (void)nanosleep(&pause, NULL);
    }
    return fd;
}

static bool still_there(const struct cache_folder *folder, const struct cache_identity *damaged)
{
    struct stat status;
    return fstatat(folder->fd, CACHE_FILE_NAME, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           status.st_dev == damaged->device && status.st_ino == damaged->inode;
}

static bool find_free_name(const struct cache_folder *folder, char name[128])
{
    for (int i = 0; i < ASIDE_NUMBERS; i++) {
        struct stat status;
        (void)snprintf(name, 128, ASIDE_MARK "%ld-%d", (long)getpid(), i);
        if (fstatat(folder->fd, name, &status, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT) {
            return true;
        }
    }
    return false;
}

static void move_side_file(const struct cache_folder *folder, const char *suffix, const char *name)
{
    char from[160], to[160];
    (void)snprintf(from, sizeof from, CACHE_FILE_NAME "%s", suffix);
    (void)snprintf(to, sizeof to, "%s%s", name, suffix);
    (void)renameat(folder->fd, from, folder->fd, to);
}

static const char *const side_suffixes[] = {"-wal", "-shm", "-journal"};

static void remove_with_side_files(const struct cache_folder *folder, const char *name)
{
    (void)unlinkat(folder->fd, name, 0);
    for (size_t i = 0; i < sizeof side_suffixes / sizeof side_suffixes[0]; i++) {
        char side[512];
        (void)snprintf(side, sizeof side, "%s%s", name, side_suffixes[i]);
        (void)unlinkat(folder->fd, side, 0);
    }
}

static bool is_aside_name(const char *name)
{
    size_t length = strlen(name);
    if (length > 255 || strncmp(name, ASIDE_MARK, sizeof ASIDE_MARK - 1) != 0) {
        return false;
    }
    return strspn(name + sizeof ASIDE_MARK - 1, "0123456789-") == length - (sizeof ASIDE_MARK - 1);
}

/* The oldest set-aside database and how many there are. */
static size_t find_oldest(DIR *entries, const struct cache_folder *folder, char oldest[256])
{
    size_t count = 0;
    struct timespec when = {0, 0};
    rewinddir(entries);
    for (const struct dirent *entry = readdir(entries); entry; entry = readdir(entries)) {
        struct stat status;
        if (!is_aside_name(entry->d_name) || fstatat(folder->fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
            continue;
        }
        if (count++ == 0 || status.st_ctim.tv_sec < when.tv_sec ||
            (status.st_ctim.tv_sec == when.tv_sec && status.st_ctim.tv_nsec < when.tv_nsec)) {
            when = status.st_ctim;
            (void)snprintf(oldest, 256, "%s", entry->d_name);
        }
    }
    return count;
}

/* A disk that damages files again and again must not be filled with them. */
static void remove_oldest(const struct cache_folder *folder)
{
    int fd = openat(folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = fd >= 0 ? fdopendir(fd) : NULL;
    if (!entries) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return;
    }
    char oldest[256];
    size_t count = find_oldest(entries, folder, oldest);
    while (count > ASIDE_KEPT) {
        remove_with_side_files(folder, oldest);
        size_t left = find_oldest(entries, folder, oldest);
        count = left < count ? left : 0;
    }
    (void)closedir(entries);
}

int64_t cache_aside_count(const struct cache_folder *folder, bool remove)
{
    int64_t count = 0;
    int fd = openat(folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = fd >= 0 ? fdopendir(fd) : NULL;
    if (!entries) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return 0;
    }
    for (const struct dirent *entry = readdir(entries); entry; entry = readdir(entries)) {
        if (is_aside_name(entry->d_name)) {
            count++;
            if (remove) {
                remove_with_side_files(folder, entry->d_name);
            }
        }
    }
    (void)closedir(entries);
    return count;
}

/* ---- Once in a process -------------------------------------------------------------------------------------------- */

/* The folders in which this process has renamed a database. */
struct aside_done {
    struct aside_done *next;
    pid_t process; /* a child of a fork is another one */
    char folder[];
};
static struct aside_done *all_done;
static pthread_mutex_t done_lock = PTHREAD_MUTEX_INITIALIZER;

static bool done_before(const char *folder)
{
    const pid_t self = getpid();
    pthread_mutex_lock(&done_lock);
    const struct aside_done *done = all_done;
    while (done && (done->process != self || strcmp(done->folder, folder) != 0)) {
        done = done->next;
    }
    pthread_mutex_unlock(&done_lock);
    return done != NULL;
}

/* Lack of memory only loses the note. */
static void done_note(const char *folder)
{
    size_t size = strlen(folder) + 1;
    struct aside_done *done = malloc(sizeof *done + size);
    if (!done) {
        return;
    }
    memcpy(done->folder, folder, size);
    done->process = getpid();
    pthread_mutex_lock(&done_lock);
    done->next = all_done;
    all_done = done;
    pthread_mutex_unlock(&done_lock);
}

void cache_aside_forget(void)
{
    pthread_mutex_lock(&done_lock);
    while (all_done) {
        struct aside_done *next = all_done->next;
        free(all_done);
        all_done = next;
    }
    pthread_mutex_unlock(&done_lock);
}

static bool rename_all(const struct cache_folder *folder, char name[128], char why[CACHE_WHY_SIZE])
{
    if (done_before(folder->path)) {
        cache_why(why, "this process has set one aside before; check the disk");
        return false;
    }
    bool gone = find_free_name(folder, name);
    /* Side files first: a log without its database is deleted by SQLite, but a log must not meet a new database. */
    for (size_t i = 0; gone && i < sizeof side_suffixes / sizeof side_suffixes[0]; i++) {
        move_side_file(folder, side_suffixes[i], name);
    }
    gone = gone && renameat(folder->fd, CACHE_FILE_NAME, folder->fd, name) == 0;
    if (gone) {
        done_note(folder->path);
        remove_oldest(folder);
    } else {
        cache_why(why, "cannot rename %s/%s: %s", folder->path, CACHE_FILE_NAME, strerror(errno));
    }
    return gone;
}

bool cache_file_set_aside(const struct cache_folder *folder, const struct cache_identity *damaged, char name[128],
                          char why[CACHE_WHY_SIZE])
{
    int lock = lock_folder(folder);
    bool gone = true;
    name[0] = '\0';
    if (still_there(folder, damaged)) {
        gone = rename_all(folder, name, why);
    }
    if (lock >= 0) {
        (void)close(lock);
    }
    return gone;
}
