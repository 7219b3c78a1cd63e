/*
 * Folders and files: made private, refused when others can write them, recognised on network file systems.
 */
#define _GNU_SOURCE /* syscall, mknodat */
#include "tests/support/cache_file_system.h"
#include "tests/support/cache_fixture.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

/* In place of the one of libc: as file systems answer that do not know it. */
static int mknod_error;

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the names of libc are reserved ones */
int mknodat(int folder, const char *name, mode_t mode, dev_t device)
{
    if (mknod_error != 0) {
        errno = mknod_error;
        return -1;
    }
    return (int)syscall(SYS_mknodat, folder, name, mode, device);
}

static mode_t mode_of(const char *path)
{
    struct stat status;
    assert_int_equal(lstat(path, &status), 0);
    return status.st_mode & 07777;
}

static void assert_refused(const char *dir, const char *reason)
{
    struct cache_folder folder = {.fd = -1};
    char why[CACHE_WHY_SIZE] = "";
    assert_false(cache_folder_open(dir, true, &folder, why));
    if (!strstr(why, reason)) {
        fail_msg("%s: no \"%s\" in \"%s\"", dir, reason, why);
    }
}

static void assert_accepted(const char *dir)
{
    struct cache_folder folder = {.fd = -1};
    char why[CACHE_WHY_SIZE] = "";
    if (!cache_folder_open(dir, true, &folder, why)) {
        fail_msg("%s: %s", dir, why);
    }
    assert_true(folder.fd >= 0);
    cache_folder_close(&folder);
    cache_folder_close(&folder);
}

static void folders_are_made_with_their_parents_for_their_owner_alone(void **state)
{
    struct fixture *fixture = *state;
    char path[400], deep[500];
    (void)snprintf(path, sizeof path, "%s/a", fixture->base);
    (void)snprintf(deep, sizeof deep, "%s/a/b.c//d/", fixture->base);
    mode_t mask = umask(0);
    assert_accepted(deep);
    (void)umask(mask);
    assert_int_equal(mode_of(path), 0700);
    assert_int_equal(mode_of(deep), 0700);
    assert_accepted(deep);
}

static void without_leave_to_make_it_a_missing_folder_is_an_error(void **state)
{
    struct fixture *fixture = *state;
    struct cache_folder folder = {.fd = -1};
    char why[CACHE_WHY_SIZE];
    assert_false(cache_folder_open(fixture->dir, false, &folder, why));
    assert_non_null(strstr(why, "No such file"));
    assert_int_equal(access(fixture->dir, F_OK), -1);
}

static void no_folder_at_all_is_refused_with_the_variable_to_set(void **state)
{
    (void)state;
    assert_refused(NULL, "GDPAJIT_CACHE_DIR");
    assert_refused("", "GDPAJIT_CACHE_DIR");
}

static void symbolic_links_are_refused_however_they_are_spelt(void **state)
{
    struct fixture *fixture = *state;
    static const char *const endings[] = {"", "/", "//", "/.", "/./", "/.//./"};
    char link[400], path[500];
    assert_int_equal(mkdir(fixture->dir, 0700), 0);
    (void)snprintf(link, sizeof link, "%s/link", fixture->base);
    assert_int_equal(symlink(fixture->dir, link), 0);
    for (size_t i = 0; i < COUNT_OF(endings); i++) {
        (void)snprintf(path, sizeof path, "%s%s", link, endings[i]);
        assert_refused(path, "symbolic link");
    }
    assert_int_equal(unlink(link), 0);
    assert_int_equal(symlink("/nonexistent/folder", link), 0);
    assert_refused(link, "symbolic link");
}

static void a_symbolic_link_above_the_folder_is_followed_to_the_real_path(void **state)
{
    struct fixture *fixture = *state;
    char link[400], path[500];
    assert_int_equal(mkdir(fixture->dir, 0700), 0);
    (void)snprintf(link, sizeof link, "%s/home", fixture->base);
    assert_int_equal(symlink(fixture->base, link), 0);
    (void)snprintf(path, sizeof path, "%s/cache", link);
    struct cache_folder folder;
    char why[CACHE_WHY_SIZE];
    assert_true(cache_folder_open(path, true, &folder, why));
    assert_string_equal(folder.path, fixture->dir);
    assert_true(folder.writable);
    cache_folder_close(&folder);
}

