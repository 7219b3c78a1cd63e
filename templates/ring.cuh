/*
 * A place in a ring of shared-memory slots, as the number of the uses before it: which slot, and in which of its alternating uses.
 * The parity of a slot's `full` barrier in a use is phase(); that of its `empty` barrier before the use is phase() ^ 1, which passes at once
 * the first time round.
 */
#ifndef GDPA_RING_CUH
#define GDPA_RING_CUH

#include "types.cuh"

template <int kSlots> struct RingPlace {
    uint32_t uses = 0;

    __device__ uint32_t slot() const
    {
        return uses % kSlots;
    }

    __device__ uint32_t phase() const
    {
        return uses / kSlots % 2;
    }
};

#endif
