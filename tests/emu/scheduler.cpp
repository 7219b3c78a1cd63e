/*
 * Launching: blocks are started, warps are picked, threads run until they must wait for somebody else.
 */
#include "block.hpp"
#include "faults.hpp"
#include "text.hpp"

#include <algorithm>

namespace emu
{

Engine *engine = nullptr;
Thread *current = nullptr;

static constexpr uint32_t kRegistersOfSm = 65536;

/* Thrown where a fault is found while no thread runs. */
struct Stopped {
};

Engine::Engine(const Launch &launch) : launch_(launch), random_state_(launch.seed * 0x9e3779b97f4a7c15u + 1)
{
    const uint32_t count = launch.grid * launch.grid_y / launch.cluster;
    for (uint32_t i = 0; i < count; ++i) {
        order_.push_back(count - 1 - i);
    }
    if (shuffled()) {
        for (uint32_t i = count; i > 1; --i) {
            std::swap(order_[i - 1], order_[random(i)]);
        }
    }
}

Engine::~Engine() = default;

uint32_t Engine::random(uint32_t limit)
{
    if (launch_.seed == 0 || limit < 2) {
        return 0;
    }
    uint64_t z = (random_state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return static_cast<uint32_t>((z ^ z >> 31) >> 32) % limit;
}

bool Engine::completes_at_once()
{
    switch (launch_.completion) {
    case Completion::Latest:
        return false;
    case Completion::Earliest:
        return true;
    case Completion::Random:
        break;
    }
    return random(2) == 1;
}

uint32_t Engine::new_operation(const Thread &thread, const char *wrapper)
{
    operations_.push_back({thread.block->index, thread.index, wrapper, thread.where});
    return static_cast<uint32_t>(operations_.size() - 1);
}

std::string Engine::operation_name(uint32_t operation) const
{
    const Operation &what = operations_[operation];
    return text("the %s of thread %u of block %u", what.wrapper, what.thread, what.block);
}

std::string Engine::operation_place(uint32_t operation) const
{
    const std::string lines = source_lines(operations_[operation].where);
    return lines.empty() ? "" : "\n    it was started at" + lines + "\n    this is";
}

/* ---------------------------------------------------------------------------------------------------------------
 * Threads
 * ------------------------------------------------------------------------------------------------------------- */

static void thread_main()
{
    Thread &self = *current;
    engine->launch().entry(engine->launch().parameters);
    self.doing = "the end of the kernel";
    check_thread_exit(self);
    self.exited = true;
    Warp &warp = *self.warp;
    warp.live &= ~(1u << self.lane);
    warp.ready &= ~(1u << self.lane);
    if (--self.block->live_threads == 0) {
        check_block_leaves(*self.block);
        check_remote_arrivals(*self.block);
    }
    if (warp.arrived != 0 && warp.arrived == warp.live) {
        const Thread &other = *warp.threads[__builtin_ctz(warp.arrived)];
        fail("lanes diverge: this one has left the kernel, and others of the warp wait for it at %s%s",
             other.instruction->name, source_lines(other.where).c_str());
    }
    engine->block_thread();
    __builtin_unreachable();
}

/* The next lane of a warp that can run, after the one that ran last. */
static Thread *next_lane(Warp &warp)
{
    const uint32_t behind = warp.next_lane < kWarpLanes ? warp.ready >> warp.next_lane << warp.next_lane : 0;
    const uint32_t choice = behind != 0 ? behind : warp.ready;
    const auto lane = static_cast<uint32_t>(__builtin_ctz(choice));
    warp.next_lane = lane + 1;
    return warp.threads[lane];
}

void Engine::block_thread()
{
    Thread &self = *current;
    Warp &warp = *self.warp;
    if (warp.ready != 0) {
        Thread *next = next_lane(warp);
        current = next;
        fiber_switch(self.fiber, next->fiber);
    } else {
        fiber_switch(self.fiber, scheduler);
    }
}

void Engine::yield_thread()
{
    fiber_switch(current->fiber, scheduler);
}

void make_ready(Thread &thread)
{
    thread.wait = Wait::None;
    thread.warp->ready |= 1u << thread.lane;
}

/* A place for a breakpoint: the thread at fault is still on its stack. */
extern "C" __attribute__((noinline)) void emu_fault_found(const char *message)
{
    asm volatile("" ::"r"(message) : "memory");
}

void Engine::stop(const std::string &message)
{
    emu_fault_found(message.c_str());
    failed_ = true;
    failure_ = message;
    if (current == nullptr) {
        throw Stopped();
    }
    fiber_switch(current->fiber, scheduler);
    __builtin_unreachable();
}

/* ---------------------------------------------------------------------------------------------------------------
 * Instructions of whole warps
 * ------------------------------------------------------------------------------------------------------------- */

static void check_same(const Thread &self, const Thread &other, const Instruction &instruction)
{
    if (other.instruction != &instruction) {
        fail("the lanes of the warp diverge at an instruction that all must execute together: lane %u is at %s, lane "
             "%u at %s%s",
             self.lane, instruction.name, other.lane, other.instruction->name, source_lines(other.where).c_str());
    }
}

/* The last lane of a warp has come: true when the instruction was executed, false when other warps are missing. */
static bool warp_complete(Warp &warp, const Instruction &instruction)
{
    if (!instruction.warpgroup) {
        instruction.execute(warp);
        return true;
    }
    Block &block = *warp.block;
    Warpgroup &group = block.warpgroups[warp.index / kWarpgroupWarps];
    if (group.arrived != 0 && group.instruction != &instruction) {
        fail("the warps of warpgroup %u diverge: warp %u is at %s, another one at %s", warp.index / kWarpgroupWarps,
             warp.index, instruction.name, group.instruction->name);
    }
    group.instruction = &instruction;
    if (++group.arrived < kWarpgroupWarps) {
        return false;
    }
    group.arrived = 0;
    instruction.execute(block.warps[warp.index / kWarpgroupWarps * kWarpgroupWarps]);
    return true;
}

static void release_warp(Warp &warp)
{
    warp.arrived = 0;
    for (Thread *thread : warp.threads) {
        if (thread->wait == Wait::Warp || thread->wait == Wait::Warpgroup) {
            make_ready(*thread);
        }
    }
}

void meet(const Instruction &instruction, void *operands)
{
    Thread &self = *current;
    Warp &warp = *self.warp;
    self.instruction = &instruction;
    self.operands = operands;
    self.wait = instruction.warpgroup ? Wait::Warpgroup : Wait::Warp;
    if (warp.arrived != 0) {
        check_same(self, *warp.threads[__builtin_ctz(warp.arrived)], instruction);
    }
    warp.arrived |= 1u << self.lane;
    warp.ready &= ~(1u << self.lane);
    if (warp.arrived == warp.live) {
        if (warp.live != kAllLanes) {
            fail("lanes diverge: executed by lanes 0x%08x only, the others have left the kernel", warp.live);
        }
        if (warp_complete(warp, instruction)) {
            if (instruction.warpgroup) {
                const uint32_t first = warp.index / kWarpgroupWarps * kWarpgroupWarps;
                for (uint32_t i = first; i < first + kWarpgroupWarps; ++i) {
                    release_warp(warp.block->warps[i]);
                }
            } else {
                release_warp(warp);
            }
        }
        if ((warp.ready >> self.lane & 1) != 0 && !(engine->shuffled() && engine->random(16) == 0)) {
            return;
        }
        if ((warp.ready >> self.lane & 1) != 0) {
            engine->yield_thread();
            return;
        }
    }
    engine->block_thread();
}

/* ---------------------------------------------------------------------------------------------------------------
 * Blocks
 * ------------------------------------------------------------------------------------------------------------- */

static void reset_thread(Thread &thread)
{
    thread.exited = false;
    thread.wait = Wait::None;
    thread.doing = "the start of the kernel";
    thread.where = nullptr;
    thread.instruction = nullptr;
    thread.operands = nullptr;
    thread.clock.reset();
    thread.clock.set_seen(thread.actor, 1);
    thread.open_copies.clear();
    thread.copy_groups.clear();
    thread.open_bulk.clear();
    thread.bulk_groups.clear();
    thread.mbarrier_wait = MbarrierWait();
    thread.cluster_phase = 0;
}

static void build_block(Cluster &cluster, Block &block, const Launch &launch)
{
    const size_t warps = launch.block / kWarpLanes;
    block.cluster = &cluster;
    block.threads.resize(launch.block);
    block.warps.resize(warps);
    block.warpgroups.resize(warps / kWarpgroupWarps);
    uint16_t actor = block.first_actor;
    for (uint32_t i = 0; i < launch.block; ++i) {
        Thread &thread = block.threads[i];
        thread.block = &block;
        thread.warp = &block.warps[i / kWarpLanes];
        thread.index = i;
        thread.lane = i % kWarpLanes;
        thread.actor = actor++;
        thread.clock = Clock(cluster.actors);
        block.warps[i / kWarpLanes].threads[thread.lane] = &thread;
    }
    for (uint32_t i = 0; i < warps; ++i) {
        block.warps[i].block = &block;
        block.warps[i].index = i;
        block.warps[i].actor = actor++;
    }
    for (Warpgroup &group : block.warpgroups) {
        group.actor = actor++;
    }
    block.bulk_actor = actor;
    for (NamedBarrier &barrier : block.barriers) {
        barrier.clock = Clock(cluster.actors);
    }
    block.shared = std::make_unique<SharedMemory>(
        launch.shared_bytes, block.bulk_slot() + 1, [](const std::string &what) { fail("%s", what.c_str()); },
        [&cluster](uint16_t who) { return actor_name(cluster, who); },
        [](uint32_t operation, bool place) {
            return place ? engine->operation_place(operation) : engine->operation_name(operation);
        });
}

void Engine::start_block(Block &block, size_t slot)
{
    for (NamedBarrier &barrier : block.barriers) {
        barrier.expected = barrier.arrived = 0;
        barrier.clock.reset();
        barrier.waiting.clear();
        barrier.warps.clear();
    }
    block.mbarriers.clear();
    block.shared->reset();
    block.bulk_time = 0;
    block.copies.clear();
    block.remote_arrivals.clear();
    block.live_threads = launch_.block;
    const uint32_t limit = std::min(kRegistersOfSm / launch_.block / 8 * 8, 248u);
    const uint32_t registers = launch_.registers != 0 ? launch_.registers : limit;
    block.registers.free = 0;
    block.registers.waiting.clear();
    for (Thread &thread : block.threads) {
        reset_thread(thread);
        fiber_prepare(thread.fiber, stacks.at(slot * launch_.block + thread.index), thread_main);
    }
    for (Warp &warp : block.warps) {
        warp.ready = warp.live = kAllLanes;
        warp.arrived = warp.next_lane = 0;
        warp.published = true;
        warp.registers = registers;
    }
    for (Warpgroup &group : block.warpgroups) {
        group.arrived = 0;
        group.instruction = nullptr;
        group.wgmma.reset();
        group.time = 0;
    }
}

void Engine::start(Cluster &cluster, uint32_t index)
{
    const size_t warps = launch_.block / kWarpLanes;
    const size_t of_block = launch_.block + warps + warps / kWarpgroupWarps + 1;
    const auto place = static_cast<size_t>(
        std::find_if(clusters_.begin(), clusters_.end(), [&](const auto &c) { return c.get() == &cluster; }) -
        clusters_.begin());
    if (cluster.blocks.empty()) {
        cluster.actors = of_block * launch_.cluster;
        cluster.barrier.arriving = cluster.barrier.completed = Clock(cluster.actors);
        for (uint32_t rank = 0; rank < launch_.cluster; ++rank) {
            cluster.blocks.push_back(std::make_unique<Block>());
            Block &block = *cluster.blocks.back();
            block.rank = rank;
            block.first_actor = static_cast<uint16_t>(rank * of_block);
            build_block(cluster, block, launch_);
        }
    }
    cluster.index = index;
    cluster.running = true;
    cluster.barrier.arrived = cluster.barrier.phase = 0;
    cluster.barrier.waiting.clear();
    cluster.barrier.arriving.reset();
    cluster.barrier.completed.reset();
    cluster.bulk.clear();
    for (uint32_t rank = 0; rank < launch_.cluster; ++rank) {
        cluster.blocks[rank]->index = index * launch_.cluster + rank;
        start_block(*cluster.blocks[rank], place * launch_.cluster + rank);
    }
}

void Engine::finish(Cluster &cluster)
{
    cluster.running = false;
    for (auto &block : cluster.blocks) {
        check_block_end(*block);
    }
    const auto running = [](const auto &other) { return other->running; };
    if (std::none_of(clusters_.begin(), clusters_.end(), running)) {
        operations_.resize(1);
    }
}

/* ---------------------------------------------------------------------------------------------------------------
 * The loop
 * ------------------------------------------------------------------------------------------------------------- */

/* In order, the latest warp goes on as long as it can; shuffled, any warp may be next. */
Warp *Engine::pick_warp()
{
    if (!shuffled() && latest_warp_ != nullptr && latest_warp_->ready != 0) {
        return latest_warp_;
    }
    std::vector<Warp *> ready;
    for (auto &cluster : clusters_) {
        for (auto &block : cluster->blocks) {
            for (Warp &warp : block->warps) {
                if (cluster->running && warp.ready != 0) {
                    ready.push_back(&warp);
                }
            }
        }
    }
    return ready.empty() ? nullptr : ready[random(static_cast<uint32_t>(ready.size()))];
}

void Engine::resume(Warp &warp)
{
    latest_warp_ = &warp;
    if (shuffled()) {
        warp.next_lane = random(kWarpLanes);
    }
    current = next_lane(warp);
    fiber_switch(scheduler, current->fiber);
    current = nullptr;
}

/* Nobody can run: lets one asynchronous operation happen that somebody waits for. */
bool Engine::progress()
{
    for (auto &cluster : clusters_) {
        if (cluster->running && progress_bulk(*cluster, true)) {
            return true;
        }
    }
    return false;
}

bool Engine::step()
{
    for (auto &cluster : clusters_) {
        const auto has_left = [](const auto &block) { return block->live_threads == 0; };
        if (cluster->running && std::all_of(cluster->blocks.begin(), cluster->blocks.end(), has_left)) {
            finish(*cluster);
        }
        if (!cluster->running && !order_.empty()) {
            const uint32_t index = order_.back();
            order_.pop_back();
            start(*cluster, index);
        }
        if (cluster->running && launch_.completion == Completion::Random && random(4) == 0) {
            progress_bulk(*cluster, false);
        }
    }
    Warp *warp = pick_warp();
    if (warp != nullptr) {
        resume(*warp);
        return true;
    }
    const auto running = [](const auto &cluster) { return cluster->running; };
    if (std::none_of(clusters_.begin(), clusters_.end(), running)) {
        return false;
    }
    if (!progress()) {
        stop(deadlock_text());
    }
    return true;
}

LaunchResult Engine::run()
{
    LaunchResult result;
    try {
        const uint32_t resident = std::max(launch_.resident, 1u);
        for (uint32_t i = 0; i < resident; ++i) {
            clusters_.push_back(std::make_unique<Cluster>());
        }
        while (!failed_ && step()) {
        }
    } catch (const Stopped &) {
    }
    result.passed = !failed_;
    result.message = failure_;
    return result;
}

LaunchResult launch(const Launch &what)
{
    LaunchResult result;
    if (what.block == 0 || what.block % kWarpLanes != 0 || what.block > 1024 || what.cluster == 0 ||
        what.grid % what.cluster != 0) {
        result.message = text("a launch of %u blocks of %u threads in clusters of %u is not possible", what.grid,
                              what.block, what.cluster);
        return result;
    }
    Engine here(what);
    engine = &here;
    FaultHandler handler;
    result = here.run();
    engine = nullptr;
    current = nullptr;
    return result;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Deadlock
 * ------------------------------------------------------------------------------------------------------------- */

static std::string wait_text(const Thread &thread)
{
    const Block &block = *thread.block;
    switch (thread.wait) {
    case Wait::None:
        return "can run";
    case Wait::Warp:
        return text("the other lanes, at %s", thread.instruction->name);
    case Wait::Warpgroup:
        return text("the other warps of its warpgroup, at %s", thread.instruction->name);
    case Wait::Barrier: {
        const NamedBarrier &barrier = block.barriers[thread.wait_value];
        std::string come;
        for (uint32_t warp : barrier.warps) {
            come += text(" %u", warp);
        }
        return text("barrier %u: %u of %u threads have come (warps%s)", thread.wait_value, barrier.arrived,
                    barrier.expected, come.c_str());
    }
    case Wait::Mbarrier:
        return text("parity %u of %s", thread.wait_detail, mbarrier_text(block, thread.wait_value).c_str());
    case Wait::Registers:
        return text("setmaxnreg.inc to %u registers: %lld are free in the block", thread.wait_value,
                    static_cast<long long>(block.registers.free));
    case Wait::Cluster:
        return text("the cluster barrier: %u threads have come", block.cluster->barrier.arrived);
    }
    return "?";
}

std::string Engine::deadlock_text() const
{
    std::string report = text("emulator: kernel %s: deadlock, no thread can go on", launch_.kernel);
    for (const auto &cluster : clusters_) {
        for (const auto &block : cluster->blocks) {
            for (const Warp &warp : block->warps) {
                std::map<std::string, uint32_t> waits;
                uint32_t left = 0;
                for (const Thread *thread : warp.threads) {
                    if (!cluster->running || thread->exited) {
                        left |= 1u << thread->lane;
                    } else {
                        waits[wait_text(*thread) + source_lines(thread->where)] |= 1u << thread->lane;
                    }
                }
                for (const auto &wait : waits) {
                    report += text("\n  block %u, warp %u, lanes 0x%08x wait for %s", block->index, warp.index,
                                   wait.second, wait.first.c_str());
                }
                if (left != 0 && cluster->running) {
                    report += text("\n  block %u, warp %u, lanes 0x%08x have left the kernel", block->index, warp.index,
                                   left);
                }
            }
        }
    }
    return report;
}

} // namespace emu
