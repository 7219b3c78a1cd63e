/*
 * A disk that fails: errors at the n-th operation of every kind, full file systems, locked files, lack of memory. The
 * computation goes on; what was stored before stays; what is said is said once.
 *
 * Faults come from a layer between SQLite and its own file layer, and from an allocator of SQLite that fails once.
 */
#define _GNU_SOURCE /* unshare */
#include "tests/support/cache_file_system.h"
#include "tests/support/cache_fixture.h"

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define CODE_SIZE 9000
#define ENTRIES 5

/* ---- The layer of faults ------------------------------------------------------------------------------------------ */

enum operation { OPEN, READ, WRITE, SYNC, TRUNCATE, LOCK, SIZE, DELETE, SHARED_MAP, SHARED_LOCK, OPERATIONS };

static const char *const operation_names[OPERATIONS] = {"open", "read", "write",  "sync",       "truncate",
                                                        "lock", "size", "delete", "shared map", "shared lock"};

static struct {
    enum operation operation;
    int64_t countdown; /* calls until the fault; negative: no fault planned */
    bool lasting;
    int code;
    bool met;
} plan = {.countdown = -1};

static bool fails(enum operation operation)
{
    if (plan.countdown < 0 || plan.operation != operation) {
        return false;
    }
    if (plan.countdown > 0) {
        plan.countdown--;
        return false;
    }
    plan.met = true;
    plan.countdown = plan.lasting ? 0 : -1;
    return true;
}

struct faulty_file {
    sqlite3_file base;
    sqlite3_file *real;
};

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
    return fails(READ) ? SQLITE_IOERR_READ : CALL(file, xRead, bytes, amount, offset);
}

static int faulty_write(sqlite3_file *file, const void *bytes, int amount, sqlite3_int64 offset)
{
    return fails(WRITE) ? plan.code : CALL(file, xWrite, bytes, amount, offset);
}

static int faulty_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    return fails(TRUNCATE) ? SQLITE_IOERR_TRUNCATE : CALL(file, xTruncate, size);
}

static int faulty_sync(sqlite3_file *file, int flags)
{
    return fails(SYNC) ? SQLITE_IOERR_FSYNC : CALL(file, xSync, flags);
}

static int faulty_size(sqlite3_file *file, sqlite3_int64 *size)
{
    return fails(SIZE) ? SQLITE_IOERR_FSTAT : CALL(file, xFileSize, size);
}

static int faulty_lock(sqlite3_file *file, int level)
{
    return fails(LOCK) ? SQLITE_IOERR_LOCK : CALL(file, xLock, level);
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
    return fails(SHARED_MAP) ? SQLITE_IOERR_SHMMAP : CALL(file, xShmMap, page, size, extend, memory);
}

static int faulty_shared_lock(sqlite3_file *file, int offset, int count, int flags)
{
    return fails(SHARED_LOCK) && (flags & SQLITE_SHM_LOCK) ? SQLITE_IOERR_SHMLOCK
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
    faulty->real = (sqlite3_file *)(void *)(faulty + 1);
    if (fails(OPEN)) {
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
    return fails(DELETE) ? SQLITE_IOERR_DELETE : real_layer->xDelete(real_layer, name, sync);
}

static void put_layer_in_place(void)
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

/* ---- The allocator that fails ----------------------------------------------------------------------------------------- */

static sqlite3_mem_methods real_memory;
static int64_t allocations_left = -1;

static bool out_of_memory(void)
{
    return allocations_left >= 0 && allocations_left-- == 0;
}

static void *failing_malloc(int size)
{
    return out_of_memory() ? NULL : real_memory.xMalloc(size);
}

static void *failing_realloc(void *memory, int size)
{
    return out_of_memory() ? NULL : real_memory.xRealloc(memory, size);
}

static void put_allocator_in_place(void)
{
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real_memory), SQLITE_OK);
    sqlite3_mem_methods failing = real_memory;
    failing.xMalloc = failing_malloc;
    failing.xRealloc = failing_realloc;
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_MALLOC, &failing), SQLITE_OK);
}

