/*
 * Groups of copies out of shared memory, of the thread that asked for them. PTX ISA, "cp.async.bulk.commit_group", "wait_group" (sm_90).
 */
#ifndef GDPA_PTX_BULK_GROUP_CUH
#define GDPA_PTX_BULK_GROUP_CUH

__device__ inline void cp_async_bulk_commit_group()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* Waits until at most kPending of the latest groups are under way. */
template <int kPending> __device__ inline void cp_async_bulk_wait_group()
{
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}

/* The same for their reads of shared memory: it may be written again, and must be waited for before the thread ends. */
template <int kPending> __device__ inline void cp_async_bulk_wait_group_read()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

#endif