static void folders_that_others_can_write_are_refused_and_left_as_they_are(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        mode_t mode;
        bool accepted;
    } cases[] = {{0700, true},  {0755, true},  {0750, true},   {0770, false},  {0720, false}, {0707, false},
                 {0702, false}, {0777, false}, {01777, false}, {02775, false}, {02755, true}, {01700, true}};
    assert_int_equal(mkdir(fixture->dir, 0700), 0);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(chmod(fixture->dir, cases[i].mode), 0);
        if (cases[i].accepted) {
            assert_accepted(fixture->dir);
        } else {
            assert_refused(fixture->dir, "chmod go-w");
        }
        assert_int_equal(mode_of(fixture->dir), cases[i].mode);
    }
}

static void a_parent_that_everyone_can_write_needs_the_sticky_bit(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(mkdir(fixture->dir, 0700), 0);
    assert_int_equal(chmod(fixture->base, 0777), 0);
    assert_refused(fixture->dir, "parent");
    assert_int_equal(chmod(fixture->base, 01777), 0);
    assert_accepted(fixture->dir);
}

static void folders_of_other_users_are_refused(void **state)
{
    struct fixture *fixture = *state;
    if (geteuid() != 0) {
        skip();
    }
    assert_int_equal(mkdir(fixture->dir, 0700), 0);
    assert_int_equal(chown(fixture->dir, 12345, 12345), 0);
    assert_refused(fixture->dir, "belongs to user 12345");
}

static int open_a_folder_of_root(struct fixture *fixture)
{
    struct cache_folder folder;
    char why[CACHE_WHY_SIZE];
    CHECK(cache_folder_open(fixture->dir, true, &folder, why));
    CHECK(!folder.writable);
    cache_folder_close(&folder);
    return 0;
}

static void a_folder_of_root_is_trusted_and_known_not_to_be_writable(void **state)
{
    struct fixture *fixture = *state;
    if (geteuid() != 0) {
        skip();
    }
    assert_int_equal(mkdir(fixture->dir, 0755), 0);
    assert_int_equal(in_child(open_a_folder_of_root, fixture, true), 0);
}

static void what_is_no_folder_is_refused(void **state)
{
    struct fixture *fixture = *state;
    char below[400];
    file_write(fixture->dir, "text", 4);
    assert_refused(fixture->dir, "not a folder");
    (void)snprintf(below, sizeof below, "%s/below", fixture->dir);
    assert_refused(below, "not a folder");
    assert_refused("/proc/nothing/can/be/made/here", "cannot make folder /proc/nothing");
}

static int make_below_a_closed_folder(struct fixture *fixture)
{
    struct cache_folder folder;
    char why[CACHE_WHY_SIZE];
    CHECK(!cache_folder_open(fixture->dir, true, &folder, why));
    CHECK(strstr(why, "cannot make folder") && strstr(why, fixture->dir) && strstr(why, "GDPAJIT_CACHE_DIR"));
    return 0;
}

static void a_folder_that_cannot_be_made_is_named(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(chmod(fixture->base, 0555), 0);
    assert_int_equal(in_child(make_below_a_closed_folder, fixture, true), 0);
}

static void relative_folders_become_absolute_paths(void **state)
{
    struct fixture *fixture = *state;
    char before[1000], expected[500];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(fixture->base), 0);
    char *path = cache_path_make("cache");
    (void)snprintf(expected, sizeof expected, "%s/cache/%s", fixture->base, CACHE_FILE_NAME);
    assert_string_equal(path, expected);
    free(path);
    assert_int_equal(chdir(before), 0);
    path = cache_path_make("/x/");
    assert_string_equal(path, "/x/" CACHE_FILE_NAME);
    free(path);
    path = cache_path_make("/");
    assert_string_equal(path, "/" CACHE_FILE_NAME);
    free(path);
}

