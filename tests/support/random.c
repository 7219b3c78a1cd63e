/*
 * Random numbers for tests and tools. See random.h.
 *
 * The hash is two rounds of xor, shift and multiply over a Weyl sequence; normals come in pairs from a point in the
 * unit square (Box and Muller).
 */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/random.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "include/gdpajit.h"
#include "tests/support/half.h"
#include "tests/support/parallel.h"

static const double two_pi = 6.283185307179586476925;

uint64_t random_hash(uint64_t seed, uint64_t counter)
{
    uint64_t x = (seed ^ seed >> 31) * UINT64_C(0x9e3779b97f4a7c15) + (counter + 1) * UINT64_C(0xd1342543de82ef95);
    x ^= x >> 32;
    x *= UINT64_C(0xbea225f9eb34556d);
    x ^= x >> 29;
    x *= UINT64_C(0xd6e8feb86659fd93);
    x ^= x >> 32;
    return x;
}

uint64_t random_next(struct random_source *source)
{
    return random_hash(source->seed, source->counter++);
}

/* Uniform in [0, 1) from the top 53 bits. */
static double unit_of(uint64_t bits)
{
    return (double)(bits >> 11) * 0x1p-53;
}

double random_unit(struct random_source *source)
{
    return unit_of(random_next(source));
}

int64_t random_between(struct random_source *source, int64_t lowest, int64_t highest)
{
    uint64_t span = (uint64_t)highest - (uint64_t)lowest + 1;
    uint64_t value = random_next(source);
    return (int64_t)((uint64_t)lowest + (span == 0 ? value : value % span));
}

/* Two independent standard normals from one hash each of radius and angle. */
static void normal_pair(uint64_t seed, uint64_t pair, double normals[2])
{
    double radius = sqrt(-2 * log(1 - unit_of(random_hash(seed, 2 * pair))));
    double angle = two_pi * unit_of(random_hash(seed, 2 * pair + 1));
    normals[0] = radius * cos(angle);
    normals[1] = radius * sin(angle);
}

double random_normal(struct random_source *source)
{
    double radius = sqrt(-2 * log(1 - random_unit(source)));
    return radius * cos(two_pi * random_unit(source));
}

uint64_t random_fresh_seed(void)
{
    uint64_t seed = 0;
    FILE *file = fopen("/dev/urandom", "rb");
    if (file) {
        if (fread(&seed, sizeof seed, 1, file) != 1) {
            seed = 0;
        }
        fclose(file);
    }
    if (seed == 0) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        seed = random_hash((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec, (uint64_t)getpid());
    }
    return seed >> 1; /* prints as a positive number of any 64-bit type */
}

enum {
    FILL_CHUNK = 1 << 16, /* elements a thread takes at a time; even, so that pairs never straddle chunks */
};

struct fill_job {
    int32_t dtype;
    void *data;
    int64_t count;
    double sigma;
    uint64_t seed;
};

static void fill_chunk(int64_t item, int thread, void *user)
{
    (void)thread;
    const struct fill_job *job = user;
    int64_t begin = item * FILL_CHUNK;
    int64_t end = job->count - begin < FILL_CHUNK ? job->count : begin + FILL_CHUNK;
    for (int64_t i = begin; i < end; i += 2) {
        double normals[2];
        normal_pair(job->seed, (uint64_t)i / 2, normals);
        dtype_store(job->dtype, job->data, i, job->sigma * normals[0]);
        if (i + 1 < end) {
            dtype_store(job->dtype, job->data, i + 1, job->sigma * normals[1]);
        }
    }
}

void random_fill_normal(int32_t dtype, void *data, int64_t count, double sigma, uint64_t seed, int threads)
{
    struct fill_job job = {.dtype = dtype, .data = data, .count = count, .sigma = sigma, .seed = seed};
    parallel_for((count + FILL_CHUNK - 1) / FILL_CHUNK, threads, fill_chunk, &job);
}
