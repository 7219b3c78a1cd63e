/*
 * The layer of faults; see cache_faults.h.
 */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/cache_faults.h"
#include "tests/support/cache_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

const char *const fault_names[FAULT_OPERATIONS] = {"open", "read", "write",  "sync",       "truncate",
                                                   "lock", "size", "delete", "shared map", "shared lock"};

struct fault_plan fault_plan = {.countdown = -1};

/* ---- What was not synced --------------------------------------------------------------------------------------------- */

/* What undoes a write, or (size 0) a truncation that went before it. */
struct undo {
    struct undo *next; /* the one before */
    char *path;
    int64_t offset, file_size; /* of the file before */
    size_t size;
    unsigned char old[];
};

static struct {
    struct undo *last;
    int64_t writes_left;
    bool recording, gone;
} power;

void power_record(int64_t writes)
{
    power.recording = true;
    power.writes_left = writes;
}

bool power_is_gone(void)
{
    return power.gone;
}

static void remember(const char *path, int64_t offset, size_t size)
{
    struct stat status;
    int fd = open(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &status) != 0) {
        fail_msg("cannot read %s", path);
        return;
    }
    int64_t kept = offset >= status.st_size ? 0 : status.st_size - offset;
    kept = kept > (int64_t)size ? (int64_t)size : kept;
    struct undo *undo = malloc(sizeof *undo + (size_t)kept);
    assert_non_null(undo);
    *undo = (struct undo){.next = power.last,
                          .path = strdup(path),
                          .offset = offset,
                          .file_size = (int64_t)status.st_size,
                          .size = (size_t)kept};
    assert_int_equal(pread(fd, undo->old, undo->size, (off_t)offset), (ssize_t)undo->size);
    (void)close(fd);
    power.last = undo;
}

static void forget(const char *path)
{
    for (struct undo **link = &power.last; *link;) {
        struct undo *undo = *link;
        if (path && strcmp(undo->path, path) != 0) {
            link = &undo->next;
            continue;
        }
        *link = undo->next;
        free(undo->path);
        free(undo);
    }
}

/* Before a change of a file. False: the power is gone. */
static bool power_change(const char *path, int64_t offset, size_t size)
{
    if (power.recording && power.writes_left-- == 0) {
        power.gone = true;
        power.recording = false;
    }
    if (power.recording && path) {
        remember(path, offset, size);
    }
    return !power.gone;
}

unsigned power_restore(const char *database, unsigned lost, uint64_t *random)
{
    char shared[512];
    unsigned count = 0;
    for (const struct undo *undo = power.last; undo; undo = undo->next) {
        int fd = random_next(random) % 256 < lost ? open(undo->path, O_WRONLY) : -1;
        if (fd >= 0) {
            assert_int_equal(pwrite(fd, undo->old, undo->size, (off_t)undo->offset), (ssize_t)undo->size);
            assert_int_equal(ftruncate(fd, (off_t)undo->file_size), 0);
            (void)close(fd);
            count++;
        }
    }
    forget(NULL);
    (void)snprintf(shared, sizeof shared, "%s-shm", database);
    (void)unlink(shared);
    power.recording = false;
    power.gone = false;
    return count;
}

/* ---- The layer ------------------------------------------------------------------------------------------------------- */

static bool fails(enum fault_operation operation)
{
    if (power.gone) {
        return true;
    }
    if (fault_plan.countdown < 0 || fault_plan.operation != operation) {
        return false;
    }
    if (fault_plan.countdown > 0) {
        fault_plan.countdown--;
        return false;
    }
    fault_plan.met = true;
    fault_plan.countdown = fault_plan.lasting ? 0 : -1;
    return true;
}

struct faulty_file {
    sqlite3_file base;
    sqlite3_file *real;
    const char *path; /* NULL: a temporary file */
};

static const char *path_of(sqlite3_file *file)
{
    return ((struct faulty_file *)(void *)file)->path;
}

static sqlite3_file *real_of(sqlite3_file *file)
{
    return ((struct faulty_file *)(void *)file)->real;
}

#define CALL(file, method, ...) real_of(file)->pMethods->method(real_of(file), __VA_ARGS__)

static int faulty_close(sqlite3_file *file)
{
    int error = real_of(file)->pMethods ? real_of(file)->pMethods->xClose(real_of(file)) : SQLITE_OK;
    return error;
}

static int faulty_read(sqlite3_file *file, void *bytes, int amount, sqlite3_int64 offset)
{
    return fails(FAULT_READ) ? SQLITE_IOERR_READ : CALL(file, xRead, bytes, amount, offset);
}

static int faulty_write(sqlite3_file *file, const void *bytes, int amount, sqlite3_int64 offset)
{
    if (!power_change(path_of(file), offset, (size_t)amount)) {
        return SQLITE_IOERR_WRITE;
    }
    if (!fails(FAULT_WRITE)) {
        return CALL(file, xWrite, bytes, amount, offset);
    }
    if (fault_plan.code == FAULT_KILL) {
        (void)CALL(file, xWrite, bytes, amount / 2, offset);
        (void)raise(SIGKILL);
    }
    return fault_plan.code;
}

