/*
 * Blocks of an SM; see occupancy.h. The granularities are those of the CUDA C programming guide, "Technical Specifications
 * per Compute Capability", the same for every architecture of gen/archs.def.
 */
#include "tools/occupancy.h"

#include "tools/vocabulary.h"

enum {
    WARP_THREADS = 32,
    REGISTER_UNIT = 256,  /* registers a warp gets are a multiple of this */
    SUB_PARTITIONS = 4,   /* an SM's registers are split, and a warp lives in one part */
    SMEM_UNIT = 128,      /* shared memory of a block is a multiple of this */
    SMEM_RESERVED = 1024, /* that the system takes of each block */
};

/* Resident blocks of one SM. */
static int block_limit(int arch)
{
    switch (arch) {
    case 86:
    case 87:
        return 16;
    case 89:
    case 120:
    case 121:
        return 24;
    default:
        return 32;
    }
}

static int round_up(int value, int unit)
{
    return (value + unit - 1) / unit * unit;
}

bool occupancy_compute(int arch, int registers, int smem, int threads, struct occupancy *occupancy)
{
    const struct arch_limits *limits = arch_limits_find(arch);
    if (limits == NULL || registers <= 0 || registers > 255 || threads <= 0 || threads > 1024 || smem < 0 ||
        smem > limits->smem_sm) {
        return false;
    }
    int warps = (threads + WARP_THREADS - 1) / WARP_THREADS;
    int registers_warp = round_up(registers * WARP_THREADS, REGISTER_UNIT);
    int warps_registers = limits->regs_sm / SUB_PARTITIONS / registers_warp * SUB_PARTITIONS;
    struct occupancy result = {
        .by_registers = warps_registers / warps,
        .by_smem = limits->smem_sm / round_up(smem + SMEM_RESERVED, SMEM_UNIT),
        .by_warps = limits->warps_sm / warps,
        .by_blocks = block_limit(arch),
        .warps_limit = limits->warps_sm,
    };
    const struct {
        int blocks;
        const char *name;
    } candidates[] = {
        {result.by_registers, "registers"},
        {result.by_smem, "shared memory"},
        {result.by_blocks, "blocks"},
    };
    result.blocks = result.by_warps; /* of equal limits the one that cannot be moved is named */
    result.limiter = "warps";
    for (unsigned i = 0; i < sizeof candidates / sizeof *candidates; i++) {
        if (candidates[i].blocks < result.blocks) {
            result.blocks = candidates[i].blocks;
            result.limiter = candidates[i].name;
        }
    }
    result.warps = result.blocks * warps;
    *occupancy = result;
    return true;
}
