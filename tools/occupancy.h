/*
 * How many blocks of a kernel one SM holds, and what limits that. Pure arithmetic on the numbers of gen/archs.def.
 */
#ifndef GDPA_TOOLS_OCCUPANCY_H
#define GDPA_TOOLS_OCCUPANCY_H

#include <stdbool.h>

struct occupancy {
    int by_registers, by_smem, by_warps, by_blocks; /* blocks, were that the only limit */
    int blocks;
    int warps, warps_limit; /* of one SM, in that case and at most */
    const char *limiter;    /* "registers", "shared memory", "warps" or "blocks" */
};

/* registers: a thread; smem: static and dynamic bytes; threads: a block. False for an unknown arch or impossible numbers. */
bool occupancy_compute(int arch, int registers, int smem, int threads, struct occupancy *occupancy);

#endif
