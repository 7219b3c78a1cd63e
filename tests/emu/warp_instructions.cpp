/*
 * Instructions that the 32 lanes of a warp perform together, on the fragments as the PTX manual lays them out.
 */
#include "block.hpp"
#include "device.hpp"
#include "float_formats.hpp"

#include <cstring>

namespace emu
{

/*
 * A read of the warp as a whole: every lane has it behind itself when the instruction is over. The warp's own clock ticks only when a
 * lane has passed its knowledge on since the last time.
 */
Access collective_access(Warp &warp, const char *wrapper)
{
    const uint32_t latest = warp.threads[0]->clock.seen(warp.actor);
    if (warp.published) {
        for (Thread *thread : warp.threads) {
            thread->clock.set_seen(warp.actor, latest + 1);
        }
        warp.published = false;
    }
    return {warp.actor, warp.threads[0]->clock.seen(warp.actor), nullptr, wrapper, false};
}

/* ---------------------------------------------------------------------------------------------------------------
 * ldmatrix: lane l names row l % 8 of matrix l / 8; register i of lane l gets row l / 4, columns 2 (l % 4) and + 1 of matrix i.
 * ------------------------------------------------------------------------------------------------------------- */

struct LoadMatrices {
    const char *name;
    uint32_t (*matrices)[4];
    uint32_t address;
    bool transposed;
};

static void execute_load_matrices(Warp &warp)
{
    Block &block = *warp.block;
    const auto &first = operands_of<LoadMatrices>(warp, 0);
    Access access = collective_access(warp, first.name);
    uint16_t rows[kWarpLanes][8];
    for (uint32_t lane = 0; lane < kWarpLanes; ++lane) {
        const uint32_t address = operands_of<LoadMatrices>(warp, lane).address;
        const unsigned char *source = block.shared->at(address, 16, 16, first.name);
        access.clock = &warp.threads[lane]->clock;
        block.shared->read(address, 16, access, block.collective_slot(warp));
        memcpy(rows[lane], source, 16);
    }
    for (uint32_t lane = 0; lane < kWarpLanes; ++lane) {
        auto &operands = operands_of<LoadMatrices>(warp, lane);
        const uint32_t row = lane / 4;
        const uint32_t column = lane % 4 * 2;
        for (uint32_t i = 0; i < 4; ++i) {
            const uint16_t(*matrix)[8] = rows + i * 8;
            const uint32_t low = operands.transposed ? matrix[column][row] : matrix[row][column];
            const uint32_t high = operands.transposed ? matrix[column + 1][row] : matrix[row][column + 1];
            (*operands.matrices)[i] = low | high << 16;
        }
    }
}

void load_matrices(const char *name, uint32_t (&matrices)[4], uint32_t address, bool transposed)
{
    EMU_ENTER(name);
    static const Instruction plain = {"ldmatrix", execute_load_matrices};
    static const Instruction across = {"ldmatrix.trans", execute_load_matrices};
    LoadMatrices operands = {name, &matrices, address, transposed};
    meet(transposed ? across : plain, &operands);
}

/* ---------------------------------------------------------------------------------------------------------------
 * mma.sync.m16n8k16; with g = lane / 4 and t = lane % 4:
 *     A  a[0] (g, 2t..), a[1] (g+8, 2t..), a[2] (g, 2t+8..), a[3] (g+8, 2t+8..)
 *     B  b0 (2t.., g), b1 (2t+8.., g)        D  d[0], d[1] (g, 2t..), d[2], d[3] (g+8, 2t..)
 *
 * Sums are fp32: the 16 products, exact, added in the order of k, then the accumulator. The hardware adds in an order and with an
 * alignment of its own; docs/emulator.md bounds the difference.
 * ------------------------------------------------------------------------------------------------------------- */

struct Multiply {
    float (*d)[4];
    const uint32_t (*a)[4];
    uint32_t b[2];
};

typedef float Row __attribute__((vector_size(32))); // 8 columns

template <bool kBf16> static float element(uint32_t pair, uint32_t half)
{
    const auto bits = static_cast<uint16_t>(pair >> 16 * half);
    return kBf16 ? bf16_to_float(bits) : fp16_to_float(bits);
}

template <bool kBf16> static void execute_multiply(Warp &warp)
{
    float a[16][16];
    float b[16][8];
    for (uint32_t lane = 0; lane < kWarpLanes; ++lane) {
        const auto &operands = operands_of<Multiply>(warp, lane);
        const uint32_t group = lane / 4;
        const uint32_t pair = lane % 4 * 2;
        for (uint32_t i = 0; i < 4; ++i) {
            for (uint32_t half = 0; half < 2; ++half) {
                a[group + i % 2 * 8][pair + i / 2 * 8 + half] = element<kBf16>((*operands.a)[i], half);
            }
        }
        for (uint32_t i = 0; i < 2; ++i) {
            for (uint32_t half = 0; half < 2; ++half) {
                b[pair + i * 8 + half][group] = element<kBf16>(operands.b[i], half);
            }
        }
    }
    float sums[16][8];
    for (uint32_t row = 0; row < 16; ++row) {
        Row sum = {};
        for (uint32_t k = 0; k < 16; ++k) {
            Row right;
            memcpy(&right, b[k], sizeof right);
            sum += a[row][k] * right;
        }
        memcpy(sums[row], &sum, sizeof sum);
    }
    for (uint32_t lane = 0; lane < kWarpLanes; ++lane) {
        float(&d)[4] = *operands_of<Multiply>(warp, lane).d;
        for (uint32_t i = 0; i < 4; ++i) {
            d[i] += sums[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
        }
    }
}

void multiply_16x8x16(const char *name, float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, bool bf16)
{
    EMU_ENTER(name);
    static const Instruction of_bf16 = {"mma.m16n8k16.bf16", execute_multiply<true>};
    static const Instruction of_fp16 = {"mma.m16n8k16.f16", execute_multiply<false>};
    Multiply operands = {&d, &a, {b0, b1}};
    meet(bf16 ? of_bf16 : of_fp16, &operands);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Exchange
 * ------------------------------------------------------------------------------------------------------------- */

struct Exchange {
    uint32_t value;
    uint32_t source;
    uint32_t result;
};

static void execute_ballot(Warp &warp)
{
    uint32_t bits = 0;
    for (uint32_t lane = 0; lane < kWarpLanes; ++lane) {
        bits |= operands_of<Exchange>(warp, lane).value << lane;
    }
    for (uint32_t lane = 0; lane < kWarpLanes; ++lane) {
        operands_of<Exchange>(warp, lane).result = bits;
    }
}

uint32_t ballot(const char *name, bool predicate)
{
    EMU_ENTER(name);
    static const Instruction instruction = {"vote.sync.ballot", execute_ballot};
    Exchange operands = {predicate ? 1u : 0u, 0, 0};
    meet(instruction, &operands);
    return operands.result;
}

static void execute_shuffle(Warp &warp)
{
    for (uint32_t lane = 0; lane < kWarpLanes; ++lane) {
        auto &operands = operands_of<Exchange>(warp, lane);
        operands.result = operands_of<Exchange>(warp, operands.source % kWarpLanes).value;
    }
}

uint32_t shuffle(const char *name, uint32_t value, uint32_t source_lane)
{
    EMU_ENTER(name);
    static const Instruction instruction = {"shfl.sync.idx", execute_shuffle};
    Exchange operands = {value, source_lane, 0};
    meet(instruction, &operands);
    return operands.result;
}

static void execute_sync_warp(Warp &warp)
{
    Clock all = warp.threads[0]->clock;
    for (Thread *thread : warp.threads) {
        publish(*thread, all);
    }
    for (Thread *thread : warp.threads) {
        thread->clock.join(all);
    }
    warp.version++;
}

void sync_warp(const char *name)
{
    EMU_ENTER(name);
    static const Instruction instruction = {"bar.warp.sync", execute_sync_warp};
    meet(instruction, nullptr);
}

} // namespace emu
