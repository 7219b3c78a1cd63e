/*
 * The format of a schedule (gdpa_schedule_build), shared by host C and generated CUDA: 32-bit words on the device.
 *
 *     header    kScheduleHeaderWords: counters, in pairs {next place, blocks that are done}, all 0 between launches
 *     queries   the sequences, costliest query tiles first: for kernels whose blocks own query tiles
 *     keys      the sequences, costliest key tiles first: for the main kernel of a backward
 *
 * A list is kScheduleArrays arrays of schedule_stride(batch) words, by rank: the number of the sequence; then, for tiles of 64, 128 and 192
 * rows, how many tiles the sequences before it have together in one head, with their sum at [batch].
 */
#ifndef GDPA_TEMPLATES_SCHEDULE_FORMAT_H
#define GDPA_TEMPLATES_SCHEDULE_FORMAT_H

//@if host
#include <stdint.h>
//@endif

enum {
    kScheduleHeaderWords = 64,
    kScheduleForwardCounters = 0,  /* words of the header */
    kScheduleBackwardCounters = 2, /* of the main kernel */
    kScheduleSecondCounters = 4,   /* of the second one */
    kScheduleQueries = 0,          /* lists */
    kScheduleKeys = 1,
    kScheduleLists = 2,
    kScheduleArrays = 4,    /* of a list: the order, then one for each height of tiles */
    kScheduleTileStep = 64, /* array 1 is that of tiles of 64 rows, and so on */
    kScheduleHeights = 3,
    kScheduleThreads = 1024, /* of each of the kScheduleLists blocks that make one */
    kScheduleClasses = 256,  /* of cost, in which sequences are counted */
    kScheduleSmemBytes = kScheduleThreads / 32 * (kScheduleClasses + kScheduleHeights) * 4 + kScheduleClasses * 4
};

//@if host
/* Words of an array: batch + 1, rounded up so that arrays begin at 256 bytes. */
static inline int64_t schedule_stride(int64_t batch)
{
    return (batch + 1 + kScheduleHeaderWords - 1) / kScheduleHeaderWords * kScheduleHeaderWords;
}

static inline int64_t schedule_bytes(int64_t batch)
{
    return (kScheduleHeaderWords + kScheduleLists * kScheduleArrays * schedule_stride(batch)) * 4;
}
//@endif

#endif
