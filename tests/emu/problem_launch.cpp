/*
 * Launching a problem, as runtime/launch.c does; see problem.hpp.
 */
#include "problem_class.hpp"
#include "tensor_map.hpp"
#include "text.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

extern "C" {
#include "gen/body.h"
#include "tests/support/random.h"
}

namespace emu
{

/* The tensor maps of a kernel that loads through the copy engine. "", or why the driver would refuse one. */
static std::string encode_maps(const tensor_box *boxes, int count, gdpa_tensor_map *const *maps)
{
    for (int i = 0; i < count; ++i) {
        const tensor_box &box = boxes[i];
        const uint32_t sizes[TENSOR_BOX_RANK] = {TENSOR_BOX_COLUMNS, box.rows, 1, 1};
        TensorMapRequest request;
        request.rank = TENSOR_BOX_RANK;
        request.base = box.data;
        request.sizes = box.extents;
        request.strides = box.strides;
        request.box = sizes;
        request.swizzle = Swizzle::Bytes128;
        const std::string wrong = tensor_map_encode(maps[i], request);
        if (!wrong.empty()) {
            return text("tensor map %d: %s", i, wrong.c_str());
        }
    }
    return "";
}

/* "", or what went wrong. cluster: blocks that are launched together. */
std::string Problem::launch_one(const char *name, void (*entry)(void **), void *parameters, const backward_grid &grid,
                                int32_t cluster)
{
    void *all[] = {parameters};
    Launch what;
    what.kernel = name;
    what.entry = entry;
    what.parameters = all;
    what.grid = grid.x;
    what.grid_y = grid.y;
    what.block = grid.block;
    what.cluster = static_cast<uint32_t>(cluster);
    what.shared_bytes = grid.smem;
    what.resident = shape_.resident;
    what.completion = shape_.completion;
    what.seed = shape_.seed;
    what.memory = &memory_;
    const LaunchResult result = launch(what);
    return result.passed ? "" : result.message;
}

/* As runtime/launch.c does, into memory that is not initialised. */
std::string Problem::make_schedule(launch_shape *shape)
{
    GlobalBuffer &schedule = memory_.add("schedule", shape->schedule, 256, shape_.placement);
    memset(schedule.data(), 0xff, shape->schedule);
    shape->params.schedule = reinterpret_cast<uint32_t *>(schedule.data());
    schedule_ = &schedule;
    const backward_grid grid = {kScheduleLists, 1, kScheduleThreads, kScheduleSmemBytes};
    const std::string wrong = launch_one((program_.kernel.name + SCHEDULE_ENTRY_SUFFIX).c_str(), program_.kernel.second,
                                         &shape->params, grid);
    if (wrong.empty() && shape_.wrong_offsets && shape_.seed % 2 != 0) {
        spoil_schedule();
    }
    return wrong;
}

/* Any numbers in place of the lists, small ones mostly, some of which times a few heads are so again; the counters in front of them stay 0. */
void Problem::spoil_schedule()
{
    auto *words = reinterpret_cast<uint32_t *>(schedule_->data());
    for (size_t i = kScheduleHeaderWords; i < schedule_->bytes() / sizeof *words; ++i) {
        const uint64_t number = random_hash(shape_.seed, i);
        const auto high = static_cast<uint32_t>(number >> 32);
        words[i] = number % 64 < 32 ? high >> number % 32 : (high & 7) << 29 | (number >> 6 & 3);
    }
}

/* One list of a schedule, as the kernel that makes one would: costliest sequences first, those of equal cost in any order. */
void Problem::write_list(uint32_t *order, bool of_keys) const
{
    const int64_t stride = schedule_stride(args_.batch);
    std::vector<int64_t> rows, costs;
    for (int64_t sequence = 0; sequence < args_.batch; ++sequence) {
        const reference_sequence where = reference_sequence_find(&reference_, sequence);
        rows.push_back(of_keys ? where.rows_k : where.rows_q);
        costs.push_back(rows.back() == 0 ? 0 : of_keys ? where.rows_q : where.rows_k);
    }
    std::iota(order, order + args_.batch, 0U);
    std::reverse(order, order + args_.batch);
    std::stable_sort(order, order + args_.batch, [&](uint32_t a, uint32_t b) { return costs[a] > costs[b]; });
    for (int height = 1; height <= kScheduleHeights; ++height) {
        uint32_t tiles = 0;
        for (int64_t rank = 0; rank < args_.batch; ++rank) {
            order[height * stride + rank] = tiles;
            const int64_t step = height * kScheduleTileStep;
            tiles += static_cast<uint32_t>((rows[order[rank]] + step - 1) / step);
        }
        order[height * stride + args_.batch] = tiles;
    }
}

/*
 * For kernels that make none: one of the forward is taken. Wrong offsets have one of any numbers, as a schedule for other offsets would seem
 * to be, or would if something had written over it.
 */
void Problem::write_schedule(backward_shape *shape)
{
    GlobalBuffer &schedule = memory_.add("schedule", shape->schedule_bytes, 256, shape_.placement);
    auto *words = reinterpret_cast<uint32_t *>(schedule.data());
    random_source source = {777 * shape_.seed, 0};
    for (size_t i = 0; i < shape->schedule_bytes / sizeof(uint32_t); ++i) {
        const bool extreme = random_between(&source, 0, 7) == 0;
        words[i] = i < kScheduleHeaderWords ? 0
                   : extreme                ? 0xffffffffU >> random_between(&source, 0, 2)
                                            : static_cast<uint32_t>(random_between(&source, 0, 2 * args_.batch));
    }
    uint32_t *const lists = words + kScheduleHeaderWords;
    for (int list = 0; !shape_.wrong_offsets && list < kScheduleLists; ++list) {
        write_list(lists + list * kScheduleArrays * schedule_stride(args_.batch), list == kScheduleKeys);
    }
    shape->schedule = words;
    schedule_ = &schedule;
}

/* The counters must be as the launch found them, and the lists as the lengths say. */
std::string Problem::check_schedule() const
{
    uint32_t words[kScheduleHeaderWords] = {};
    if (schedule_ != nullptr) {
        memcpy(words, schedule_->data(), sizeof words);
    }
    for (const uint32_t word : words) {
        if (word != 0) {
            return "a counter of the schedule is not 0 behind the launch";
        }
    }
    for (int list = 0; schedule_ != nullptr && !shape_.wrong_offsets && list < kScheduleLists; ++list) {
        const std::string wrong = check_list(list);
        if (!wrong.empty()) {
            return wrong;
        }
    }
    return "";
}

/*
 * One list against the lengths: every sequence has one rank, sums of tiles are those of the ranks before, and the cost of a sequence's
 * longest tile, without a mask the rows of the other side, nowhere rises by more than the eighth that a class is wide.
 */
std::string Problem::check_list(int list) const
{
    const bool of_keys = list == kScheduleKeys;
    const int64_t stride = schedule_stride(args_.batch);
    const auto *words = reinterpret_cast<const uint32_t *>(schedule_->data()) + kScheduleHeaderWords;
    const uint32_t *order = words + list * kScheduleArrays * stride;
    const bool masked = spec_bounds_left(&program_.spec) || spec_bounds_right(&program_.spec);
    std::vector<bool> met(static_cast<size_t>(args_.batch), false);
    int64_t tiles[kScheduleHeights] = {};
    int64_t cost_before = INT32_MAX;
    for (int64_t rank = 0; rank <= args_.batch; ++rank) {
        for (int height = 0; height < kScheduleHeights; ++height) {
            if (order[(height + 1) * stride + rank] != tiles[height]) {
                return text("list %d of the schedule has %u tiles of %d rows before rank %lld, there are %lld", list,
                            order[(height + 1) * stride + rank], (height + 1) * kScheduleTileStep,
                            static_cast<long long>(rank), static_cast<long long>(tiles[height]));
            }
        }
        if (rank == args_.batch) {
            break;
        }
        const uint32_t sequence = order[rank];
        if (sequence >= met.size() || met[sequence]) {
            return text("rank %lld of list %d of the schedule is sequence %u, which is none or was met before",
                        static_cast<long long>(rank), list, sequence);
        }
        met[sequence] = true;
        const reference_sequence where = reference_sequence_find(&reference_, sequence);
        const int64_t rows = of_keys ? where.rows_k : where.rows_q;
        const int64_t cost = rows == 0 ? 0 : of_keys ? where.rows_q : where.rows_k;
        if (!masked && cost > cost_before + cost_before / 8) {
            return text("rank %lld of list %d of the schedule costs %lld, the one before it %lld",
                        static_cast<long long>(rank), list, static_cast<long long>(cost),
                        static_cast<long long>(cost_before));
        }
        cost_before = cost;
        for (int height = 0; height < kScheduleHeights; ++height) {
            const int64_t step = (height + 1) * kScheduleTileStep;
            tiles[height] += (rows + step - 1) / step;
        }
    }
    return "";
}

std::string Problem::launch_forward(bool *launched)
{
    launch_shape shape;
    if (launch_shape_fill(&program_.spec, &program_.plan, &args_, &shape) != GDPA_OK) {
        return gdpa_last_error();
    }
    *launched = shape.grid != 0;
    if (shape.grid == 0) {
        return "";
    }
    launch_shape_fit(&shape, &program_.plan, shape_.blocks);
    if (shape.schedule > 0) {
        const std::string wrong = make_schedule(&shape);
        if (!wrong.empty()) {
            return wrong;
        }
    }
    gdpa_fwd_sm90_params boxed;
    if (shape.boxed) {
        gdpa_tensor_map *const maps[] = {&boxed.q_map, &boxed.k_map, &boxed.v_map, &boxed.o_map};
        const std::string wrong = encode_maps(shape.boxes, TENSOR_BOX_COUNT, maps);
        if (!wrong.empty()) {
            return wrong;
        }
        boxed.common = shape.params;
    }
    const backward_grid grid = {shape.grid, shape.grid_y, shape.block, shape.smem};
    return launch_one(program_.kernel.name.c_str(), program_.kernel.entry,
                      shape.boxed ? static_cast<void *>(&boxed) : &shape.params, grid);
}

/* A kernel of a backward; boxes: those of its tensor maps, or null. */
std::string Problem::launch_gradients(const std::string &name, void (*entry)(void **), backward_shape &shape,
                                      const backward_grid &grid, const tensor_box *boxes, int32_t cluster)
{
    if (boxes == nullptr || grid.x == 0) {
        return grid.x == 0 ? "" : launch_one(name.c_str(), entry, &shape.params, grid, cluster);
    }
    gdpa_bwd_sm90_main_params boxed;
    gdpa_tensor_map *const maps[] = {&boxed.tiles.q_map, &boxed.tiles.k_map, &boxed.tiles.v_map, &boxed.tiles.dout_map,
                                     &boxed.tiles.dq_map};
    const std::string wrong = encode_maps(boxes, backward_boxes_count(boxes), maps);
    backward_boxed_fill(&shape, &boxed);
    return wrong.empty() ? launch_one(name.c_str(), entry, &boxed, grid, cluster) : wrong;
}

/* As runtime/launch.c does: zeros into the workspace, the main kernel, the second one. */
std::string Problem::launch_backward(bool *launched)
{
    backward_shape shape;
    if (backward_shape_fill(&program_.spec, &program_.plan, &args_, &shape) != GDPA_OK) {
        return gdpa_last_error();
    }
    *launched = shape.main.x != 0 || shape.second.x != 0;
    unsigned char *memory = nullptr;
    if (shape.workspace > 0 && (shape.sums > 0 || shape_.seed % 2 == 0)) { // without sums it may be left out
        memory = memory_.add("workspace", shape.workspace, 256, shape_.placement).data();
        memset(memory, 0xff, shape.workspace);
        memset(memory, 0, shape.zeros);
    }
    if (shape.schedule_bytes > 0) {
        write_schedule(&shape);
    }
    backward_shape_place(&shape, memory);
    backward_shape_fit(&shape, shape_.blocks);
    const Kernel &kernel = program_.kernel;
    const std::string wrong =
        launch_gradients(kernel.name, kernel.entry, shape, shape.main, shape.boxed ? shape.boxes : nullptr,
                         program_.plan.cluster > 1 ? program_.plan.cluster : 1);
    return !wrong.empty() ? wrong
                          : launch_gradients(kernel.name + SECOND_ENTRY_SUFFIX, kernel.second, shape, shape.second,
                                             shape.second_boxed ? shape.second_boxes : nullptr, 1);
}

} // namespace emu
