/*
 * Launching a problem, as runtime/launch.c does; see problem.hpp.
 */
#include "problem_class.hpp"
#include "tensor_map.hpp"
#include "text.hpp"

#include <cstring>

extern "C" {
#include "gen/body.h"
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

/* "", or what went wrong. */
std::string Problem::launch_one(const char *name, void (*entry)(void **), void *parameters, const backward_grid &grid)
{
    void *all[] = {parameters};
    Launch what;
    what.kernel = name;
    what.entry = entry;
    what.parameters = all;
    what.grid = grid.x;
    what.grid_y = grid.y;
    what.block = grid.block;
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
    return launch_one((program_.kernel.name + SCHEDULE_ENTRY_SUFFIX).c_str(), program_.kernel.second, &shape->params,
                      grid);
}

/* The counters must be as the launch found them. */
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
        gdpa_tensor_map *const maps[] = {&boxed.q_map, &boxed.k_map, &boxed.v_map};
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
std::string Problem::launch_gradients(const std::string &name, void (*entry)(void **), gdpa_bwd_params params,
                                      const backward_grid &grid, const tensor_box *boxes)
{
    if (boxes == nullptr || grid.x == 0) {
        return grid.x == 0 ? "" : launch_one(name.c_str(), entry, &params, grid);
    }
    gdpa_bwd_sm90_params boxed;
    gdpa_tensor_map *const maps[] = {&boxed.q_map, &boxed.k_map, &boxed.v_map, &boxed.dout_map};
    const std::string wrong = encode_maps(boxes, BACKWARD_BOX_COUNT, maps);
    boxed.common = params;
    return wrong.empty() ? launch_one(name.c_str(), entry, &boxed, grid) : wrong;
}

/* As runtime/launch.c does: zeros into the workspace, the main kernel, the second one. */
std::string Problem::launch_backward(bool *launched)
{
    backward_shape shape;
    if (backward_shape_fill(&program_.spec, &program_.plan, &args_, &shape) != GDPA_OK) {
        return gdpa_last_error();
    }
    *launched = shape.main.x != 0 || shape.second.x != 0;
    backward_shape_fit(&shape, shape_.blocks);
    if (shape.workspace > 0) {
        GlobalBuffer &workspace = memory_.add("workspace", shape.workspace, 256, shape_.placement);
        memset(workspace.data(), 0, shape.workspace);
        shape.params.dq_sum = reinterpret_cast<float *>(workspace.data());
    }
    const Kernel &kernel = program_.kernel;
    const std::string wrong =
        launch_gradients(kernel.name, kernel.entry, shape.params, shape.main, shape.boxed ? shape.boxes : nullptr);
    return !wrong.empty() ? wrong
                          : launch_gradients(kernel.name + SECOND_ENTRY_SUFFIX, kernel.second, shape.params,
                                             shape.second, shape.second_boxed ? shape.second_boxes : nullptr);
}

} // namespace emu
