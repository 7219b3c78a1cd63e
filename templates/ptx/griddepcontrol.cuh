/*
 * Kernels that start before the one in front of them has ended. PTX ISA, "griddepcontrol" (sm_90).
 */
#ifndef GDPA_PTX_GRIDDEPCONTROL_CUH
#define GDPA_PTX_GRIDDEPCONTROL_CUH

/* Until the kernels before have ended and their writes are visible. */
__device__ inline void griddepcontrol_wait()
{
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

/* The kernel behind may start once every block has said so or ended. */
__device__ inline void griddepcontrol_launch_dependents()
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

#endif
