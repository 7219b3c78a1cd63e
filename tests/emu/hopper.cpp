/*
 * The rest of what Hopper kernels use: stmatrix, proxy fences, setmaxnreg, elect.sync, clusters, reductions into global memory.
 */
#include "bulk.hpp"
#include "cluster_address.hpp"
#include "device.hpp"

#include <cstring>

namespace emu
{

/* ---------------------------------------------------------------------------------------------------------------
 * stmatrix: the inverse of ldmatrix. Each row is a store of the lane that names its address.
 * ------------------------------------------------------------------------------------------------------------- */

struct StoreMatrices {
    const char *name;
    uint32_t address;
    uint32_t matrices[4];
    bool transposed;
};

static void execute_store_matrices(Warp &warp)
{
    Block &block = *warp.block;
    uint16_t rows[kWarpLanes][8];
    for (uint32_t lane = 0; lane < kWarpLanes; ++lane) {
        const auto &operands = operands_of<StoreMatrices>(warp, lane);
        for (uint32_t i = 0; i < 4; ++i) {
            for (uint32_t half = 0; half < 2; ++half) {
                const uint32_t row = operands.transposed ? lane % 4 * 2 + half : lane / 4;
                const uint32_t column = operands.transposed ? lane / 4 : lane % 4 * 2 + half;
                rows[i * 8 + row][column] = static_cast<uint16_t>(operands.matrices[i] >> 16 * half);
            }
        }
    }
    for (uint32_t lane = 0; lane < kWarpLanes; ++lane) {
        const auto &operands = operands_of<StoreMatrices>(warp, lane);
        unsigned char *target = block.shared->at(operands.address, 16, 16, operands.name);
        block.shared->write(operands.address, 16, thread_access(*warp.threads[lane]));
        memcpy(target, rows[lane], 16);
    }
}

void store_matrices(const char *name, uint32_t address, uint32_t m0, uint32_t m1, uint32_t m2, uint32_t m3,
                    bool transposed)
{
    EMU_ENTER(name);
    static const Instruction plain = {"stmatrix", execute_store_matrices};
    static const Instruction across = {"stmatrix.trans", execute_store_matrices};
    StoreMatrices operands = {name, address, {m0, m1, m2, m3}, transposed};
    meet(transposed ? across : plain, &operands);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Fences
 * ------------------------------------------------------------------------------------------------------------- */

void fence_proxy_async(const char *name)
{
    EMU_ENTER(name);
    Thread &self = *current;
    self.clock.fence();
    self.clock.tick(self.actor);
    self.warp->published = true;
    self.warp->version++;
    fence_mbarriers(self);
}

/* ---------------------------------------------------------------------------------------------------------------
 * setmaxnreg: registers go to and come from a pool of the block, which has what the launch left free.
 * ------------------------------------------------------------------------------------------------------------- */

struct SetRegisters {
    const char *name;
    uint32_t count;
    bool increase;
};

static bool take_registers(Warp &warp, uint32_t count)
{
    const int64_t more = (static_cast<int64_t>(count) - warp.registers) * kWarpLanes;
    RegisterPool &pool = warp.block->registers;
    if (more > pool.free) {
        return false;
    }
    pool.free -= more;
    warp.registers = count;
    return true;
}

static void wake_waiting(Block &block)
{
    std::vector<Warp *> still;
    for (Warp *warp : block.registers.waiting) {
        if (!take_registers(*warp, warp->threads[0]->wait_value)) {
            still.push_back(warp);
            continue;
        }
        for (Thread *thread : warp->threads) {
            make_ready(*thread);
        }
    }
    block.registers.waiting = still;
}

static void execute_set_registers(Warp &warp)
{
    const SetRegisters operands = operands_of<SetRegisters>(warp, 0);
    if (operands.count < 24 || operands.count > 256 || operands.count % 8 != 0) {
        fail("%s: %u registers: must be 24 to 256 in steps of 8", operands.name, operands.count);
    }
    if (operands.increase ? operands.count < warp.registers : operands.count > warp.registers) {
        fail("%s: to %u registers, but the warp has %u", operands.name, operands.count, warp.registers);
    }
    if (take_registers(warp, operands.count)) {
        wake_waiting(*warp.block);
        return;
    }
    warp.block->registers.waiting.push_back(&warp);
    for (Thread *thread : warp.threads) {
        thread->wait = Wait::Registers;
        thread->wait_value = operands.count;
    }
}

void set_registers(const char *name, uint32_t count, bool increase)
{
    EMU_ENTER(name);
    static const Instruction up = {"setmaxnreg.inc", execute_set_registers};
    static const Instruction down = {"setmaxnreg.dec", execute_set_registers};
    SetRegisters operands = {name, count, increase};
    meet(increase ? up : down, &operands);
}

/* ---------------------------------------------------------------------------------------------------------------
 * elect.sync: lane 0, as the hardware does with a full mask.
 * ------------------------------------------------------------------------------------------------------------- */

static void execute_nothing(Warp &)
{
}

bool elect(const char *name)
{
    EMU_ENTER(name);
    static const Instruction instruction = {"elect.sync", execute_nothing};
    meet(instruction, nullptr);
    return current->lane == 0;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Clusters
 * ------------------------------------------------------------------------------------------------------------- */

uint32_t cluster_rank()
{
    return current->block->rank;
}

uint32_t cluster_size()
{
    return engine->launch().cluster;
}

uint32_t map_shared(const char *name, uint32_t address, uint32_t rank)
{
    EMU_ENTER(name);
    if (rank >= engine->launch().cluster) {
        fail("block %u of a cluster of %u", rank, engine->launch().cluster);
    }
    return map_to_rank(address, rank);
}

void cluster_arrive(const char *name)
{
    EMU_ENTER(name);
    Thread &self = *current;
    Cluster &cluster = *self.block->cluster;
    ClusterBarrier &barrier = cluster.barrier;
    publish(self, barrier.arriving);
    self.cluster_phase = barrier.phase;
    if (++barrier.arrived < engine->launch().block * engine->launch().cluster) {
        return;
    }
    barrier.arrived = 0;
    ++barrier.phase;
    barrier.completed = barrier.arriving;
    for (Thread *thread : barrier.waiting) {
        thread->clock.join(barrier.completed);
        thread->warp->version++;
        make_ready(*thread);
    }
    barrier.waiting.clear();
}

void cluster_wait(const char *name)
{
    EMU_ENTER(name);
    Thread &self = *current;
    ClusterBarrier &barrier = self.block->cluster->barrier;
    if (barrier.phase != self.cluster_phase) {
        self.clock.join(barrier.completed);
        self.warp->version++;
        return;
    }
    self.wait = Wait::Cluster;
    self.warp->ready &= ~(1u << self.lane);
    barrier.waiting.push_back(&self);
    engine->block_thread();
}

/* ---------------------------------------------------------------------------------------------------------------
 * Atomic operations on global memory
 * ------------------------------------------------------------------------------------------------------------- */

static void check_atomic(void *address, uint32_t bytes)
{
    const auto place = reinterpret_cast<uintptr_t>(address);
    const GlobalMemory *memory = engine->launch().memory;
    if (place % bytes != 0) {
        fail("global address 0x%zx is not a multiple of %u", static_cast<size_t>(place), bytes);
    }
    if (memory != nullptr && !memory->allows(place, bytes, true)) {
        fail("writes %s", memory->refusal(place, bytes, true).c_str());
    }
}

void reduce_add_f32(const char *name, float *address, const float *values, uint32_t count)
{
    EMU_ENTER(name);
    check_atomic(address, count * static_cast<uint32_t>(sizeof(float)));
    for (uint32_t i = 0; i < count; ++i) {
        address[i] += values[i];
    }
}

uint32_t atomic_add_u32(const char *name, uint32_t *address, uint32_t value)
{
    EMU_ENTER(name);
    check_atomic(address, sizeof value);
    const uint32_t before = *address;
    *address += value;
    return before;
}

} // namespace emu
