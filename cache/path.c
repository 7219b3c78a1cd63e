/*
 * The folder and the file of the cache: made, checked, refused. A kernel runs with all rights of the process, so bytes
 * are taken only from a folder and a file that nobody else can write. What does not pass is left as it is ("not
 * repaired") with a message that says what to change.
 *
 * The database file is never opened here: closing any descriptor of it would drop the locks that SQLite holds on it in
 * this process.
 */
#define _GNU_SOURCE /* mknodat, O_PATH, S_ISVTX, struct statfs */
#include "cache/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

void cache_why(char why[CACHE_WHY_SIZE], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(why, CACHE_WHY_SIZE, format, arguments);
    va_end(arguments);
}

char *cache_path_make(const char *dir)
{
    char cwd[4096] = "";
    if (dir[0] != '/' && !getcwd(cwd, sizeof cwd)) {
        cwd[0] = '\0';
    }
    size_t size = strlen(cwd) + strlen(dir) + sizeof CACHE_FILE_NAME + 2;
    char *path = malloc(size);
    if (path) {
        const char *slash = dir[0] == '\0' || dir[strlen(dir) - 1] == '/' ? "" : "/";
        (void)snprintf(path, size, "%s%s%s%s%s", cwd, cwd[0] ? "/" : "", dir, slash, CACHE_FILE_NAME);
    }
    return path;
}

/* Types where locks or shared memory of several hosts, or of a host and its guests, do not work as SQLite needs. */
bool cache_path_is_network(uint64_t file_system_type)
{
    static const uint32_t network_types[] = {
        0x00006969, /* nfs */
        0x0000517b, /* smb */
        0xff534d42, /* cifs */
        0xfe534d42, /* smb2 */
        0x65735546, /* fuse */
        0x01021997, /* 9p */
        0x0bd00bd0, /* lustre */
        0x47504653, /* gpfs */
        0x00c36400, /* ceph */
        0x5346414f, /* openafs */
        0x6b414653, /* afs */
        0x73757245, /* coda */
        0x19830326, /* beegfs */
        0xaad7aaea, /* panfs */
        0x01161970, /* gfs2 */
        0x7461636f, /* ocfs2 */
        0x0000564c, /* ncp */
        0x20030528, /* orangefs */
        0x7c7c6673, /* prl_fs */
        0x786f4256, /* vboxsf */
        0xbacbacbc, /* vmhgfs */
    };
    for (size_t i = 0; i < sizeof network_types / sizeof network_types[0]; i++) {
        if ((uint32_t)file_system_type == network_types[i]) {
            return true;
        }
    }
    return false;
}

/* A trailing slash or "/." would follow a symbolic link that open() is told not to follow. */
static char *without_trailing_slashes(const char *dir)
{
    char *path = strdup(dir);
    size_t length = path ? strlen(path) : 0;
    while (length > 1) {
        if (path[length - 1] == '/') {
            length--;
        } else if (length > 2 && path[length - 1] == '.' && path[length - 2] == '/') {
            length -= 2;
        } else {
            break;
        }
        path[length] = '\0';
    }
    return path;
}

