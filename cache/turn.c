/*
 * Turns: one byte of the side file for each key, locked while a process compiles that kernel. The lock belongs to the open
 * file, not to the process (F_OFD_SETLK): another close() of the file in this process does not drop it, and two handles of
 * one process exclude each other as two processes do.
 */
#define _GNU_SOURCE /* F_OFD_SETLK */
#include "cache/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SEARCH_MS 100 /* for the holder, in the processes that there are */

/* ---- Locks -------------------------------------------------------------------------------------------------------- */

int cache_lock_open(const struct cache_folder *folder, char why[CACHE_WHY_SIZE])
{
    int fd = openat(folder->fd, CACHE_LOCK_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
    if (fd < 0) {
        cache_why(why, "cannot open %s/%s: %s", folder->path, CACHE_LOCK_NAME, strerror(errno));
        return -1;
    }
    struct stat status;
    if (fstat(fd, &status) == 0 && folder->shared && status.st_uid == geteuid()) {
        (void)fchmod(fd, 0660);
    }
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        cache_why(why, "%s/%s is not a regular file; remove it", folder->path, CACHE_LOCK_NAME);
        (void)close(fd);
        return -1;
    }
    return fd;
}

int cache_lock_try(int fd, off_t offset)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = offset, .l_len = 1};
    int error;
    do {
        error = fcntl(fd, F_OFD_SETLK, &lock) == 0 ? 0 : errno;
    } while (error == EINTR);
    return error == EACCES ? EAGAIN : error;
}

static off_t offset_of(const struct cache_key *key)
{
    uint64_t bits = 0;
    for (int i = 0; i < 8; i++) {
        bits = bits << 8 | key->bytes[i];
    }
    return (off_t)(bits >> 2);
}

/* ---- Fork ---------------------------------------------------------------------------------------------------------- */

/*
 * A child gets the parent's open files, and a lock lives until the last of them is closed: a child that outlives its
 * parent would keep the turn of a compile that nobody does. So the child closes them at once.
 */
static pthread_mutex_t held_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct cache_turn *held;

static void before_fork(void)
{
    (void)pthread_mutex_lock(&held_mutex);
}

static void after_fork_in_parent(void)
{
    (void)pthread_mutex_unlock(&held_mutex);
}

static void after_fork_in_child(void)
{
    for (struct cache_turn *turn = held; turn; turn = turn->next) {
        (void)close(turn->fd);
        turn->fd = -1;
    }
    held = NULL;
    (void)pthread_mutex_unlock(&held_mutex);
}

static void watch_forks(void)
{
    (void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

static void hold(struct cache_turn *turn, int fd)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, watch_forks);
    (void)pthread_mutex_lock(&held_mutex);
    turn->fd = fd;
    turn->next = held;
    held = turn;
    (void)pthread_mutex_unlock(&held_mutex);
}

/* ---- Turns ------------------------------------------------------------------------------------------------------- */

void cache_turn_init(struct cache_turn *turn)
{
    turn->fd = -1;
    turn->next = NULL;
}

static void say_no_lock(struct cache *cache, const char *why)
{
    if (cache_say_first(cache, CACHE_SAID_NO_LOCK)) {
        cache_say(cache, CACHE_LOG_INFO,
                  "kernel cache %s: %s. Processes that need the same kernel at the same time each compile it",
                  cache->path, why);
    }
}

/* Inside. Whoever can store nothing has nothing that others could wait for. */
static bool open_turn(struct cache *cache, struct cache_turn *turn)
{
    if (cache->database.read_only || cache->writes_off) {
        return false;
    }
    char why[CACHE_WHY_SIZE];
    struct cache_folder folder;
    int fd = -1;
    if (cache_folder_open_as(cache->dir, false, cache->shared, &folder, why)) {
        fd = cache_lock_open(&folder, why);
        cache_folder_close(&folder);
    }
    if (fd < 0) {
        say_no_lock(cache, why);
        return false;
    }
    hold(turn, fd);
    return true;
}

