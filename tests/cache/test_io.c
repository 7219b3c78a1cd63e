/*
 * A disk that fails: errors at the n-th operation of every kind, full file systems, locked files, lack of memory. The
 * computation goes on; what was stored before stays; what is said is said once.
 *
 * Faults come from a layer between SQLite and its own file layer (cache_faults.h), and from an allocator of SQLite that fails once.
 */
#define _GNU_SOURCE /* unshare */
#include "tests/support/cache_faults.h"
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

static void fault_at_every_call(struct fixture *fixture, enum fault_operation operation, bool lasting, int code)
{
    fixture_forget_folder(fixture);
    fill(fixture);
    size_t size;
    unsigned char *filled = file_read(fixture->file, &size);
    fault_plan.met = true;
    for (int64_t n = 0; fault_plan.met; n += 1 + n / (INSTRUMENTED ? 4 : 20)) {
        char what[128];
        assert_true(n < 1000);
        (void)snprintf(what, sizeof what, "%s fault %s at call %lld, code %d", lasting ? "lasting" : "single",
                       fault_names[operation], (long long)n, code);
        fixture_forget_folder(fixture);
        fixture_forget_log(fixture);
        assert_int_equal(mkdir(fixture->dir, 0700), 0);
        file_write(fixture->file, filled, size);
        assert_int_equal(chmod(fixture->file, 0600), 0);
        fault_plan.operation = operation;
        fault_plan.lasting = lasting;
        fault_plan.code = code;
        fault_plan.met = false;
        fault_plan.countdown = n;
        live(fixture, what);
        fault_plan.countdown = -1;
        if (fixture->warnings > 3) {
            fail_msg("%s: %d warnings:\n%s", what, fixture->warnings, fixture->log);
        }
        fixture_forget_log(fixture);
        assert_nothing_lost(fixture, what);
        /* Without a log some operations are never called. */
        assert_true(fault_plan.met || n > 0 || file_system_type != LOCAL_FILE_SYSTEM);
    }
    free(filled);
}

static void errors_of_the_disk_at_any_call_lose_nothing(void **state)
{
    struct fixture *fixture = *state;
    for (int network = 0; network < 2; network++) {
        file_system_type = network ? NETWORK_FILE_SYSTEM : LOCAL_FILE_SYSTEM;
        for (int i = 0; i < 2 * FAULT_OPERATIONS; i++) {
            fault_at_every_call(fixture, (enum fault_operation)(i / 2), i % 2, SQLITE_IOERR_WRITE);
        }
    }
    file_system_type = LOCAL_FILE_SYSTEM;
}

static void a_full_disk_at_any_write_loses_nothing(void **state)
{
    struct fixture *fixture = *state;
    for (int network = 0; network < 2; network++) {
        file_system_type = network ? NETWORK_FILE_SYSTEM : LOCAL_FILE_SYSTEM;
        fault_at_every_call(fixture, FAULT_WRITE, false, SQLITE_FULL);
        fault_at_every_call(fixture, FAULT_WRITE, true, SQLITE_FULL);
    }
    file_system_type = LOCAL_FILE_SYSTEM;
}

static void a_full_disk_stops_writing_and_is_said_once(void **state)
{
    struct fixture *fixture = *state;
    fill(fixture);
    struct cache *cache = fixture_open(fixture);
    assert_int_equal(sample_get(cache, 1, CODE_SIZE, NULL), CACHE_OK);
    fault_plan.operation = FAULT_WRITE;
    fault_plan.lasting = true;
    fault_plan.code = SQLITE_FULL;
    fault_plan.countdown = 0;
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(sample_put(cache, 200 + i, CODE_SIZE), CACHE_UNUSABLE);
        assert_int_equal(sample_get(cache, i, CODE_SIZE, NULL), CACHE_OK);
    }
    assert_string_equal(cache_state(cache), "read-only: the disk is full");
    assert_int_equal(fixture->warnings, 1);
    assert_logged(fixture, "free space");
    /* Not tried again by this process, even when there is room. */
    fault_plan.met = false;
    assert_int_equal(sample_put(cache, 300, CODE_SIZE), CACHE_UNUSABLE);
    assert_false(fault_plan.met);
    fault_plan.countdown = -1;
    assert_int_equal(sample_put(cache, 300, CODE_SIZE), CACHE_UNUSABLE);
    cache_close(cache);
    cache = fixture_open(fixture);
    assert_int_equal(sample_put(cache, 300, CODE_SIZE), CACHE_OK);
    cache_close(cache);
}

