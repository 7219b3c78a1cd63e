/*
 * What the tests of cache/ share: a private folder a test, entries that can be made and checked from a number, captured
 * log lines, raw SQL on the file behind the cache's back, and children with other rights.
 */
#ifndef GDPA_TESTS_SUPPORT_CACHE_FIXTURE_H
#define GDPA_TESTS_SUPPORT_CACHE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "cache/internal.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* A sanitizer makes everything several times slower: tests that try many cases try fewer. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { INSTRUMENTED = 1 };
#else
enum { INSTRUMENTED = 0 };
#endif

/* For code that runs in a child, where a failed cmocka assertion would go astray: the number of the failing line. */
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            return __LINE__;                                                                                           \
        }                                                                                                              \
    } while (0)

struct fixture {
    char base[256]; /* open to every user, removed with all that is in it */
    char dir[300];  /* base/cache, not made yet */
    char file[400]; /* dir/CACHE_FILE_NAME */
    char log[16384];
    int lines, warnings;
};

int fixture_setup(void **state);
/* Where a sync costs nothing, if there is such a place: for tests with many small databases. */
int fixture_setup_in_memory(void **state);
int fixture_teardown(void **state);
/* Removes `dir` and what is in it. */
void fixture_forget_folder(struct fixture *fixture);
void fixture_log(int level, const char *line, void *user);
/* Options with the folder and the log of the fixture. */
struct cache_options fixture_options(struct fixture *fixture);
/* As the first handle of a new process. */
struct cache *fixture_open(struct fixture *fixture);
void fixture_forget_log(struct fixture *fixture);
void assert_logged(const struct fixture *fixture, const char *part);

/* An entry whose every byte follows from the number. */
struct sample {
    struct cache_entry entry;
    struct cache_bytes material;
    char *text;
    unsigned char *code;
    char name[64];
};

void sample_init(struct sample *sample, unsigned number, size_t code_size);
void sample_deinit(struct sample *sample);
enum cache_result sample_put(struct cache *cache, unsigned number, size_t code_size);
/* CACHE_OK only after every field was compared; a difference fails the test, or with `wrong` sets it. */
enum cache_result sample_get(struct cache *cache, unsigned number, size_t code_size, bool *wrong);
bool sample_equals(const struct sample *sample, const struct cache_entry *entry, bool with_aux);

/* SQL on the file; a number from the first column of the first row, else 0. Fails the test on an error. */
int64_t fixture_sql(const struct fixture *fixture, const char *sql);
int fixture_sql_error(const struct fixture *fixture, const char *sql);
/* The whole file, and back; the caller frees. */
unsigned char *file_read(const char *path, size_t *size);
void file_write(const char *path, const void *bytes, size_t size);
int count_names(const char *dir, const char *prefix);

/* Runs it in a child and gives its result. With `drop` the child is another user when this one is root. */
int in_child(int (*run)(struct fixture *fixture), struct fixture *fixture, bool drop);
unsigned number_from_environment(const char *name, unsigned otherwise);

/* A small generator whose numbers are the same everywhere. */
uint64_t random_next(uint64_t *random);

#endif
