/*
 * Registers moved between warpgroups. PTX ISA, "setmaxnreg" (sm_90a). All warps of a warpgroup execute it; the sum over the block
 * after it must not pass what the block had at entry.
 */
#ifndef GDPA_PTX_SETMAXNREG_CUH
#define GDPA_PTX_SETMAXNREG_CUH

template <int kRegisters> __device__ inline void setmaxnreg_inc()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

template <int kRegisters> __device__ inline void setmaxnreg_dec()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

#endif
