/*
 * templates/ring.cuh on the host: places run through the slots, and with the parities that they give, a producer and a consumer never meet in
 * a slot, whoever is faster. A barrier is a count of completed phases here; a wait for parity p passes when the phase with that parity has ended.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/host_build.h"
#include "tests/support/random.h"

enum { MOST_SLOTS = 5, ROUNDS = 2000 };

typedef void (*place_fn)(uint32_t uses, uint32_t *slot, uint32_t *phase);

static struct host_build build;
static place_fn place_of[MOST_SLOTS + 1]; /* by number of slots */

static int build_all(void **state)
{
    (void)state;
    static const char *const files[] = {"ring.cuh", NULL};
    FILE *text = host_build_begin(&build);
    fputs("#include \"tests/templates/host_arithmetic.hpp\"\n", text);
    host_build_add(&build, "head_dim=64 activation=relu arch=90", NULL, files);
    for (int slots = 1; slots <= MOST_SLOTS; ++slots) {
        fprintf(
            text,
            "extern \"C\" void place_%d(uint32_t uses, uint32_t *slot, uint32_t *phase)\n"
            "{\n    const RingPlace<%d> place = {uses};\n    *slot = place.slot();\n    *phase = place.phase();\n}\n",
            slots, slots);
    }
    host_build_finish(&build);
    for (int slots = 1; slots <= MOST_SLOTS; ++slots) {
        char name[32];
        snprintf(name, sizeof(name), "place_%d", slots);
        host_build_function(&build, name, &place_of[slots]);
    }
    return 0;
}

static int remove_all(void **state)
{
    (void)state;
    host_build_end(&build);
    return 0;
}

static void places_run_through_the_slots_and_change_phase_each_time_round(void **state)
{
    (void)state;
    for (uint32_t slots = 1; slots <= MOST_SLOTS; ++slots) {
        for (uint32_t uses = 0; uses < 100; ++uses) {
            uint32_t slot, phase;
            place_of[slots](uses, &slot, &phase);
            assert_int_equal(slot, uses % slots);
            assert_int_equal(phase, uses / slots % 2);
        }
    }
}

/* mbarrier.try_wait.parity: the phase with this parity has ended; the one before the first has parity 1. */
static bool wait_passes(uint32_t completed_phases, uint32_t parity)
{
    return (completed_phases & 1) != parity;
}

/* Every slot has a use number in it while it is full, -1 while it is empty. */
static void producer_and_consumer_never_meet_in_a_slot(void **state)
{
    (void)state;
    struct random_source random = {.seed = 5};
    for (uint32_t slots = 1; slots <= MOST_SLOTS; ++slots) {
        uint32_t full[MOST_SLOTS] = {0}, empty[MOST_SLOTS] = {0}, produced = 0, consumed = 0, slot, phase;
        int64_t held[MOST_SLOTS] = {-1, -1, -1, -1, -1};
        int idle = 0;
        while (consumed < ROUNDS) {
            bool producer = random_between(&random, 0, 99) < (consumed / 200 % 2 == 0 ? 80 : 20);
            place_of[slots](producer ? produced : consumed, &slot, &phase);
            if (producer && wait_passes(empty[slot], phase ^ 1)) {
                assert_true(held[slot] == -1);
                held[slot] = produced++;
                ++full[slot];
                idle = 0;
            } else if (!producer && wait_passes(full[slot], phase)) {
                assert_true(held[slot] == consumed);
                held[slot] = -1;
                ++consumed;
                ++empty[slot];
                idle = 0;
            }
            assert_true(++idle < 1000); /* one of them can always go on */
        }
        assert_true(produced - consumed <= slots);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_run_through_the_slots_and_change_phase_each_time_round),
        cmocka_unit_test(producer_and_consumer_never_meet_in_a_slot),
    };
    return cmocka_run_group_tests(tests, build_all, remove_all);
}
