/*
 * Loads, stores and cp.async of single threads.
 */
#include "block.hpp"
#include "device.hpp"
#include "text.hpp"

#include <cstring>

namespace emu
{

uint32_t thread_index()
{
    return current->index;
}

uint32_t block_index_x()
{
    return current->block->index % engine->launch().grid;
}

uint32_t block_index_y()
{
    return current->block->index / engine->launch().grid;
}

uint32_t grid_x()
{
    return engine->launch().grid;
}

uint32_t shared_base()
{
    return SharedMemory::kBase;
}

Access thread_access(const Thread &thread)
{
    return {thread.actor, thread.now(), &thread.clock, thread.doing, false};
}

void load_shared(const char *name, uint32_t address, void *value, uint32_t bytes)
{
    EMU_ENTER(name);
    Block &block = *current->block;
    const unsigned char *source = block.shared->at(address, bytes, bytes, name);
    block.shared->read(address, bytes, thread_access(*current), block.lane_slot(*current->warp));
    memcpy(value, source, bytes);
}

void store_shared(const char *name, uint32_t address, const void *value, uint32_t bytes)
{
    EMU_ENTER(name);
    Block &block = *current->block;
    unsigned char *target = block.shared->at(address, bytes, bytes, name);
    block.shared->write(address, bytes, thread_access(*current));
    memcpy(target, value, bytes);
}

/* Not inlined into callers whose return address EMU_ENTER has taken. */
static void check_global(const char *name, const void *address, uint32_t bytes, uint32_t alignment, bool write)
{
    const auto place = reinterpret_cast<uintptr_t>(address);
    if (place % alignment != 0) {
        fail("%s: global address 0x%zx is not a multiple of %u", name, static_cast<size_t>(place), alignment);
    }
    const GlobalMemory *memory = engine->launch().memory;
    if (memory != nullptr && bytes != 0 && !memory->allows(place, bytes, write)) {
        fail("%s: %s %s", name, write ? "writes" : "reads", memory->refusal(place, bytes, write).c_str());
    }
}

void load_global(const char *name, const void *address, void *value, uint32_t bytes)
{
    EMU_ENTER(name);
    check_global(name, address, bytes, bytes, false);
    memcpy(value, address, bytes);
}

void store_global(const char *name, void *address, const void *value, uint32_t bytes)
{
    EMU_ENTER(name);
    check_global(name, address, bytes, bytes, true);
    memcpy(address, value, bytes);
}

/* ---------------------------------------------------------------------------------------------------------------
 * cp.async: the bytes count as under way until the issuing thread has waited for their group.
 * ------------------------------------------------------------------------------------------------------------- */

static void perform(Block &block, Copy &copy, const char *name)
{
    unsigned char *target = block.shared->at(copy.shared, copy.bytes, copy.bytes, name);
    memcpy(target, copy.global, copy.source_bytes);
    memset(target + copy.source_bytes, 0, copy.bytes - copy.source_bytes);
    copy.done = true;
}

void copy_async(const char *name, uint32_t shared, const void *global, uint32_t bytes, uint32_t source_bytes)
{
    EMU_ENTER(name);
    Thread &self = *current;
    Block &block = *self.block;
    if (source_bytes > bytes) {
        fail("%s: source size %u is larger than the copy's %u bytes", name, source_bytes, bytes);
    }
    block.shared->at(shared, bytes, bytes, name);
    check_global(name, global, source_bytes, bytes, false);
    const bool first = self.open_copies.empty();
    const uint32_t operation = first ? engine->new_operation(self, name) : self.open_copies.front().operation;
    Copy copy{shared, bytes, source_bytes, static_cast<const unsigned char *>(global), operation, false};
    block.shared->begin_async_write(shared, bytes, thread_access(self), operation);
    if (engine->completes_at_once()) {
        perform(block, copy, name);
    }
    self.open_copies.push_back(copy);
}

void copy_async_commit(const char *name)
{
    EMU_ENTER(name);
    current->copy_groups.push_back(std::move(current->open_copies));
    current->open_copies.clear();
}

void complete_copy_groups(Thread &thread, size_t keep)
{
    Block &block = *thread.block;
    while (thread.copy_groups.size() > keep) {
        for (Copy &copy : thread.copy_groups.front()) {
            if (!copy.done) {
                perform(block, copy, "cp.async");
            }
            block.shared->end_async_write(copy.shared, copy.bytes, thread.actor, thread.now(), false, "cp.async",
                                          copy.operation);
        }
        thread.copy_groups.pop_front();
    }
}

void copy_async_wait(const char *name, uint32_t pending)
{
    EMU_ENTER(name);
    complete_copy_groups(*current, pending);
}

} // namespace emu