/* ---- One life of a process, with a fault in it ---------------------------------------------------------------------- */

static void fill(struct fixture *fixture)
{
    struct cache *cache = fixture_open(fixture);
    for (unsigned i = 0; i < ENTRIES; i++) {
        assert_int_equal(sample_put(cache, i, CODE_SIZE), CACHE_OK);
    }
    cache_close(cache);
}

static int ignore(const struct cache_entry *entry, void *user)
{
    (void)entry;
    (void)user;
    return 0;
}

static void live(struct fixture *fixture, const char *what)
{
    bool wrong = false;
    struct cache_key key;
    int64_t entries, bytes, limit;
    struct cache *cache = fixture_open(fixture);
    for (unsigned i = 0; i < ENTRIES; i++) {
        (void)sample_get(cache, i, CODE_SIZE, &wrong);
        (void)sample_put(cache, 100 + i, CODE_SIZE);
        (void)sample_get(cache, 100 + i, CODE_SIZE, &wrong);
    }
    (void)cache_list(cache, ignore, NULL);
    (void)cache_find(cache, "gdpa", &key, &entries);
    (void)cache_totals(cache, &entries, &bytes, &limit);
    if (wrong || cache_bad_entries(cache) != 0) {
        fail_msg("%s: wrong or bad entries", what);
    }
    cache_close(cache);
}

static void assert_nothing_lost(struct fixture *fixture, const char *what)
{
    struct cache *cache = fixture_open(fixture);
    for (unsigned i = 0; i < ENTRIES; i++) {
        enum cache_result result = sample_get(cache, i, CODE_SIZE, NULL);
        if (result != CACHE_OK) {
            fail_msg("%s: entry %u is lost (%d), %s, log:\n%s", what, i, (int)result, cache_state(cache), fixture->log);
        }
    }
    assert_string_equal(cache_state(cache), "read-write");
    assert_int_equal(sample_put(cache, 1000, CODE_SIZE), CACHE_OK);
    assert_int_equal(sample_get(cache, 1000, CODE_SIZE, NULL), CACHE_OK);
    assert_int_equal(cache_bad_entries(cache), 0);
    cache_close(cache);
    assert_int_equal(count_names(fixture->dir, CACHE_FILE_NAME ".damaged-"), 0);
}

static void fault_at_every_call(struct fixture *fixture, enum operation operation, bool lasting, int code)
{
    fixture_forget_folder(fixture);
    fill(fixture);
    size_t size;
    unsigned char *filled = file_read(fixture->file, &size);
    plan.met = true;
    for (int64_t n = 0; plan.met; n += 1 + n / (INSTRUMENTED ? 4 : 20)) {
        char what[128];
        assert_true(n < 1000);
        (void)snprintf(what, sizeof what, "%s fault %s at call %lld, code %d", lasting ? "lasting" : "single",
                       operation_names[operation], (long long)n, code);
        fixture_forget_folder(fixture);
        fixture_forget_log(fixture);
        assert_int_equal(mkdir(fixture->dir, 0700), 0);
        file_write(fixture->file, filled, size);
        assert_int_equal(chmod(fixture->file, 0600), 0);
        plan.operation = operation;
        plan.lasting = lasting;
        plan.code = code;
        plan.met = false;
        plan.countdown = n;
        live(fixture, what);
        plan.countdown = -1;
        if (fixture->warnings > 3) {
            fail_msg("%s: %d warnings:\n%s", what, fixture->warnings, fixture->log);
        }
        fixture_forget_log(fixture);
        assert_nothing_lost(fixture, what);
        /* Without a log some operations are never called. */
        assert_true(plan.met || n > 0 || file_system_type != LOCAL_FILE_SYSTEM);
    }
    free(filled);
}