static void network_file_systems_are_told_from_local_ones(void **state)
{
    (void)state;
    static const struct {
        uint64_t type;
        bool network;
    } cases[] = {
        {0x6969, true},
        {0x517b, true},
        {0xff534d42, true},
        {0xfe534d42, true},
        {0x65735546, true},
        {0x01021997, true},
        {0x0bd00bd0, true},
        {0x47504653, true},
        {0x00c36400, true},
        {0x5346414f, true},
        {0xef53, false},
        {0x58465342, false},
        {0x9123683e, false},
        {0x01021994, false},
        {0x794c7630, false},
        {0x2fc12fc1, false},
        {0xf2f52010, false},
        {0, false},
        /* A 32-bit signed type, widened with its sign. */
        {UINT64_C(0xffffffffff534d42), true},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(cache_path_is_network(cases[i].type), cases[i].network);
    }
}

static void the_folder_knows_its_file_system(void **state)
{
    struct fixture *fixture = *state;
    struct cache_folder folder;
    char why[CACHE_WHY_SIZE];
    for (int network = 0; network < 2; network++) {
        file_system_type = network ? NETWORK_FILE_SYSTEM : LOCAL_FILE_SYSTEM;
        assert_true(cache_folder_open(fixture->dir, true, &folder, why));
        assert_int_equal(folder.network, network);
        cache_folder_close(&folder);
    }
    file_system_type = LOCAL_FILE_SYSTEM;
}

/* ---- Files ---------------------------------------------------------------------------------------------------------- */

static void open_folder_of(struct fixture *fixture, struct cache_folder *folder)
{
    char why[CACHE_WHY_SIZE];
    if (!cache_folder_open(fixture->dir, true, folder, why)) {
        fail_msg("%s", why);
    }
}

static enum cache_file_state check(const struct cache_folder *folder, const char *part)
{
    struct cache_identity identity;
    char why[CACHE_WHY_SIZE] = "";
    enum cache_file_state result = cache_file_check(folder, CACHE_FILE_NAME, &identity, why);
    if (!strstr(why, part)) {
        fail_msg("no \"%s\" in \"%s\"", part, why);
    }
    return result;
}

static void files_are_made_for_their_owner_alone_and_once(void **state)
{
    struct fixture *fixture = *state;
    struct cache_folder folder;
    char why[CACHE_WHY_SIZE];
    open_folder_of(fixture, &folder);
    assert_int_equal(check(&folder, "No such file"), CACHE_FILE_ABSENT);
    mode_t mask = umask(0);
    assert_true(cache_file_create(&folder, CACHE_FILE_NAME, why));
    (void)umask(mask);
    assert_int_equal(mode_of(fixture->file), 0600);
    file_write(fixture->file, "kept", 4);
    assert_true(cache_file_create(&folder, CACHE_FILE_NAME, why));
    size_t size;
    free(file_read(fixture->file, &size));
    assert_int_equal(size, 4);
    assert_int_equal(check(&folder, ""), CACHE_FILE_GOOD);
    cache_folder_close(&folder);
}

static void files_are_made_where_mknod_is_unknown(void **state)
{
    struct fixture *fixture = *state;
    static const int errors[] = {EPERM, ENOSYS, EOPNOTSUPP, EINVAL};
    struct cache_folder folder;
    char why[CACHE_WHY_SIZE];
    open_folder_of(fixture, &folder);
    for (size_t i = 0; i < COUNT_OF(errors); i++) {
        mknod_error = errors[i];
        assert_true(cache_file_create(&folder, CACHE_FILE_NAME, why));
        assert_int_equal(mode_of(fixture->file) & 0177, 0);
        file_write(fixture->file, "kept", 4);
        assert_true(cache_file_create(&folder, CACHE_FILE_NAME, why));
        size_t size;
        free(file_read(fixture->file, &size));
        assert_int_equal(size, 4);
        assert_int_equal(unlink(fixture->file), 0);
    }
    mknod_error = 0;
    assert_false(cache_file_create(&folder, "no/such/folder", why));
    assert_non_null(strstr(why, "cannot make"));
    cache_folder_close(&folder);
}

