/*
 * mbarrier objects: arrivals, transaction bytes, phases.
 *
 * Beyond what the hardware does: an arrival that finds all arrivals of the phase made, a thread that arrives twice in a phase, and a phase
 * that completes before anybody has waited for the one before it are faults, for a wait by parity cannot tell such phases apart. So is a block
 * that leaves before anybody in it can know of the latest arrivals from other blocks.
 */
#include "bulk.hpp"
#include "cluster_address.hpp"
#include "device.hpp"
#include "text.hpp"

#include <algorithm>

namespace emu
{

static constexpr uint32_t kMbarrierBytes = 8;
static constexpr int64_t kMostArrivals = (1 << 20) - 1;
static constexpr int64_t kMostBytes = (1 << 20) - 1;

std::string mbarrier_text(const Block &block, uint32_t address)
{
    const auto found = block.mbarriers.find(address);
    if (found == block.mbarriers.end()) {
        return text("an mbarrier at 0x%x that does not exist", address);
    }
    const Mbarrier &barrier = found->second;
    return text(
        "the mbarrier at 0x%x (shared + %u): phase %u is under way, %lld of %u arrivals and %lld bytes are missing",
        address, address - SharedMemory::kBase, barrier.phase, static_cast<long long>(barrier.pending), barrier.count,
        static_cast<long long>(barrier.bytes));
}

/* The barrier, if this thread may use it. */
static Mbarrier &find_mbarrier(const SharedPlace &place)
{
    if (place.block->live_threads == 0) {
        fail("block %u has left the kernel, and its mbarrier at 0x%x with it (missing cluster barrier)",
             place.block->index, place.address);
    }
    const auto found = place.block->mbarriers.find(place.address);
    if (found == place.block->mbarriers.end()) {
        fail("there is no mbarrier at shared address 0x%x: missing mbarrier_init", place.address);
    }
    Mbarrier &barrier = found->second;
    if (current->clock.seen(barrier.init_actor) < barrier.init_time) {
        fail("the mbarrier at 0x%x was initialised by %s, and no barrier lies between", place.address,
             actor_name(*place.block->cluster, barrier.init_actor).c_str());
    }
    if (place.block != current->block && !barrier.init_fenced) {
        fail("the mbarrier at 0x%x of another block was initialised without fence_mbarrier_init", place.address);
    }
    return barrier;
}

void mbarrier_init(const char *name, uint32_t address, uint32_t count)
{
    EMU_ENTER(name);
    Thread &self = *current;
    Block &block = *self.block;
    block.shared->at(address, kMbarrierBytes, kMbarrierBytes, name);
    if (count == 0 || count > kMostArrivals) {
        fail("%u arrivals: must be 1 to %lld", count, static_cast<long long>(kMostArrivals));
    }
    if (block.mbarriers.count(address) != 0) {
        fail("initialises the mbarrier at 0x%x again, without mbarrier.inval", address);
    }
    block.shared->make_barrier(address, thread_access(self));
    Mbarrier &barrier = block.mbarriers[address];
    barrier.count = count;
    barrier.pending = count;
    barrier.init_actor = self.actor;
    barrier.init_time = self.now();
    barrier.arriving = barrier.completed = Clock(block.cluster->actors);
}

void mbarrier_invalidate(const char *name, uint32_t address)
{
    EMU_ENTER(name);
    find_mbarrier({current->block, address});
    current->block->mbarriers.erase(address);
    current->block->shared->remove_barrier(address);
}

/* fence.mbarrier_init, and a part of fence.proxy.async: the copy engine and other blocks may use what this thread initialised. */
void fence_mbarriers(Thread &thread)
{
    for (auto &barrier : thread.block->mbarriers) {
        if (barrier.second.init_actor == thread.actor) {
            barrier.second.init_fenced = true;
        }
    }
}

void mbarrier_fence_init(const char *name)
{
    EMU_ENTER(name);
    fence_mbarriers(*current);
}

static void complete_if_ready(Block &block, uint32_t address, Mbarrier &barrier)
{
    if (barrier.pending != 0 || barrier.bytes != 0) {
        return;
    }
    if (!barrier.observed) {
        fail("phase %u of the mbarrier at 0x%x completes before anybody has waited for phase %u: arrived twice (double "
             "arrive), or a wait is missing",
             barrier.phase, address, barrier.phase - 1);
    }
    barrier.completed = barrier.arriving;
    barrier.pending = barrier.count;
    barrier.arrived.clear();
    ++barrier.phase;
    barrier.observed = !barrier.waiting.empty();
    for (Thread *thread : barrier.waiting) {
        thread->clock.join(barrier.completed);
        thread->warp->version++;
        make_ready(*thread);
    }
    barrier.waiting.clear();
    (void)block;
}

static void arrive(const SharedPlace &place, Mbarrier &barrier, bool once)
{
    Thread &self = *current;
    if (once && barrier.count > 1 && !barrier.arrived.insert(self.actor).second) {
        fail("arrives twice in phase %u of the mbarrier at 0x%x (double arrive): %lld of %u arrivals are missing",
             barrier.phase, place.address, static_cast<long long>(barrier.pending), barrier.count);
    }
    if (barrier.pending == 0) {
        fail("all %u arrivals of phase %u of the mbarrier at 0x%x have been made (double arrive); it waits for %lld "
             "bytes",
             barrier.count, barrier.phase, place.address, static_cast<long long>(barrier.bytes));
    }
    if (place.block != self.block) {
        place.block->remote_arrivals[self.actor] = self.now();
    }
    publish(self, barrier.arriving);
    --barrier.pending;
    complete_if_ready(*place.block, place.address, barrier);
}

bool block_has_seen(const Block &block, uint16_t actor, uint32_t time)
{
    return std::any_of(block.threads.begin(), block.threads.end(),
                       [&](const Thread &thread) { return thread.clock.seen(actor) >= time; });
}

void check_remote_arrivals(const Block &block)
{
    for (const auto &[actor, time] : block.remote_arrivals) {
        if (!block_has_seen(block, actor, time)) {
            fail("block %u leaves the kernel while %s may still arrive at one of its mbarriers: missing wait, or "
                 "missing cluster barrier",
                 block.index, actor_name(*block.cluster, actor).c_str());
        }
    }
}

void mbarrier_arrive(const char *name, uint32_t address)
{
    EMU_ENTER(name);
    const SharedPlace place = shared_place(*current->block, address);
    arrive(place, find_mbarrier(place), true);
}

static void expect(const SharedPlace &place, Mbarrier &barrier, uint32_t bytes)
{
    barrier.bytes += bytes;
    if (barrier.bytes > kMostBytes) {
        fail("the mbarrier at 0x%x waits for %lld bytes: at most %lld are possible", place.address,
             static_cast<long long>(barrier.bytes), static_cast<long long>(kMostBytes));
    }
}

void mbarrier_expect_tx(const char *name, uint32_t address, uint32_t bytes)
{
    EMU_ENTER(name);
    const SharedPlace place = shared_place(*current->block, address);
    expect(place, find_mbarrier(place), bytes);
}

void mbarrier_arrive_expect_tx(const char *name, uint32_t address, uint32_t bytes)
{
    EMU_ENTER(name);
    const SharedPlace place = shared_place(*current->block, address);
    Mbarrier &barrier = find_mbarrier(place);
    expect(place, barrier, bytes);
    arrive(place, barrier, false);
}

void mbarrier_wait_parity(const char *name, uint32_t address, uint32_t parity)
{
    EMU_ENTER(name);
    Thread &self = *current;
    Mbarrier &barrier = find_mbarrier({self.block, address});
    if (parity > 1) {
        fail("parity %u of the mbarrier at 0x%x: must be 0 or 1", parity, address);
    }
    const bool passes = (barrier.phase & 1) != parity;
    self.mbarrier_wait = {address, parity, barrier.phase, passes};
    if (passes) {
        self.clock.join(barrier.completed);
        self.warp->version++;
        barrier.observed = true;
        return;
    }
    self.wait = Wait::Mbarrier;
    self.wait_value = address;
    self.wait_detail = parity;
    self.warp->ready &= ~(1u << self.lane);
    barrier.waiting.push_back(&self);
    engine->block_thread();
}

/* Bytes of a bulk copy have arrived, and with them everything up to `time` of the copy engine. */
void mbarrier_complete_bytes(Block &block, uint32_t address, uint32_t bytes, uint16_t actor, uint32_t time)
{
    const auto found = block.mbarriers.find(address);
    if (found == block.mbarriers.end()) {
        fail("a bulk copy completes on the mbarrier at 0x%x of block %u, which does not exist any more", address,
             block.index);
    }
    Mbarrier &barrier = found->second;
    barrier.bytes -= bytes;
    barrier.arriving.set_seen(actor, std::max(barrier.arriving.seen(actor), time));
    complete_if_ready(block, address, barrier);
}

/* Whether the copy engine may signal it; at the issue of a copy. */
void check_mbarrier_for_bulk(Block &block, uint32_t address)
{
    const Mbarrier &barrier = find_mbarrier({&block, address});
    if (!barrier.init_fenced) {
        fail("the copy engine is to signal the mbarrier at 0x%x, which was initialised without a fence_mbarrier_init "
             "(or fence.proxy.async) of the same thread",
             address);
    }
}

bool mbarrier_has_waiters(const Block &block, uint32_t address)
{
    const auto found = block.mbarriers.find(address);
    return found != block.mbarriers.end() && !found->second.waiting.empty();
}

} // namespace emu
