/*
 * Operations of the bulk copy engine and how they signal mbarriers. Internal to the engine.
 */
#ifndef GDPA_EMU_BULK_HPP
#define GDPA_EMU_BULK_HPP

#include "block.hpp"

#include <functional>

namespace emu
{

/* A piece of shared memory that an operation writes or reads, with the mbarrier it signals there (loads only). */
struct BulkPart {
    Block *block;
    uint32_t address;
    uint32_t bytes;
    uint32_t mbarrier;
};

struct BulkOperation {
    uint32_t number = 0; // for reports
    const char *name = "";
    Block *issuer = nullptr;
    bool load = false; // into shared memory, and completes on mbarriers; else shared -> global
    std::vector<BulkPart> parts;
    BulkPart source = {};                       // loads from shared memory of the issuer: what they read; else no block
    std::function<void(BulkOperation &)> read;  // loads: everything. Stores: shared -> staged
    std::function<void(BulkOperation &)> write; // stores: staged -> global
    std::vector<unsigned char> staged;
    bool has_read = false;
    bool has_written = false;
    bool counts_as_reader = false; // its reads are noted as pending in the shadow
};

void fence_mbarriers(Thread &thread);
void mbarrier_complete_bytes(Block &block, uint32_t address, uint32_t bytes, uint16_t actor, uint32_t time);
void check_mbarrier_for_bulk(Block &block, uint32_t address);
bool mbarrier_has_waiters(const Block &block, uint32_t address);

} // namespace emu

#endif