enum cache_turn_state cache_turn_try(struct cache *cache, const struct cache_key *key, struct cache_turn *turn)
{
    if (!cache_enter(cache)) {
        return CACHE_TURN_NONE;
    }
    enum cache_turn_state state = CACHE_TURN_NONE;
    if (turn->fd >= 0 || open_turn(cache, turn)) {
        int error = cache_lock_try(turn->fd, offset_of(key));
        if (error == 0) {
            state = CACHE_TURN_MINE;
        } else if (error == EAGAIN) {
            state = CACHE_TURN_TAKEN;
        } else {
            char why[CACHE_WHY_SIZE];
            cache_why(why, "its file system gives no locks: %s", strerror(error));
            say_no_lock(cache, why);
        }
    }
    cache_leave(cache);
    return state;
}

void cache_turn_end(struct cache_turn *turn)
{
    (void)pthread_mutex_lock(&held_mutex);
    for (struct cache_turn **link = &held; *link; link = &(*link)->next) {
        if (*link == turn) {
            *link = turn->next;
            break;
        }
    }
    /* Also in the child of a fork that has not closed its copy yet. */
    if (turn->fd >= 0) {
        struct flock all = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
        (void)fcntl(turn->fd, F_OFD_SETLK, &all);
        (void)close(turn->fd);
    }
    (void)pthread_mutex_unlock(&held_mutex);
    cache_turn_init(turn);
}

/* ---- Who has it ---------------------------------------------------------------------------------------------------- */

/*
 * The lock itself does not tell (the kernel answers -1 for locks of open files), and a number written into the file could
 * be that of a process that died. But /proc lists the locks of every open file of the processes that we may look into.
 */
struct search {
    unsigned long inode;
    off_t offset;
    struct timespec deadline;
};

static bool out_of_time(const struct search *search)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec > search->deadline.tv_sec ||
           (now.tv_sec == search->deadline.tv_sec && now.tv_nsec > search->deadline.tv_nsec);
}

/*
 * "lock: 1: OFDLCK ADVISORY  WRITE -1 fe:00:10953767 4611 4611": device, inode, first and last byte. The device is not
 * compared: some file systems (btrfs, overlays) tell another one here than fstat does.
 */
static bool line_is_ours(const struct search *search, const char *line)
{
    const char *at = strstr(line, " WRITE ");
    if (strncmp(line, "lock:", 5) != 0 || !at) {
        return false;
    }
    const char *inode = strrchr(at, ':');
    if (!inode) {
        return false;
    }
    char *end;
    unsigned long number = strtoul(inode + 1, &end, 10);
    return number == search->inode && *end == ' ' && strtoll(end, NULL, 10) == (long long)search->offset;
}

static bool file_is_ours(const struct search *search, int folder, const char *name)
{
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (!file) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return false;
    }
    char line[256];
    bool ours = false;
    while (!ours && fgets(line, sizeof line, file)) {
        ours = line_is_ours(search, line);
    }
    (void)fclose(file);
    return ours;
}

static bool process_is_holder(const struct search *search, const char *process)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%.20s/fdinfo", process);
    DIR *files = opendir(path);
    bool found = false;
    for (const struct dirent *entry = files ? readdir(files) : NULL; entry && !found; entry = readdir(files)) {
        found = entry->d_name[0] != '.' && file_is_ours(search, dirfd(files), entry->d_name);
        if (out_of_time(search)) {
            break;
        }
    }
    if (files) {
        (void)closedir(files);
    }
    return found;
}

long cache_turn_holder(const struct cache_turn *turn, const struct cache_key *key)
{
    struct stat status;
    struct search search = {.offset = offset_of(key)};
    DIR *processes = turn->fd >= 0 && fstat(turn->fd, &status) == 0 ? opendir("/proc") : NULL;
    if (!processes) {
        return 0;
    }
    search.inode = (unsigned long)status.st_ino;
    (void)clock_gettime(CLOCK_MONOTONIC, &search.deadline);
    search.deadline.tv_nsec += SEARCH_MS * 1000000L;
    search.deadline.tv_sec += search.deadline.tv_nsec / 1000000000L;
    search.deadline.tv_nsec %= 1000000000L;
    long holder = 0;
    for (const struct dirent *entry = readdir(processes); entry && holder == 0; entry = readdir(processes)) {
        if (strspn(entry->d_name, "0123456789") == strlen(entry->d_name) && process_is_holder(&search, entry->d_name)) {
            holder = strtol(entry->d_name, NULL, 10);
        }
        if (out_of_time(&search)) {
            break;
        }
    }
    (void)closedir(processes);
    return holder;
}
