/*
 * wgmma: asynchronous products of a warpgroup. Operands are decoded from their descriptors as the PTX manual lays matrices out.
 *
 * From its issue until a wait_group has covered it a product counts as a reader of its shared operands, and its accumulator registers hold
 * NaN (Completion::Earliest excepted): whoever uses them too early gets NaN, and whoever writes them is found out.
 */
#include "block.hpp"
#include "device.hpp"
#include "float_formats.hpp"
#include "tensor_map.hpp"
#include "text.hpp"

#include <cstring>

namespace emu
{

static constexpr uint32_t kGroupThreads = kWarpgroupWarps * kWarpLanes;
static constexpr uint32_t kRows = 64;
static constexpr uint32_t kDepthBytes = 32; // K of one instruction: 16 elements of 16 bits, 32 of 8
static constexpr uint32_t kUnit = 16;
static const uint32_t kInFlight = 0x7fc0beef; // what accumulator registers hold meanwhile: a NaN

/* The values of an accumulator with products under way, 128 threads x count. */
struct Accumulator {
    uint32_t count = 0; // registers a thread
    uint32_t under_way = 0;
    bool poisoned = false;
    float *registers[kGroupThreads] = {};
    std::vector<float> values;
};

struct Matrix {
    uint64_t descriptor = 0;
    bool mn_major = false;
};

struct Product {
    uint32_t number = 0; // for reports
    const char *name = "";
    WgmmaType type = WgmmaType::Bf16;
    uint32_t columns = 0;
    bool accumulate = false;
    bool a_in_registers = false;
    Matrix a, b;
    std::vector<uint32_t> fragments; // of A, 4 a thread
    std::vector<uint32_t> units;     // shared addresses that are read, 16 bytes each
    std::shared_ptr<Accumulator> sum;
    bool done = false;
};

struct WgmmaState {
    bool fenced = false;
    std::vector<Product> open;
    std::deque<std::vector<Product>> groups;
    std::map<const float *, std::shared_ptr<Accumulator>> sums; // under way, by the registers of the first thread
    std::unique_ptr<Clock> common;                              // what all 128 threads have seen
    uint32_t common_version = 0;
};

static WgmmaState &state_of(Warp &first)
{
    Warpgroup &group = first.block->warpgroups[first.index / kWarpgroupWarps];
    if (!group.wgmma) {
        group.wgmma = std::make_shared<WgmmaState>();
    }
    return *group.wgmma;
}

static Thread &thread_of(Warp &first, uint32_t index)
{
    return first.block->threads[first.index * kWarpLanes + index];
}

template <typename Operands> static Operands &operands_of_thread(Warp &first, uint32_t index)
{
    return *static_cast<Operands *>(thread_of(first, index).operands);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Descriptors
 * ------------------------------------------------------------------------------------------------------------- */

struct Descriptor {
    uint32_t start, leading, stride, base_offset;
    Swizzle swizzle;
};

static Descriptor decode(uint64_t bits)
{
    static const Swizzle modes[] = {Swizzle::None, Swizzle::Bytes128, Swizzle::Bytes64, Swizzle::Bytes32};
    const auto field = [bits](int shift, int width) {
        return static_cast<uint32_t>(bits >> shift & ((1u << width) - 1));
    };
    return {field(0, 14) << 4, field(16, 14) << 4, field(32, 14) << 4, field(49, 3), modes[field(62, 2)]};
}

static uint32_t span_of(Swizzle swizzle)
{
    return kUnit << static_cast<uint32_t>(swizzle); // 16 without
}

/*
 * Where the 16 bytes lie that hold element (row, 16-byte unit along K) of a K-major matrix, or (8 elements along MN, row of K) of an
 * MN-major one. PTX ISA, "Strides" of the asynchronous warpgroup instructions:
 *     K-major    rows 8 apart: stride; the two units of K: leading without swizzle, else neighbours inside the swizzled row
 *     MN-major   swizzled: 8 rows of K: stride, the next span along MN: leading. Without: 8 rows of K: leading, the next 8 elements
 *                along MN: stride
 */
static uint32_t unit_k_major(const Descriptor &d, uint32_t row, uint32_t unit)
{
    const uint32_t span = span_of(d.swizzle);
    const uint32_t place = d.swizzle == Swizzle::None ? row / 8 * d.stride + row % 8 * kUnit + unit * d.leading
                                                      : row / 8 * d.stride + row % 8 * span + unit * kUnit;
    return swizzled(d.start + place, d.swizzle);
}

static uint32_t unit_mn_major(const Descriptor &d, uint32_t unit, uint32_t k)
{
    const uint32_t span = span_of(d.swizzle);
    const uint32_t units = span / kUnit;
    const uint32_t place = d.swizzle == Swizzle::None
                               ? unit * d.stride + k / 8 * d.leading + k % 8 * kUnit
                               : unit / units * d.leading + k / 8 * d.stride + k % 8 * span + unit % units * kUnit;
    return swizzled(d.start + place, d.swizzle);
}

static void check_descriptor(const Descriptor &d, const char *operand)
{
    const uint32_t pattern = d.swizzle == Swizzle::None ? kUnit : 8 * span_of(d.swizzle);
    if (d.base_offset != 0) {
        fail("the descriptor of %s has base offset %u, which the emulator does not know", operand, d.base_offset);
    }
    const uint32_t inside = d.start % pattern;
    if (d.swizzle != Swizzle::None && inside >= span_of(d.swizzle)) {
        fail(
            "the descriptor of %s starts at 0x%x, which is %u bytes into the %u bytes that the swizzle repeats in: the "
            "start must be aligned to them but for a step along the row",
            operand, d.start, inside, pattern);
    }
}

/* extent: rows of A, columns of B. visit(unit number, address). */
template <typename Visit> static void for_units(const Matrix &matrix, uint32_t extent, const char *operand, Visit visit)
{
    const Descriptor d = decode(matrix.descriptor);
    check_descriptor(d, operand);
    if (matrix.mn_major) {
        for (uint32_t k = 0; k < kDepthBytes / 2; ++k) {
            for (uint32_t unit = 0; unit < extent / 8; ++unit) {
                visit(unit, k, unit_mn_major(d, unit, k));
            }
        }
        return;
    }
    for (uint32_t row = 0; row < extent; ++row) {
        for (uint32_t unit = 0; unit < kDepthBytes / kUnit; ++unit) {
            visit(row, unit, unit_k_major(d, row, unit));
        }
    }
}

/* ---------------------------------------------------------------------------------------------------------------
 * Arithmetic
 * ------------------------------------------------------------------------------------------------------------- */

static float element(WgmmaType type, const unsigned char *bytes)
{
    if (type == WgmmaType::E4m3) {
        return e4m3_to_float(*bytes);
    }
    uint16_t bits;
    memcpy(&bits, bytes, sizeof bits);
    return type == WgmmaType::Bf16 ? bf16_to_float(bits) : fp16_to_float(bits);
}

static uint32_t element_bytes(WgmmaType type)
{
    return type == WgmmaType::E4m3 ? 1 : 2;
}

/* values[extent][depth] of an operand in shared memory. */
static void read_matrix(SharedMemory &shared, const Product &product, const Matrix &matrix, uint32_t extent,
                        const char *operand, std::vector<float> &values)
{
    const uint32_t bytes = element_bytes(product.type);
    const uint32_t depth = kDepthBytes / bytes;
    values.resize(size_t{extent} * depth);
    for_units(matrix, extent, operand, [&](uint32_t first, uint32_t second, uint32_t address) {
        const unsigned char *source = shared.at(address, kUnit, kUnit, product.name);
        for (uint32_t i = 0; i < kUnit / bytes; ++i) {
            const size_t row = matrix.mn_major ? first * 8 + i : first;
            const size_t column = matrix.mn_major ? second : second * (kUnit / bytes) + i;
            values[row * depth + column] = element(product.type, source + i * bytes);
        }
    });
}

/* A from the registers: with g = lane / 4, t = lane % 4, register i has row g + 8 (i % 2) of the warp's 16, bytes 4 t + 16 (i / 2). */
static void read_fragments(const Product &product, std::vector<float> &values)
{
    const uint32_t bytes = element_bytes(product.type);
    const uint32_t depth = kDepthBytes / bytes;
    values.resize(size_t{kRows} * depth);
    for (uint32_t thread = 0; thread < kGroupThreads; ++thread) {
        for (uint32_t i = 0; i < 4; ++i) {
            const uint32_t row = thread / 32 * 16 + thread % 32 / 4 + i % 2 * 8;
            const uint32_t column = (thread % 4 * 4 + i / 2 * 16) / bytes;
            unsigned char register_bytes[4];
            memcpy(register_bytes, &product.fragments[thread * 4 + i], 4);
            for (uint32_t j = 0; j < 4 / bytes; ++j) {
                values[size_t{row} * depth + column + j] = element(product.type, register_bytes + j * bytes);
            }
        }
    }
}

typedef float Eight __attribute__((vector_size(32)));

/* The sums of the products alone are made first, in the order of k; then they are added to the accumulator. */
static void multiply(const Product &product, const std::vector<float> &a, const std::vector<float> &b)
{
    const uint32_t depth = kDepthBytes / element_bytes(product.type);
    const uint32_t columns = product.columns;
    std::vector<float> across(size_t{depth} * columns); // B as [k][column]
    for (uint32_t column = 0; column < columns; ++column) {
        for (uint32_t k = 0; k < depth; ++k) {
            across[size_t{k} * columns + column] = b[size_t{column} * depth + k];
        }
    }
    Accumulator &sum = *product.sum;
    for (uint32_t row = 0; row < kRows; ++row) {
        const uint32_t first_thread = row / 16 * 32 + row % 8 * 4;
        const uint32_t half = row % 16 / 8 * 2;
        for (uint32_t column = 0; column < columns; column += 8) {
            Eight total = {};
            for (uint32_t k = 0; k < depth; ++k) {
                Eight right;
                memcpy(&right, &across[size_t{k} * columns + column], sizeof right);
                total += a[size_t{row} * depth + k] * right;
            }
            for (uint32_t i = 0; i < 8; ++i) {
                float &value = sum.values[size_t{first_thread + i / 2} * sum.count + column / 2 + half + i % 2];
                value = product.accumulate ? value + total[i] : total[i];
            }
        }
    }
}

static void perform(Block &block, Product &product)
{
    if (product.done) {
        return;
    }
    std::vector<float> a, b;
    if (product.a_in_registers) {
        read_fragments(product, a);
    } else {
        read_matrix(*block.shared, product, product.a, kRows, "A", a);
    }
    read_matrix(*block.shared, product, product.b, product.columns, "B", b);
    multiply(product, a, b);
    product.done = true;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Issue
 * ------------------------------------------------------------------------------------------------------------- */

struct Issue {
    const char *name;
    WgmmaType type;
    uint32_t columns;
    float *d;
    const uint32_t *a; // registers, or NULL
    Matrix matrix_a, matrix_b;
    bool accumulate;
};

/* What every thread of the warpgroup has seen. */
static const Clock &common_clock(Warp &first, WgmmaState &state)
{
    uint32_t version = 1;
    for (uint32_t i = 0; i < kWarpgroupWarps; ++i) {
        version += first.block->warps[first.index + i].version;
    }
    if (!state.common || state.common_version != version) {
        state.common = std::make_unique<Clock>(thread_of(first, 0).clock);
        for (uint32_t i = 1; i < kGroupThreads; ++i) {
            state.common->meet(thread_of(first, i).clock);
        }
        state.common_version = version;
    }
    return *state.common;
}

static void check_uniform(Warp &first, const Issue &issue)
{
    for (uint32_t i = 1; i < kGroupThreads; ++i) {
        const auto &other = operands_of_thread<Issue>(first, i);
        if (other.matrix_a.descriptor != issue.matrix_a.descriptor ||
            other.matrix_b.descriptor != issue.matrix_b.descriptor || other.accumulate != issue.accumulate) {
            fail("%s: threads 0 and %u of the warpgroup give different descriptors or scale-d", issue.name, i);
        }
    }
}

static std::shared_ptr<Accumulator> accumulator_of(Warp &first, WgmmaState &state, const Issue &issue)
{
    std::shared_ptr<Accumulator> &sum = state.sums[issue.d];
    if (sum) {
        if (sum->count != issue.columns / 2) {
            fail("%s: the accumulator has products of another shape under way", issue.name);
        }
        return sum;
    }
    sum = std::make_shared<Accumulator>();
    sum->count = issue.columns / 2;
    sum->values.resize(size_t{kGroupThreads} * sum->count);
    for (uint32_t i = 0; i < kGroupThreads; ++i) {
        sum->registers[i] = operands_of_thread<Issue>(first, i).d;
        memcpy(&sum->values[size_t{i} * sum->count], sum->registers[i], sum->count * sizeof(float));
    }
    return sum;
}

static void poison(Accumulator &sum)
{
    for (float *registers : sum.registers) {
        for (uint32_t i = 0; i < sum.count; ++i) {
            memcpy(&registers[i], &kInFlight, sizeof kInFlight);
        }
    }
    sum.poisoned = true;
}

static void write_back(Accumulator &sum)
{
    for (uint32_t i = 0; i < kGroupThreads; ++i) {
        memcpy(sum.registers[i], &sum.values[size_t{i} * sum.count], sum.count * sizeof(float));
    }
}

static void note_operands(Warp &first, WgmmaState &state, Product &product)
{
    SharedMemory &shared = *first.block->shared;
    const auto note = [&](uint32_t, uint32_t, uint32_t address) {
        shared.at(address, kUnit, kUnit, product.name);
        product.units.push_back(address);
    };
    if (!product.a_in_registers) {
        for_units(product.a, kRows, "A", note);
    }
    for_units(product.b, product.columns, "B", note);
    Warpgroup &group = first.block->warpgroups[first.index / kWarpgroupWarps];
    const Access access = {group.actor, group.time + 1, &common_clock(first, state), product.name, true};
    for (const uint32_t address : product.units) {
        shared.begin_async_read(address, kUnit, access, product.number);
    }
}

static void execute_issue(Warp &first)
{
    const auto &issue = operands_of_thread<Issue>(first, 0);
    WgmmaState &state = state_of(first);
    check_uniform(first, issue);
    if (!state.fenced) {
        fail("%s: registers may have been touched since the latest wait: missing wgmma_fence", issue.name);
    }
    Product product;
    product.number = engine->new_operation(*current, issue.name);
    product.name = issue.name;
    product.type = issue.type;
    product.columns = issue.columns;
    product.accumulate = issue.accumulate;
    product.a_in_registers = issue.a != nullptr;
    product.a = issue.matrix_a;
    product.b = issue.matrix_b;
    if (product.a_in_registers) {
        for (uint32_t i = 0; i < kGroupThreads; ++i) {
            const uint32_t *fragment = operands_of_thread<Issue>(first, i).a;
            product.fragments.insert(product.fragments.end(), fragment, fragment + 4);
        }
    }
    note_operands(first, state, product);
    product.sum = accumulator_of(first, state, issue);
    ++product.sum->under_way;
    if (engine->completes_at_once()) {
        /* Products of one accumulator take place in order. */
        for (auto &group : state.groups) {
            for (Product &earlier : group) {
                perform(*first.block, earlier);
            }
        }
        for (Product &earlier : state.open) {
            perform(*first.block, earlier);
        }
        perform(*first.block, product);
    }
    if (engine->launch().completion == Completion::Earliest) {
        write_back(*product.sum);
    } else if (!product.sum->poisoned) {
        poison(*product.sum);
    }
    state.open.push_back(std::move(product));
}

static void issue_product(const char *name, Issue &issue, bool from_registers)
{
    static const Instruction of_shared = {"wgmma.mma_async (A in shared memory)", execute_issue, true};
    static const Instruction of_registers = {"wgmma.mma_async (A in registers)", execute_issue, true};
    (void)name;
    meet(from_registers ? of_registers : of_shared, &issue);
}

void wgmma_ss(const char *name, WgmmaType type, uint32_t columns, float *d, uint64_t a, uint64_t b, bool accumulate,
              bool a_mn_major, bool b_mn_major)
{
    EMU_ENTER(name);
    Issue issue = {name, type, columns, d, nullptr, {a, a_mn_major}, {b, b_mn_major}, accumulate};
    issue_product(name, issue, false);
}

void wgmma_rs(const char *name, WgmmaType type, uint32_t columns, float *d, const uint32_t *a, uint64_t b,
              bool accumulate, bool b_mn_major)
{
    EMU_ENTER(name);
    Issue issue = {name, type, columns, d, a, {0, false}, {b, b_mn_major}, accumulate};
    issue_product(name, issue, true);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Fence, commit, wait
 * ------------------------------------------------------------------------------------------------------------- */

struct Wait128 {
    const char *name;
    uint32_t pending;
};

static void execute_fence(Warp &first)
{
    state_of(first).fenced = true;
}

void wgmma_fence(const char *name)
{
    EMU_ENTER(name);
    static const Instruction instruction = {"wgmma.fence", execute_fence, true};
    meet(instruction, nullptr);
}

static void execute_commit(Warp &first)
{
    WgmmaState &state = state_of(first);
    state.groups.push_back(std::move(state.open));
    state.open.clear();
}

void wgmma_commit_group(const char *name)
{
    EMU_ENTER(name);
    static const Instruction instruction = {"wgmma.commit_group", execute_commit, true};
    meet(instruction, nullptr);
}

/* Registers must hold what they were left with: the mark of products under way, or sums that were there early. */
static void check_registers(const Accumulator &sum)
{
    for (uint32_t thread = 0; thread < kGroupThreads; ++thread) {
        for (uint32_t i = 0; i < sum.count; ++i) {
            const uint32_t left = sum.poisoned ? kInFlight : bits_of(sum.values[size_t{thread} * sum.count + i]);
            if (bits_of(sum.registers[thread][i]) != left) {
                fail("register %u of an accumulator of thread %u of the warpgroup was written while products were "
                     "under way",
                     i, thread);
            }
        }
    }
}

static void complete(Warp &first, WgmmaState &state, Product &product, uint32_t time)
{
    Block &block = *first.block;
    perform(block, product);
    const size_t number = first.index / kWarpgroupWarps;
    for (const uint32_t address : product.units) {
        block.shared->end_async_read(address, kUnit, block.warpgroups[number].actor, time, product.name,
                                     block.warpgroup_slot(number));
    }
    Accumulator &sum = *product.sum;
    if (--sum.under_way == 0) {
        check_registers(sum);
        write_back(sum);
        state.sums.erase(sum.registers[0]);
    }
}

static void execute_wait(Warp &first)
{
    const Wait128 wait = operands_of_thread<Wait128>(first, 0);
    WgmmaState &state = state_of(first);
    if (wait.pending == 0 && !state.open.empty()) {
        fail("%s: %zu products were issued and never committed: missing wgmma_commit_group", wait.name,
             state.open.size());
    }
    if (state.groups.size() <= wait.pending) {
        return;
    }
    Warpgroup &group = first.block->warpgroups[first.index / kWarpgroupWarps];
    const uint32_t time = ++group.time;
    while (state.groups.size() > wait.pending) {
        for (Product &product : state.groups.front()) {
            complete(first, state, product, time);
        }
        state.groups.pop_front();
    }
    state.fenced = false;
    for (uint32_t i = 0; i < kGroupThreads; ++i) {
        thread_of(first, i).clock.set_seen(group.actor, time);
    }
}

void wgmma_wait_group(const char *name, uint32_t pending)
{
    EMU_ENTER(name);
    static const Instruction instruction = {"wgmma.wait_group", execute_wait, true};
    Wait128 operands = {name, pending};
    meet(instruction, &operands);
}

void check_wgmma_end(const Block &block)
{
    for (const Warpgroup &group : block.warpgroups) {
        if (group.wgmma && (!group.wgmma->open.empty() || !group.wgmma->groups.empty())) {
            fail("block %u ended with products of a warpgroup under way: missing wgmma_wait_group", block.index);
        }
    }
}

} // namespace emu
