/*
 * Addresses of the .shared::cluster window: bits 24 and up are 0 for the block's own shared memory, else the rank of the block plus 1.
 */
#ifndef GDPA_EMU_CLUSTER_ADDRESS_HPP
#define GDPA_EMU_CLUSTER_ADDRESS_HPP

#include "block.hpp"

namespace emu
{

struct SharedPlace {
    Block *block;
    uint32_t address; // in the window of that block
};

constexpr uint32_t kRankShift = 24;

inline uint32_t map_to_rank(uint32_t address, uint32_t rank)
{
    return (address & ((1u << kRankShift) - 1)) | (rank + 1) << kRankShift;
}

/* `own`: the block that uses the address. */
inline SharedPlace shared_place(Block &own, uint32_t address)
{
    const uint32_t rank = address >> kRankShift;
    if (rank == 0) {
        return {&own, address};
    }
    if (rank > own.cluster->blocks.size()) {
        fail("shared address 0x%x is of block %u of a cluster of %zu", address, rank - 1, own.cluster->blocks.size());
    }
    return {own.cluster->blocks[rank - 1].get(), address & ((1u << kRankShift) - 1)};
}

} // namespace emu

#endif
