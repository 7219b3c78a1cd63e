/*
 * One cache for several users: the group of the folder may write it, when that was asked for; nobody else.
 */
#define _GNU_SOURCE /* setgroups */
#include "tests/support/cache_fixture.h"

#include <grp.h>
#include <unistd.h>

enum { TEAM = 23456 };

static int as_user(struct fixture *fixture, uid_t user, bool member, int (*use)(struct fixture *fixture))
{
    const gid_t groups[] = {TEAM};
    CHECK(setgroups(member ? 1 : 0, groups) == 0 && setgid((gid_t)user) == 0 && setuid(user) == 0);
    (void)umask(077);
    return use(fixture);
}

static struct cache *open_shared(struct fixture *fixture)
{
    struct cache_options options = fixture_options(fixture);
    options.shared = true;
    return cache_open(&options);
}

static int put_one(struct fixture *fixture)
{
    struct cache *cache = open_shared(fixture);
    struct cache_turn turn;
    const struct cache_key key = {{1}};
    cache_turn_init(&turn);
    CHECK(strcmp(cache_state(cache), "read-write") == 0);
    CHECK(cache_turn_try(cache, &key, &turn) == CACHE_TURN_MINE);
    CHECK(sample_put(cache, (unsigned)getuid(), 5000) == CACHE_OK);
    cache_turn_end(&turn);
    cache_close(cache);
    return 0;
}

static int put_and_see_the_first(struct fixture *fixture)
{
    CHECK(put_one(fixture) == 0);
    struct cache *cache = open_shared(fixture);
    CHECK(sample_get(cache, 12345, 5000, NULL) == CACHE_OK);
    CHECK(sample_get(cache, (unsigned)getuid(), 5000, NULL) == CACHE_OK);
    cache_close(cache);
    return fixture->lines == 0 ? 0 : __LINE__;
}

static int be_refused(struct fixture *fixture)
{
    struct cache *cache = open_shared(fixture);
    CHECK(sample_get(cache, 12345, 5000, NULL) == CACHE_UNUSABLE);
    cache_close(cache);
    CHECK(fixture->warnings == 1);
    return 0;
}

static int first_user(struct fixture *fixture)
{
    return as_user(fixture, 12345, true, put_one);
}

static int second_user(struct fixture *fixture)
{
    return as_user(fixture, 12346, true, put_and_see_the_first);
}

static int member_of_a_folder_open_to_everybody(struct fixture *fixture)
{
    CHECK(as_user(fixture, 12346, true, be_refused) == 0);
    return strstr(fixture->log, "so that others can write it") ? 0 : __LINE__;
}

static int outsider(struct fixture *fixture)
{
    return as_user(fixture, 12347, false, be_refused);
}

static void a_shared_folder_serves_its_group_and_nobody_else(void **state)
{
    struct fixture *fixture = *state;
    if (geteuid() != 0) {
        skip();
    }
    assert_int_equal(mkdir(fixture->dir, 0700), 0);
    assert_int_equal(chown(fixture->dir, 12345, TEAM), 0);
    assert_int_equal(chmod(fixture->dir, 02770), 0);
    assert_int_equal(in_child(first_user, fixture, false), 0);
    assert_int_equal(in_child(second_user, fixture, false), 0);
    assert_int_equal(in_child(outsider, fixture, false), 0);
    assert_int_equal(chmod(fixture->dir, 02777), 0); /* open to everybody: refused, shared or not */
    assert_int_equal(in_child(member_of_a_folder_open_to_everybody, fixture, false), 0);
}

static void a_shared_folder_is_made_for_its_group_whatever_the_umask(void **state)
{
    struct fixture *fixture = *state;
    struct stat status;
    mode_t before = umask(077);
    struct cache *cache = open_shared(fixture);
    (void)umask(before);
    assert_string_equal(cache_state(cache), "read-write");
    assert_int_equal(stat(fixture->dir, &status), 0);
    assert_int_equal(status.st_mode & 07777, 02770);
    assert_int_equal(stat(fixture->file, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0660);
    cache_close(cache);
    cache = fixture_open(fixture); /* by a process that does not share */
    assert_logged(fixture, "so that others can write it");
    cache_close(cache);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(a_shared_folder_serves_its_group_and_nobody_else),
        WITH_FIXTURE(a_shared_folder_is_made_for_its_group_whatever_the_umask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