static void files_that_others_can_write_or_own_are_refused(void **state)
{
    struct fixture *fixture = *state;
    struct cache_folder folder;
    open_folder_of(fixture, &folder);
    file_write(fixture->file, "", 0);
    static const mode_t refused[] = {0620, 0602, 0666};
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        assert_int_equal(chmod(fixture->file, refused[i]), 0);
        assert_int_equal(check(&folder, "chmod go-w"), CACHE_FILE_REFUSED);
    }
    assert_int_equal(chmod(fixture->file, 0644), 0);
    assert_int_equal(check(&folder, ""), CACHE_FILE_GOOD);
    if (geteuid() == 0) {
        assert_int_equal(chown(fixture->file, 12345, 12345), 0);
        assert_int_equal(check(&folder, "belongs to user 12345"), CACHE_FILE_REFUSED);
    }
    cache_folder_close(&folder);
}

static void links_folders_and_pipes_in_place_of_the_file_are_refused(void **state)
{
    struct fixture *fixture = *state;
    struct cache_folder folder;
    open_folder_of(fixture, &folder);
    assert_int_equal(symlink("/etc/passwd", fixture->file), 0);
    assert_int_equal(check(&folder, "not a regular file"), CACHE_FILE_REFUSED);
    assert_int_equal(unlink(fixture->file), 0);
    assert_int_equal(mkfifo(fixture->file, 0600), 0);
    assert_int_equal(check(&folder, "not a regular file"), CACHE_FILE_REFUSED);
    assert_int_equal(unlink(fixture->file), 0);
    assert_int_equal(mkdir(fixture->file, 0700), 0);
    assert_int_equal(check(&folder, "not a regular file"), CACHE_FILE_REFUSED);
    cache_folder_close(&folder);
}

static void identities_tell_files_and_changes_apart(void **state)
{
    struct fixture *fixture = *state;
    struct cache_identity first, second;
    assert_int_equal(mkdir(fixture->dir, 0700), 0);
    assert_false(cache_identity_of(fixture->file, &first));
    file_write(fixture->file, "one", 3);
    assert_true(cache_identity_of(fixture->file, &first));
    assert_true(cache_identity_of(fixture->file, &second));
    assert_true(cache_identity_unchanged(&first, &second));
    file_write(fixture->file, "three", 5);
    assert_true(cache_identity_of(fixture->file, &second));
    assert_true(cache_identity_same_file(&first, &second));
    assert_false(cache_identity_unchanged(&first, &second));
    char moved[500];
    (void)snprintf(moved, sizeof moved, "%s.old", fixture->file);
    assert_int_equal(rename(fixture->file, moved), 0);
    file_write(fixture->file, "three", 5);
    assert_true(cache_identity_of(fixture->file, &second));
    assert_false(cache_identity_same_file(&first, &second));
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(folders_are_made_with_their_parents_for_their_owner_alone),
        WITH_FIXTURE(without_leave_to_make_it_a_missing_folder_is_an_error),
        cmocka_unit_test(no_folder_at_all_is_refused_with_the_variable_to_set),
        WITH_FIXTURE(symbolic_links_are_refused_however_they_are_spelt),
        WITH_FIXTURE(a_symbolic_link_above_the_folder_is_followed_to_the_real_path),
        WITH_FIXTURE(folders_that_others_can_write_are_refused_and_left_as_they_are),
        WITH_FIXTURE(a_parent_that_everyone_can_write_needs_the_sticky_bit),
        WITH_FIXTURE(folders_of_other_users_are_refused),
        WITH_FIXTURE(a_folder_of_root_is_trusted_and_known_not_to_be_writable),
        WITH_FIXTURE(what_is_no_folder_is_refused),
        WITH_FIXTURE(a_folder_that_cannot_be_made_is_named),
        WITH_FIXTURE(relative_folders_become_absolute_paths),
        cmocka_unit_test(network_file_systems_are_told_from_local_ones),
        WITH_FIXTURE(the_folder_knows_its_file_system),
        WITH_FIXTURE(files_are_made_for_their_owner_alone_and_once),
        WITH_FIXTURE(files_are_made_where_mknod_is_unknown),
        WITH_FIXTURE(files_that_others_can_write_or_own_are_refused),
        WITH_FIXTURE(links_folders_and_pipes_in_place_of_the_file_are_refused),
        WITH_FIXTURE(identities_tell_files_and_changes_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