static void errors_of_the_disk_at_any_call_lose_nothing(void **state)
{
    struct fixture *fixture = *state;
    for (int network = 0; network < 2; network++) {
        file_system_type = network ? NETWORK_FILE_SYSTEM : LOCAL_FILE_SYSTEM;
        for (int i = 0; i < 2 * OPERATIONS; i++) {
            fault_at_every_call(fixture, (enum operation)(i / 2), i % 2, SQLITE_IOERR_WRITE);
        }
    }
    file_system_type = LOCAL_FILE_SYSTEM;
}

static void a_full_disk_at_any_write_loses_nothing(void **state)
{
    struct fixture *fixture = *state;
    for (int network = 0; network < 2; network++) {
        file_system_type = network ? NETWORK_FILE_SYSTEM : LOCAL_FILE_SYSTEM;
        fault_at_every_call(fixture, WRITE, false, SQLITE_FULL);
        fault_at_every_call(fixture, WRITE, true, SQLITE_FULL);
    }
    file_system_type = LOCAL_FILE_SYSTEM;
}

static void a_full_disk_stops_writing_and_is_said_once(void **state)
{
    struct fixture *fixture = *state;
    fill(fixture);
    struct cache *cache = fixture_open(fixture);
    assert_int_equal(sample_get(cache, 1, CODE_SIZE, NULL), CACHE_OK);
    plan.operation = WRITE;
    plan.lasting = true;
    plan.code = SQLITE_FULL;
    plan.countdown = 0;
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(sample_put(cache, 200 + i, CODE_SIZE), CACHE_UNUSABLE);
        assert_int_equal(sample_get(cache, i, CODE_SIZE, NULL), CACHE_OK);
    }
    assert_string_equal(cache_state(cache), "read-only: the disk is full");
    assert_int_equal(fixture->warnings, 1);
    assert_logged(fixture, "free space");
    /* Not tried again by this process, even when there is room. */
    plan.met = false;
    assert_int_equal(sample_put(cache, 300, CODE_SIZE), CACHE_UNUSABLE);
    assert_false(plan.met);
    plan.countdown = -1;
    assert_int_equal(sample_put(cache, 300, CODE_SIZE), CACHE_UNUSABLE);
    cache_close(cache);
    cache = fixture_open(fixture);
    assert_int_equal(sample_put(cache, 300, CODE_SIZE), CACHE_OK);
    cache_close(cache);
}

static void a_read_error_is_a_miss_that_names_the_file_once(void **state)
{
    struct fixture *fixture = *state;
    fill(fixture);
    struct cache *cache = fixture_open(fixture);
    plan.operation = READ;
    plan.lasting = true;
    plan.countdown = 0;
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(sample_get(cache, i, CODE_SIZE, NULL), CACHE_MISS);
    }
    plan.countdown = -1;
    assert_int_equal(fixture->warnings, 1);
    assert_logged(fixture, fixture->file);
    assert_int_equal(sample_get(cache, 1, CODE_SIZE, NULL), CACHE_OK);
    assert_int_equal(cache_bad_entries(cache), 0);
    cache_close(cache);
}

static void a_single_lack_of_memory_at_any_allocation_is_survived(void **state)
{
    struct fixture *fixture = *state;
    fill(fixture);
    int64_t n = 0, last_seen = 0;
    for (; n < 20000; n += 1 + n / (INSTRUMENTED ? 8 : 50)) {
        char what[64];
        (void)snprintf(what, sizeof what, "no memory at allocation %lld", (long long)n);
        fixture_forget_log(fixture);
        allocations_left = n;
        live(fixture, what);
        last_seen = allocations_left;
        allocations_left = -1;
        fixture_forget_log(fixture);
        assert_nothing_lost(fixture, what);
        if (last_seen >= 0) {
            break;
        }
    }
    assert_true(n > 100 && last_seen >= 0);
}

