/*
 * Order between ordinary accesses and those of the copy engine and the tensor cores (the async proxy). PTX ISA, "fence.proxy".
 */
#ifndef GDPA_PTX_FENCE_CUH
#define GDPA_PTX_FENCE_CUH

/* This thread's accesses to shared memory before it come before the async proxy's after it. */
__device__ inline void fence_proxy_async_shared()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

#endif
