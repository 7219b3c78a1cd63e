/*
 * templates/sequence.cuh on the host: what a sequence has, for good offsets and for any that there may be in memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/host_build.h"
#include "tests/support/random.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

typedef void (*find_fn)(const int32_t *cu_seqlens, const int32_t *seqused, int64_t rows, int32_t batch,
                        int64_t *first_row, int32_t *length);

static struct host_build build;
static find_fn find_sequence;
static const int32_t **readable_begin, **readable_end;
static int64_t *reads_outside;

static int build_all(void **state)
{
    (void)state;
    static const char *const files[] = {"config_default.cuh", "sequence.cuh", NULL};
    FILE *text = host_build_begin(&build);
    fputs("#include \"tests/templates/host_arithmetic.hpp\"\n", text);
    host_build_add(&build, "head_dim=64 activation=relu arch=80", NULL, files);
    fputs("extern \"C\" void find(const int32_t *cu_seqlens, const int32_t *seqused, int64_t rows, int32_t batch,\n"
          "                     int64_t *first_row, int32_t *length)\n"
          "{\n    const Sequence found = find_sequence(cu_seqlens, seqused, rows, batch);\n"
          "    *first_row = found.first_row;\n    *length = found.length;\n}\n",
          text);
    host_build_finish(&build);
    host_build_function(&build, "find", &find_sequence);
    readable_begin = host_build_symbol(&build, "readable_begin");
    readable_end = host_build_symbol(&build, "readable_end");
    reads_outside = host_build_symbol(&build, "reads_outside");
    return 0;
}

static int remove_all(void **state)
{
    (void)state;
    host_build_end(&build);
    return 0;
}

static void check(const int32_t *cu_seqlens, const int32_t *seqused, int64_t rows, int32_t batch, int64_t first_row,
                  int32_t length)
{
    int64_t got_first = -7;
    int32_t got_length = -7;
    find_sequence(cu_seqlens, seqused, rows, batch, &got_first, &got_length);
    if (got_first != first_row || got_length != length) {
        fail_msg("sequence %d: rows %lld, %d long, not %lld, %d long", (int)batch, (long long)got_first,
                 (int)got_length, (long long)first_row, (int)length);
    }
}

/* Offsets of 5 sequences in memory[0..5], used lengths in memory[6..10]. */
static int32_t memory[11] = {3, 3, 10, 74, 74, 100, 0, 7, 70, 0, -2};

static void allow_memory(void)
{
    *readable_begin = memory;
    *readable_end = memory + COUNT_OF(memory);
}

static void sequences_lie_between_their_offsets(void **state)
{
    (void)state;
    static const int32_t lengths[] = {0, 7, 64, 0, 26};
    allow_memory();
    for (int32_t b = 0; b < 5; ++b) {
        check(memory, NULL, 100, b, memory[b], lengths[b]);
        check(memory, NULL, 1000, b, memory[b], lengths[b]); /* rows behind the last sequence */
    }
}

static void used_lengths_shorten_and_never_lengthen(void **state)
{
    (void)state;
    static const int32_t lengths[] = {0, 7, 64, 0, 0}; /* of 70 used rows there are 64, and -2 are none */
    allow_memory();
    for (int32_t b = 0; b < 5; ++b) {
        check(memory, memory + 6, 100, b, memory[b], lengths[b]);
        check(NULL, memory + 6, 50, b, 0, b == 1 ? 7 : b == 2 ? 50 : 0); /* dense */
    }
}

static void dense_sequences_have_all_rows(void **state)
{
    (void)state;
    *readable_begin = *readable_end = memory; /* nothing is read */
    check(NULL, NULL, 0, 0, 0, 0);
    check(NULL, NULL, 1, 7, 0, 1);
    check(NULL, NULL, INT32_MAX - 1, 2147483645, 0, INT32_MAX - 1);
    assert_true(*reads_outside == 0);
}

static void nothing_in_memory_leads_out_of_the_tensor(void **state)
{
    (void)state;
    static const int32_t edges[] = {INT32_MIN, INT32_MIN + 1, -1, 0, 1, 99, 100, 101, INT32_MAX - 1, INT32_MAX};
    struct random_source random = {.seed = 7};
    int32_t offsets[33], used[32];
    for (int round = 0; round < 20000; ++round) {
        int64_t rows = round % 3 == 0 ? 0 : round % 3 == 1 ? 100 : 2147483648;
        for (size_t i = 0; i < COUNT_OF(offsets); ++i) {
            offsets[i] = round % 2 == 0 ? edges[random_between(&random, 0, COUNT_OF(edges) - 1)]
                                        : (int32_t)random_between(&random, INT32_MIN, INT32_MAX);
            used[i % COUNT_OF(used)] = edges[random_between(&random, 0, COUNT_OF(edges) - 1)];
        }
        int32_t batch = (int32_t)random_between(&random, 0, 31);
        int64_t first = -1;
        int32_t length = -1;
        /* Only its two offsets are read, */
        *readable_begin = offsets + batch;
        *readable_end = offsets + batch + 2;
        find_sequence(offsets, NULL, rows, batch, &first, &length);
        assert_true(first >= 0 && length >= 0 && first + length <= rows);
        /* and its one length. */
        *readable_begin = used + batch;
        *readable_end = used + batch + 1;
        find_sequence(NULL, used, rows < INT32_MAX ? rows : INT32_MAX, batch, &first, &length);
        assert_true(first == 0 && length >= 0 && length <= rows);
    }
    assert_true(*reads_outside == 0);
}

/* The test would notice a read outside. */
static void reads_outside_are_counted(void **state)
{
    (void)state;
    int64_t first;
    int32_t length;
    *readable_begin = memory;
    *readable_end = memory + 1;
    find_sequence(memory, NULL, 100, 0, &first, &length);
    assert_true(*reads_outside == 1);
    *reads_outside = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequences_lie_between_their_offsets),
        cmocka_unit_test(used_lengths_shorten_and_never_lengthen),
        cmocka_unit_test(dense_sequences_have_all_rows),
        cmocka_unit_test(nothing_in_memory_leads_out_of_the_tensor),
        cmocka_unit_test(reads_outside_are_counted),
    };
    return cmocka_run_group_tests(tests, build_all, remove_all);
}