static void a_hit_waits_for_no_sync(void **state)
{
    struct fixture *fixture = *state;
    fill(fixture);
    struct cache *cache = fixture_open(fixture);
    plan.operation = SYNC;
    plan.lasting = true;
    plan.met = false;
    plan.countdown = 0;
    for (unsigned i = 0; i < ENTRIES; i++) {
        assert_int_equal(sample_get(cache, i, CODE_SIZE, NULL), CACHE_OK);
    }
    assert_false(plan.met);
    assert_int_equal(fixture_sql(fixture, "SELECT sum(hits) FROM use"), ENTRIES);
    plan.countdown = 0;
    /* What is stored is synced as ever. */
    (void)sample_put(cache, 100, CODE_SIZE);
    cache_close(cache);
    plan.countdown = -1;
    assert_true(plan.met);
}

static void on_a_network_file_system_shared_memory_is_not_even_tried(void **state)
{
    struct fixture *fixture = *state;
    fill(fixture); /* with a log, as a local file that was moved there */
    file_system_type = NETWORK_FILE_SYSTEM;
    plan.operation = SHARED_MAP;
    plan.lasting = true;
    plan.met = false;
    plan.countdown = 0;
    struct cache *cache = fixture_open(fixture);
    assert_string_equal(cache_state(cache), "read-write");
    assert_int_equal(sample_get(cache, 1, CODE_SIZE, NULL), CACHE_OK);
    assert_int_equal(sample_put(cache, 100, CODE_SIZE), CACHE_OK);
    cache_close(cache);
    plan.countdown = -1;
    file_system_type = LOCAL_FILE_SYSTEM;
    assert_false(plan.met);
}

/* ---- Really full -------------------------------------------------------------------------------------------------------- */

static int fill_to_the_brim(struct fixture *fixture, const char *reason)
{
    struct cache *cache = fixture_open(fixture);
    bool wrong = false;
    unsigned stored = 0;
    while (stored < 100 && sample_put(cache, stored, 100000) == CACHE_OK) {
        stored++;
    }
    CHECK(stored > 1 && stored < 100);
    CHECK(strstr(cache_state(cache), reason));
    for (unsigned i = 0; i < 20; i++) {
        CHECK(sample_put(cache, 500 + i, 100000) == CACHE_UNUSABLE);
    }
    for (unsigned i = 0; i < stored; i++) {
        CHECK(sample_get(cache, i, 100000, &wrong) == CACHE_OK);
    }
    CHECK(!wrong && cache_bad_entries(cache) == 0);
    CHECK(fixture->warnings == 1);
    cache_close(cache);
    /* The next process finds all of it too. */
    fixture_forget_log(fixture);
    cache = fixture_open(fixture);
    unsigned found = 0;
    for (unsigned i = 0; i < stored; i++) {
        found += sample_get(cache, i, 100000, &wrong) == CACHE_OK;
    }
    CHECK(!wrong && found == stored);
    cache_close(cache);
    return 0;
}

static int fill_a_small_file_system(struct fixture *fixture)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mkdir(fixture->dir, 0700) != 0 || mount("tmpfs", fixture->dir, "tmpfs", 0, "size=1m,mode=0700") != 0) {
        _exit(77);
    }
    return fill_to_the_brim(fixture, "read-only: the disk is full");
}

static void a_full_file_system_keeps_what_it_has(void **state)
{
    struct fixture *fixture = *state;
    int code = in_child(fill_a_small_file_system, fixture, false);
    if (code == 77) {
        skip(); /* mounting is not allowed here; the two tests around this one need no mount */
    }
    assert_int_equal(code, 0);
}

static int fill_up_to_a_file_size(struct fixture *fixture)
{
    const struct rlimit limit = {1000000, 1000000};
    (void)signal(SIGXFSZ, SIG_IGN);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    return fill_to_the_brim(fixture, "read-only: the disk cannot be written");
}

static void a_limit_on_the_size_of_files_keeps_what_there_is(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(in_child(fill_up_to_a_file_size, fixture, false), 0);
}

/* ---- Locked ------------------------------------------------------------------------------------------------------------ */

