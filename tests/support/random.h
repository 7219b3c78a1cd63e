/*
 * Random numbers for tests and tools: the same for a seed on every machine and with any number of threads.
 *
 * A number is a hash of (seed, counter), so that threads may fill parts of an array without sharing a state.
 */
#ifndef GDPA_TESTS_SUPPORT_RANDOM_H
#define GDPA_TESTS_SUPPORT_RANDOM_H

#include <stdint.h>

struct random_source {
    uint64_t seed;
    uint64_t counter;
};

/* Number `counter` of the sequence of a seed. */
uint64_t random_hash(uint64_t seed, uint64_t counter);

uint64_t random_next(struct random_source *source);

/* Uniform in [0, 1). */
double random_unit(struct random_source *source);

/* Uniform integer, both ends included; lowest <= highest. */
int64_t random_between(struct random_source *source, int64_t lowest, int64_t highest);

/* Standard normal. */
double random_normal(struct random_source *source);

/* A seed that differs from run to run. */
uint64_t random_fresh_seed(void);

/*
 * Fills `count` elements with N(0, sigma^2) rounded to the type (gdpa_dtype). The result depends on the seed alone.
 * threads 0: one a processor.
 */
void random_fill_normal(int32_t dtype, void *data, int64_t count, double sigma, uint64_t seed, int threads);

#endif
