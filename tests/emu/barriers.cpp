/*
 * Named barriers of a block: bar.sync and bar.arrive.
 */
#include "block.hpp"
#include "device.hpp"

namespace emu
{

/* Release: what the thread has seen becomes part of `target`, and what it does from now on is later. */
void publish(Thread &thread, Clock &target)
{
    target.join(thread.clock);
    thread.clock.tick(thread.actor);
    thread.warp->published = true;
}

struct Arrive {
    const char *name;
    uint32_t number;
    uint32_t threads;
    bool wait;
};

static void complete(NamedBarrier &barrier)
{
    for (Warp *warp : barrier.waiting) {
        for (Thread *thread : warp->threads) {
            thread->clock.join(barrier.clock);
            thread->warp->version++;
            make_ready(*thread);
        }
    }
    barrier.waiting.clear();
    barrier.warps.clear();
    barrier.arrived = barrier.expected = 0;
    barrier.clock.reset();
}

static void check_operands(const Warp &warp, const Arrive &arrive, uint32_t threads)
{
    for (uint32_t lane = 1; lane < kWarpLanes; ++lane) {
        const auto &other = operands_of<Arrive>(warp, lane);
        if (other.number != arrive.number || other.threads != arrive.threads) {
            fail("%s: lanes 0 and %u name different barriers or counts (%u, %u and %u, %u)", arrive.name, lane,
                 arrive.number, arrive.threads, other.number, other.threads);
        }
    }
    if (arrive.number >= kNamedBarriers) {
        fail("%s: barrier %u does not exist, there are %u", arrive.name, arrive.number, kNamedBarriers);
    }
    if (threads % kWarpLanes != 0 || threads > warp.block->threads.size()) {
        fail("%s: barrier %u for %u threads: the count must be a multiple of 32 and at most the %zu of the block",
             arrive.name, arrive.number, threads, warp.block->threads.size());
    }
}

static void execute_arrive(Warp &warp)
{
    const Arrive arrive = operands_of<Arrive>(warp, 0);
    Block &block = *warp.block;
    const auto of_block = static_cast<uint32_t>(block.threads.size());
    const uint32_t threads = arrive.threads == 0 ? of_block : arrive.threads;
    check_operands(warp, arrive, threads);
    NamedBarrier &barrier = block.barriers[arrive.number];
    if (barrier.expected != 0 && barrier.expected != threads) {
        fail("%s: barrier %u with %u threads, but the warps that wait there came for %u threads: barrier count wrong",
             arrive.name, arrive.number, threads, barrier.expected);
    }
    for (const uint32_t come : barrier.warps) {
        if (come == warp.index) {
            fail("%s: warp %u arrives twice at barrier %u before it is complete (%u of %u threads)", arrive.name,
                 warp.index, arrive.number, barrier.arrived, barrier.expected);
        }
    }
    barrier.expected = threads;
    barrier.arrived += kWarpLanes;
    barrier.warps.push_back(warp.index);
    for (Thread *thread : warp.threads) {
        publish(*thread, barrier.clock);
    }
    if (arrive.wait) {
        barrier.waiting.push_back(&warp);
        for (Thread *thread : warp.threads) {
            thread->wait = Wait::Barrier;
            thread->wait_value = arrive.number;
        }
    }
    if (barrier.arrived == barrier.expected) {
        complete(barrier);
    }
}

void barrier(const char *name, uint32_t number, uint32_t threads, bool wait)
{
    EMU_ENTER(name);
    static const Instruction sync = {"bar.sync", execute_arrive};
    static const Instruction arrive = {"bar.arrive", execute_arrive};
    Arrive operands = {name, number, threads, wait};
    meet(wait ? sync : arrive, &operands);
}

/* Called between blocks: whoever has arrived at a barrier that never completed was counted wrongly. */
void check_named_barriers(const Block &block)
{
    for (uint32_t number = 0; number < kNamedBarriers; ++number) {
        const NamedBarrier &barrier = block.barriers[number];
        if (barrier.arrived != 0) {
            fail("block %u ended while barrier %u had %u of %u threads: barrier count wrong", block.index, number,
                 barrier.arrived, barrier.expected);
        }
    }
}

} // namespace emu
