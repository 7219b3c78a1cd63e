/*
 * Faults planted into the generated source of portable kernels: each is caught with a message that names it.
 */
#include "flatten.hpp"
#include "problem.hpp"
#include "text.hpp"

#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
extern "C" {
#include <cmocka.h>
}

static const char causal_spec[] = "fwd head_dim=64 activation=relu causal layout_q=jagged layout_k=jagged arch=sm_80";
static const char fp32_spec[] =
    "fwd head_dim=64 out_dtype=fp32 activation=silu layout_q=jagged layout_k=jagged arch=sm_80";
static const char long_shape[] = "heads=2/1 q=70,130 k=300,200 behind=3";

struct Fault {
    const char *name;
    const char *spec;
    const char *from, *to; // in the generated source
    const char *shape;
    const char *expected[2]; // parts of the message
};

static const Fault faults[] = {
    {"missing_wait_group",
     causal_spec,
     "        cp_async_wait_group<kStages - 2>(); // this tile is there,\n",
     "\n",
     long_shape,
     {"while the cp_async_cg_16", "the wait for that copy is missing"}},
    {"wait_group_one_too_lax",
     causal_spec,
     "        cp_async_wait_group<kStages - 2>(); // this tile is there,\n",
     "        cp_async_wait_group<kStages - 1>();\n",
     long_shape,
     {"ldmatrix", "the wait for that copy is missing"}},
    {"missing_syncthreads_before_reading",
     causal_spec,
     "        bar_sync_0();                       // for every thread, and the tile before is no longer read\n",
     "\n",
     long_shape,
     {"shared byte", "bar.sync"}},
    {"missing_syncthreads_in_the_epilogue",
     causal_spec,
     "    bar_sync_0(); // rows are written by one warp and stored by another\n",
     "\n",
     long_shape,
     {"no barrier lies between", "bar.sync"}},
    {"buffer_released_too_early",
     causal_spec,
     "load_keys_and_values(shared, params, operands, tile_k + kStages - 1,",
     "load_keys_and_values(shared, params, operands, tile_k + kStages,",
     long_shape,
     {"shared byte", "started too early"}},
    {"off_by_one_mask",
     causal_spec,
     "key <= aligned_row + kWindowRight;",
     "key < aligned_row + kWindowRight;",
     long_shape,
     {"", ""}},
    {"wrong_swizzle",
     causal_spec,
     "const uint32_t place = unit % kChunkUnits ^ swizzle(row);",
     "const uint32_t place = unit % kChunkUnits ^ swizzle(row) % 4;",
     long_shape,
     {"", ""}},
    {"store_past_the_end",
     fp32_spec,
     "            if (static_cast<int32_t>(row) < valid_rows) {\n                float *place",
     "            if (static_cast<int32_t>(row) <= valid_rows) {\n                float *place",
     "heads=1/1 q=70 k=64",
     {"st_global_v2_b32: writes", "outside every tensor"}},
    {"store_into_a_row_of_no_sequence",
     fp32_spec,
     "            if (static_cast<int32_t>(row) < valid_rows) {\n                float *place",
     "            if (static_cast<int32_t>(row) <= valid_rows) {\n                float *place",
     "heads=1/1 q=70 k=64 behind=4",
     {"st_global_v2_b32: writes", "a row of no sequence"}},
    {"load_past_the_end",
     causal_spec,
     "cp_async_cg_16(address, source, valid ? 16 : 0);",
     "cp_async_cg_16(address, source, 16);",
     long_shape,
     {"cp_async_cg_16: reads", "outside every tensor"}},
    {"plain_pointer_past_the_end",
     causal_spec,
     "    const uint32_t shared = dynamic_shared_base();\n",
     "    const uint32_t shared = dynamic_shared_base() + (static_cast<const volatile char *>(params.q)[-1] & 0);\n",
     "heads=1/1 q=64 k=64 place=start",
     {"access of address", "1 bytes before the start of q"}},
    {"index_outside_an_array",
     causal_spec,
     "const float(&pair)[4] = scores[m][2 * step + i / 2];",
     "const float(&pair)[4] = scores[m][2 * step + i];",
     long_shape,
     {"undefined behaviour", "index outside an array"}},
    {"uninitialised_registers",
     causal_spec,
     "    float output[kRowTiles][kValueTiles][4] = {};\n",
     "    float output[kRowTiles][kValueTiles][4];\n",
     long_shape,
     {"", ""}},
    {"wrong_alignment",
     causal_spec,
     "params.q_stride_row, valid_rows);\n    // The query",
     "params.q_stride_row + 1, valid_rows);\n    // The query",
     long_shape,
     {"global address", "is not a multiple of 16"}},
    {"lanes_diverge",
     causal_spec,
     "    // Without any key tile the query",
     "    if (tid_x() % 32 < 16) {\n        bar_sync_0();\n    }\n    // Without any key tile the query",
     long_shape,
     {"lanes diverge", "sync"}},
    {"warps_disagree_on_a_barrier",
     causal_spec,
     "    // Without any key tile the query",
     "    if (warp == 1) {\n        bar_sync_0();\n    }\n    // Without any key tile the query",
     long_shape,
     {"", ""}},
};

static std::string kernels_folder()
{
    return EMU_KERNELS;
}

static emu::Program program_of(const Fault &fault, bool planted)
{
    emu::Program program;
    std::string why;
    if (!emu::program_generate(fault.spec, &program, &why)) {
        fail_msg("%s", why.c_str());
    }
    if (planted && !emu::replace_once(&program.source, fault.from, fault.to)) {
        fail_msg("the generated source does not have exactly one \"%s\"", fault.from);
    }
    if (!emu::program_load(&program, kernels_folder(), &why)) {
        fail_msg("%s", why.c_str());
    }
    return program;
}

static emu::ProblemResult run_on(const emu::Program &program, const std::string &line)
{
    emu::Shape shape;
    std::string why;
    if (!emu::shape_parse(line, &shape, &why)) {
        fail_msg("%s", why.c_str());
    }
    return emu::problem_run(program, shape);
}

static void a_planted_fault_is_named(void **state)
{
    const auto &fault = *static_cast<const Fault *>(*state);
    const emu::Program sound = program_of(fault, false);
    const emu::Program broken = program_of(fault, true);
    for (const char *mode : {" seed=0", " complete=earliest seed=0", " complete=random seed=5 resident=2"}) {
        const emu::ProblemResult clean = run_on(sound, std::string(fault.shape) + mode);
        if (!clean.passed) {
            fail_msg("without the fault: %s", clean.message.c_str());
        }
        const emu::ProblemResult result = run_on(broken, std::string(fault.shape) + mode);
        if (result.passed) {
            fail_msg("%s: not found with%s", fault.name, mode);
        }
        for (const char *part : fault.expected) {
            if (result.message.find(part) == std::string::npos) {
                fail_msg("%s, with%s: \"%s\" is not in the message: %s", fault.name, mode, part,
                         result.message.c_str());
            }
        }
        print_message("# %s\n", result.message.substr(0, result.message.find('\n')).c_str());
    }
}

int main(void)
{
    constexpr size_t count = sizeof faults / sizeof faults[0];
    CMUnitTest tests[count];
    for (size_t i = 0; i < count; ++i) {
        tests[i] = {faults[i].name, a_planted_fault_is_named, nullptr, nullptr, const_cast<Fault *>(&faults[i])};
    }
    return cmocka_run_group_tests_name("faults planted into portable kernels", tests, nullptr, nullptr);
}