static int faulty_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    if (!power_change(path_of(file), size, SIZE_MAX >> 1)) {
        return SQLITE_IOERR_TRUNCATE;
    }
    return fails(FAULT_TRUNCATE) ? SQLITE_IOERR_TRUNCATE : CALL(file, xTruncate, size);
}

static int faulty_sync(sqlite3_file *file, int flags)
{
    if (fails(FAULT_SYNC)) {
        return SQLITE_IOERR_FSYNC;
    }
    if (path_of(file)) {
        forget(path_of(file));
    }
    return CALL(file, xSync, flags);
}

static int faulty_size(sqlite3_file *file, sqlite3_int64 *size)
{
    return fails(FAULT_SIZE) ? SQLITE_IOERR_FSTAT : CALL(file, xFileSize, size);
}

static int faulty_lock(sqlite3_file *file, int level)
{
    return fails(FAULT_LOCK) ? SQLITE_IOERR_LOCK : CALL(file, xLock, level);
}

static int faulty_unlock(sqlite3_file *file, int level)
{
    return CALL(file, xUnlock, level);
}

static int faulty_check(sqlite3_file *file, int *reserved)
{
    return CALL(file, xCheckReservedLock, reserved);
}

static int faulty_control(sqlite3_file *file, int code, void *argument)
{
    return CALL(file, xFileControl, code, argument);
}

static int faulty_sector(sqlite3_file *file)
{
    return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int faulty_character(sqlite3_file *file)
{
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static int faulty_map(sqlite3_file *file, int page, int size, int extend, void volatile **memory)
{
    return fails(FAULT_SHARED_MAP) ? SQLITE_IOERR_SHMMAP : CALL(file, xShmMap, page, size, extend, memory);
}

static int faulty_shared_lock(sqlite3_file *file, int offset, int count, int flags)
{
    return fails(FAULT_SHARED_LOCK) && (flags & SQLITE_SHM_LOCK) ? SQLITE_IOERR_SHMLOCK
                                                                 : CALL(file, xShmLock, offset, count, flags);
}

static void faulty_barrier(sqlite3_file *file)
{
    real_of(file)->pMethods->xShmBarrier(real_of(file));
}

static int faulty_unmap(sqlite3_file *file, int delete)
{
    return CALL(file, xShmUnmap, delete);
}

static const sqlite3_io_methods faulty_methods = {
    .iVersion = 2, /* without memory mapping */
    .xClose = faulty_close,
    .xRead = faulty_read,
    .xWrite = faulty_write,
    .xTruncate = faulty_truncate,
    .xSync = faulty_sync,
    .xFileSize = faulty_size,
    .xLock = faulty_lock,
    .xUnlock = faulty_unlock,
    .xCheckReservedLock = faulty_check,
    .xFileControl = faulty_control,
    .xSectorSize = faulty_sector,
    .xDeviceCharacteristics = faulty_character,
    .xShmMap = faulty_map,
    .xShmLock = faulty_shared_lock,
    .xShmBarrier = faulty_barrier,
    .xShmUnmap = faulty_unmap,
};

static sqlite3_vfs *real_layer;
static sqlite3_vfs faulty_layer;

static int faulty_open(sqlite3_vfs *layer, sqlite3_filename name, sqlite3_file *file, int flags, int *flags_out)
{
    struct faulty_file *faulty = (struct faulty_file *)(void *)file;
    (void)layer;
    faulty->base.pMethods = NULL;
    faulty->path = name; /* lives as long as the file is open */
    faulty->real = (sqlite3_file *)(void *)(faulty + 1);
    if (fails(FAULT_OPEN)) {
        return SQLITE_CANTOPEN;
    }
    int error = real_layer->xOpen(real_layer, name, faulty->real, flags, flags_out);
    if (error == SQLITE_OK) {
        faulty->base.pMethods = &faulty_methods;
    }
    return error;
}

static int faulty_delete(sqlite3_vfs *layer, const char *name, int sync)
{
    (void)layer;
    return fails(FAULT_DELETE) ? SQLITE_IOERR_DELETE : real_layer->xDelete(real_layer, name, sync);
}

void faults_install(void)
{
    real_layer = sqlite3_vfs_find(NULL);
    assert_non_null(real_layer);
    faulty_layer = *real_layer;
    faulty_layer.zName = "faulty";
    faulty_layer.szOsFile = (int)sizeof(struct faulty_file) + real_layer->szOsFile;
    faulty_layer.xOpen = faulty_open;
    faulty_layer.xDelete = faulty_delete;
    assert_int_equal(sqlite3_vfs_register(&faulty_layer, 1), SQLITE_OK);
}