/* The log is as large as it may get: what a checkpoint and the parts of old entries free is enough for one more. */
static void a_full_disk_gives_up_sources_before_it_gives_up_storing(void **state)
{
    struct fixture *fixture = *state;
    fill(fixture);
    struct cache *cache = fixture_open(fixture);
    const int64_t parts = fixture_sql(fixture, "SELECT count(*) FROM aux");
    assert_true(parts > 0);
    fault_plan.operation = FAULT_WRITE;
    fault_plan.lasting = false; /* the next write finds room */
    fault_plan.code = SQLITE_FULL;
    fault_plan.met = false;
    fault_plan.countdown = 0;
    assert_int_equal(sample_put(cache, 200, CODE_SIZE), CACHE_OK);
    assert_true(fault_plan.met);
    assert_int_equal(sample_get(cache, 200, CODE_SIZE, NULL), CACHE_OK);
    for (unsigned i = 0; i < ENTRIES; i++) {
        assert_int_equal(sample_get(cache, i, CODE_SIZE, NULL), CACHE_OK);
    }
    assert_true(fixture_sql(fixture, "SELECT count(*) FROM aux") < parts);
    assert_string_equal(cache_state(cache), "read-write");
    assert_int_equal(fixture->lines, 0);
    cache_close(cache);
}

static void a_read_error_is_a_miss_that_names_the_file_once(void **state)
{
    struct fixture *fixture = *state;
    fill(fixture);
    struct cache *cache = fixture_open(fixture);
    fault_plan.operation = FAULT_READ;
    fault_plan.lasting = true;
    fault_plan.countdown = 0;
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(sample_get(cache, i, CODE_SIZE, NULL), CACHE_MISS);
    }
    fault_plan.countdown = -1;
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
    fault_plan.operation = FAULT_SYNC;
    fault_plan.lasting = true;
    fault_plan.met = false;
    fault_plan.countdown = 0;
    for (unsigned i = 0; i < ENTRIES; i++) {
        assert_int_equal(sample_get(cache, i, CODE_SIZE, NULL), CACHE_OK);
    }
    assert_false(fault_plan.met);
    assert_int_equal(fixture_sql(fixture, "SELECT sum(hits) FROM use"), ENTRIES);
    fault_plan.countdown = 0;
    /* What is stored is synced as ever. */
    (void)sample_put(cache, 100, CODE_SIZE);
    cache_close(cache);
    fault_plan.countdown = -1;
    assert_true(fault_plan.met);
}

static void on_a_network_file_system_shared_memory_is_not_even_tried(void **state)
{
    struct fixture *fixture = *state;
    fill(fixture); /* with a log, as a local file that was moved there */
    file_system_type = NETWORK_FILE_SYSTEM;
    fault_plan.operation = FAULT_SHARED_MAP;
    fault_plan.lasting = true;
    fault_plan.met = false;
    fault_plan.countdown = 0;
    struct cache *cache = fixture_open(fixture);
    assert_string_equal(cache_state(cache), "read-write");
    assert_int_equal(sample_get(cache, 1, CODE_SIZE, NULL), CACHE_OK);
    assert_int_equal(sample_put(cache, 100, CODE_SIZE), CACHE_OK);
    cache_close(cache);
    fault_plan.countdown = -1;
    file_system_type = LOCAL_FILE_SYSTEM;
    assert_false(fault_plan.met);
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
    faults_install();
    const struct CMUnitTest tests[] = {
        IN_MEMORY(errors_of_the_disk_at_any_call_lose_nothing),
        IN_MEMORY(a_full_disk_at_any_write_loses_nothing),
        IN_MEMORY(a_full_disk_stops_writing_and_is_said_once),
        IN_MEMORY(a_full_disk_gives_up_sources_before_it_gives_up_storing),
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