static sqlite3 *lock_file(const struct fixture *fixture, const char *how)
{
    sqlite3 *other = NULL;
    assert_int_equal(sqlite3_open(fixture->file, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, how, NULL, NULL, NULL), SQLITE_OK);
    return other;
}

static void a_locked_file_costs_a_wait_and_no_more(void **state)
{
    struct fixture *fixture = *state;
    fill(fixture);
    struct cache *cache = fixture_open(fixture);
    sqlite3 *other = lock_file(fixture, "BEGIN IMMEDIATE");
    struct timespec start, end;
    (void)clock_gettime(CLOCK_MONOTONIC, &start);
    assert_int_equal(sample_put(cache, 100, CODE_SIZE), CACHE_UNUSABLE);
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    int64_t waited = (end.tv_sec - start.tv_sec) * 1000 + (end.tv_nsec - start.tv_nsec) / 1000000;
    assert_true(waited >= CACHE_BUSY_MS / 2 && waited < INT64_C(20) * CACHE_BUSY_MS);
    assert_int_equal(sample_get(cache, 1, CODE_SIZE, NULL), CACHE_OK); /* readers go on */
    assert_string_equal(cache_state(cache), "read-write");
    assert_int_equal(fixture->warnings, 0);
    assert_int_equal(sqlite3_close(other), SQLITE_OK);
    assert_int_equal(sample_put(cache, 100, CODE_SIZE), CACHE_OK);
    cache_close(cache);
}

static void a_file_that_is_locked_at_the_start_is_opened_later(void **state)
{
    struct fixture *fixture = *state;
    file_system_type = NETWORK_FILE_SYSTEM; /* a rollback journal: its locks keep readers out */
    fill(fixture);
    sqlite3 *other = lock_file(fixture, "BEGIN EXCLUSIVE");
    struct cache *cache = fixture_open(fixture);
    assert_non_null(strstr(cache_state(cache), "locked"));
    assert_int_equal(sample_get(cache, 1, CODE_SIZE, NULL), CACHE_UNUSABLE);
    assert_int_equal(fixture->warnings, 1);
    assert_int_equal(sqlite3_close(other), SQLITE_OK);
    assert_int_equal(sample_get(cache, 1, CODE_SIZE, NULL), CACHE_OK);
    assert_string_equal(cache_state(cache), "read-write");
    other = lock_file(fixture, "BEGIN EXCLUSIVE");
    assert_int_equal(sample_get(cache, 2, CODE_SIZE, NULL), CACHE_MISS);
    assert_int_equal(sqlite3_close(other), SQLITE_OK);
    assert_int_equal(sample_get(cache, 2, CODE_SIZE, NULL), CACHE_OK);
    cache_close(cache);
    file_system_type = LOCAL_FILE_SYSTEM;
}

#define IN_MEMORY(test) cmocka_unit_test_setup_teardown(test, fixture_setup_in_memory, fixture_teardown)

int main(void)
{
    put_allocator_in_place();
    put_layer_in_place();
    const struct CMUnitTest tests[] = {
        IN_MEMORY(errors_of_the_disk_at_any_call_lose_nothing),
        IN_MEMORY(a_full_disk_at_any_write_loses_nothing),
        IN_MEMORY(a_full_disk_stops_writing_and_is_said_once),
        IN_MEMORY(a_read_error_is_a_miss_that_names_the_file_once),
        IN_MEMORY(a_single_lack_of_memory_at_any_allocation_is_survived),
        IN_MEMORY(a_hit_waits_for_no_sync),
        IN_MEMORY(on_a_network_file_system_shared_memory_is_not_even_tried),
        IN_MEMORY(a_full_file_system_keeps_what_it_has),
        IN_MEMORY(a_limit_on_the_size_of_files_keeps_what_there_is),
        IN_MEMORY(a_locked_file_costs_a_wait_and_no_more),
        IN_MEMORY(a_file_that_is_locked_at_the_start_is_opened_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
