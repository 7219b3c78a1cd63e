/*
 * Block-wide barrier. PTX ISA, "bar.sync".
 */
#ifndef GDPA_PTX_BARRIER_CUH
#define GDPA_PTX_BARRIER_CUH

/* All threads of the block; orders their shared and global accesses. */
__device__ inline void bar_sync_0()
{
    asm volatile("bar.sync 0;" ::: "memory");
}

#endif