static bool is_folder(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* The last one is that of the cache; files made in a shared one belong to its group. */
static bool make_folders(char *path, bool shared, char why[CACHE_WHY_SIZE])
{
    for (char *end = path + 1;; end++) {
        if (*end != '/' && *end != '\0') {
            continue;
        }
        char kept = *end;
        *end = '\0';
        int error = mkdir(path, 0700) == 0 ? 0 : errno;
        if (error != 0 && error != EEXIST && !is_folder(path)) {
            cache_why(why, "cannot make folder %s: %s; set GDPAJIT_CACHE_DIR to a folder that can be written", path,
                      strerror(error));
            *end = kept;
            return false;
        }
        *end = kept;
        if (kept == '\0') {
            if (error == 0 && shared) {
                (void)chmod(path, 02770); /* whatever the umask took away */
            }
            return true;
        }
    }
}

static int open_folder(const char *path)
{
    return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static void explain_open(const char *path, int error, char why[CACHE_WHY_SIZE])
{
    struct stat status;
    if (lstat(path, &status) == 0 && S_ISLNK(status.st_mode)) {
        cache_why(why, "%s is a symbolic link, which could be turned elsewhere; name the folder that it points to",
                  path);
    } else if (error == ENOTDIR) {
        cache_why(why, "%s is not a folder; set GDPAJIT_CACHE_DIR to one", path);
    } else {
        cache_why(why, "cannot open folder %s: %s", path, strerror(error));
    }
}

static bool owner_is_trusted(const struct stat *status)
{
    return status->st_uid == geteuid() || status->st_uid == 0;
}

static bool in_group(gid_t group)
{
    gid_t groups[1024];
    int count = getgroups(1024, groups);
    bool found = group == getegid();
    for (int i = 0; i < count && !found; i++) {
        found = groups[i] == group;
    }
    return found;
}

/* Where a group of ours may write, its members are trusted as the owner is. */
static bool group_is_trusted(const struct stat *status, bool shared)
{
    return shared && (status->st_mode & S_IWGRP) && in_group(status->st_gid);
}

static mode_t forbidden_bits(const struct stat *status, bool shared)
{
    return group_is_trusted(status, shared) ? S_IWOTH : S_IWGRP | S_IWOTH;
}

static bool folder_is_private(int fd, const char *path, bool shared, char why[CACHE_WHY_SIZE])
{
    struct stat status, parent;
    if (fstat(fd, &status) != 0 || fstatat(fd, "..", &parent, 0) != 0) {
        cache_why(why, "cannot read the properties of folder %s: %s", path, strerror(errno));
        return false;
    }
    if (!owner_is_trusted(&status) && !group_is_trusted(&status, shared)) {
        cache_why(why, "folder %s belongs to user %lu, this process runs as user %lu; use a folder of its own", path,
                  (unsigned long)status.st_uid, (unsigned long)geteuid());
        return false;
    }
    if (status.st_mode & forbidden_bits(&status, shared)) {
        cache_why(why, "folder %s has mode %04o, so that others can write it; run: chmod go-w '%s'", path,
                  (unsigned)(status.st_mode & 07777), path);
        return false;
    }
    if ((parent.st_mode & S_IWOTH) && !(parent.st_mode & S_ISVTX)) {
        cache_why(why,
                  "the parent of folder %s has mode %04o, so that everyone can put another folder in its place; "
                  "run: chmod o-w '%s/..' (or +t)",
                  path, (unsigned)(parent.st_mode & 07777), path);
        return false;
    }
    return true;
}

/* The path that SQLite opens; it must lead to the folder that was checked. */
static char *real_path_of(int fd, const char *path)
{
    char *real = realpath(path, NULL);
    struct stat by_path, by_fd;
    if (real && (lstat(real, &by_path) != 0 || fstat(fd, &by_fd) != 0 || by_path.st_dev != by_fd.st_dev ||
                 by_path.st_ino != by_fd.st_ino)) {
        free(real);
        errno = EAGAIN;
        return NULL;
    }
    return real;
}

static bool fill_in(int fd, const char *path, bool shared, struct cache_folder *folder, char why[CACHE_WHY_SIZE])
{
    if (!folder_is_private(fd, path, shared, why)) {
        return false;
    }
    folder->path = real_path_of(fd, path);
    if (!folder->path) {
        cache_why(why, "cannot resolve folder %s: %s", path, strerror(errno));
        return false;
    }
    struct statfs file_system;
    folder->fd = fd;
    folder->shared = shared;
    folder->writable = faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) == 0;
    folder->network = fstatfs(fd, &file_system) == 0 && cache_path_is_network((uint64_t)file_system.f_type);
    return true;
}

bool cache_folder_open(const char *dir, bool create, struct cache_folder *folder, char why[CACHE_WHY_SIZE])
{
    return cache_folder_open_as(dir, create, false, folder, why);
}

bool cache_folder_open_as(const char *dir, bool create, bool shared, struct cache_folder *folder,
                          char why[CACHE_WHY_SIZE])
{
    if (!dir || dir[0] == '\0') {
        cache_why(why, "no folder is known for it; set GDPAJIT_CACHE_DIR");
        return false;
    }
    char *path = without_trailing_slashes(dir);
    if (!path) {
        cache_why(why, "out of memory");
        return false;
    }
    bool good = false;
    int fd = open_folder(path);
    if (fd < 0 && errno == ENOENT && create) {
        if (!make_folders(path, shared, why)) {
            goto done;
        }
        fd = open_folder(path);
    }
    if (fd < 0) {
        explain_open(path, errno, why);
        goto done;
    }
    good = fill_in(fd, path, shared, folder, why);
    if (!good) {
        (void)close(fd);
    }
done:
    free(path);
    return good;
}

void cache_folder_close(struct cache_folder *folder)
{
    if (folder->fd >= 0) {
        (void)close(folder->fd);
    }
    free(folder->path);
    folder->fd = -1;
    folder->path = NULL;
}

static void identity_from(const struct stat *status, struct cache_identity *identity)
{
    identity->device = status->st_dev;
    identity->inode = status->st_ino;
    identity->size = status->st_size;
    identity->changed = status->st_mtim;
}

enum cache_file_state cache_file_check(const struct cache_folder *folder, const char *name,
                                       struct cache_identity *identity, char why[CACHE_WHY_SIZE])
{
    struct stat status;
    if (fstatat(folder->fd, name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
        int error = errno;
        cache_why(why, "cannot read the properties of %s/%s: %s", folder->path, name, strerror(error));
        return error == ENOENT ? CACHE_FILE_ABSENT : CACHE_FILE_REFUSED;
    }
    if (!S_ISREG(status.st_mode)) {
        cache_why(why, "%s/%s is not a regular file; remove it", folder->path, name);
        return CACHE_FILE_REFUSED;
    }
    if (!owner_is_trusted(&status) && !group_is_trusted(&status, folder->shared)) {
        cache_why(why, "%s/%s belongs to user %lu, this process runs as user %lu; use a folder of its own",
                  folder->path, name, (unsigned long)status.st_uid, (unsigned long)geteuid());
        return CACHE_FILE_REFUSED;
    }
    if (status.st_mode & forbidden_bits(&status, folder->shared)) {
        cache_why(why, "%s/%s has mode %04o, so that others can write it; run: chmod go-w '%s/%s'", folder->path, name,
                  (unsigned)(status.st_mode & 07777), folder->path, name);
        return CACHE_FILE_REFUSED;
    }
    identity_from(&status, identity);
    return CACHE_FILE_GOOD;
}

bool cache_file_create(const struct cache_folder *folder, const char *name, char why[CACHE_WHY_SIZE])
{
    bool made = mknodat(folder->fd, name, S_IFREG | 0600, 0) == 0;
    if (made || errno == EEXIST) {
        if (made && folder->shared) {
            (void)fchmodat(folder->fd, name, 0660, 0);
        }
        return true;
    }
    /* Not every file system knows it. To open the file is harmless as long as nobody else can have it open. */
    int fd = openat(folder->fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0) {
        if (folder->shared) {
            (void)fchmod(fd, 0660);
        }
        (void)close(fd);
    }
    if (fd >= 0 || errno == EEXIST) {
        return true;
    }
    cache_why(why, "cannot make %s/%s: %s", folder->path, name, strerror(errno));
    return false;
}

bool cache_identity_of(const char *path, struct cache_identity *identity)
{
    struct stat status;
    if (lstat(path, &status) != 0) {
        return false;
    }
    identity_from(&status, identity);
    return true;
}

bool cache_identity_same_file(const struct cache_identity *a, const struct cache_identity *b)
{
    return a->device == b->device && a->inode == b->inode;
}

bool cache_identity_unchanged(const struct cache_identity *a, const struct cache_identity *b)
{
    return cache_identity_same_file(a, b) && a->size == b->size && a->changed.tv_sec == b->changed.tv_sec &&
           a->changed.tv_nsec == b->changed.tv_nsec;
}

int64_t cache_folder_bytes(const struct cache_folder *folder)
{
    int fd = openat(folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = fd >= 0 ? fdopendir(fd) : NULL;
    if (!entries) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return 0;
    }
    int64_t bytes = 0;
    for (const struct dirent *entry = readdir(entries); entry; entry = readdir(entries)) {
        struct stat status;
        if (strncmp(entry->d_name, CACHE_FILE_NAME, sizeof CACHE_FILE_NAME - 1) == 0 &&
            fstatat(folder->fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
            bytes += (int64_t)status.st_size;
        }
    }
    (void)closedir(entries);
    return bytes;
}

bool cache_dir_is_network(const char *dir)
{
    char *path = strdup(dir);
    if (!path) {
        return false;
    }
    int fd;
    while ((fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0 && errno == ENOENT) {
        char *slash = strrchr(path, '/');
        if (!slash || slash == path) {
            break;
        }
        *slash = '\0';
    }
    struct statfs file_system;
    bool network = fd >= 0 && fstatfs(fd, &file_system) == 0 && cache_path_is_network((uint64_t)file_system.f_type);
    if (fd >= 0) {
        (void)close(fd);
    }
    free(path);
    return network;
}
