/*
 * Faults planted into a Hopper pipeline (conformance/pipeline.cu) and into the copies of conformance/copies.cu, copies_out.cu and cluster_copy.cu: each is
 * caught with a message that names it, whenever asynchronous operations take place.
 */
#include "conformance.hpp"
#include "flatten.hpp"

#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstring>
extern "C" {
#include <cmocka.h>
}

struct Fault {
    const char *name;
    const char *in; // the case
    const char *from, *to;
    const char
        *expected; // a part of the message, or several to choose from with '|' between; "": any, or wrong results
};

static const char pipeline[] = "wgmma pipeline";
static const char linear_loads[] = "linear loads";
static const char tensor_load[] = "tensor load 2d";
static const char stmatrix[] = "stmatrix";
static const char copies_out[] = "copies out";
static const char cluster[] = "cluster";
static const char cluster_copy[] = "cluster copy";

#define LAST_CLUSTER_BARRIER                                                                                           \
    "    barrier_cluster_arrive(); // nobody leaves while the other one may still read or arrive here\n"               \
    "    barrier_cluster_wait();\n"
#define WAIT_UNTIL_TAKEN "    mbarrier_wait_parity_cluster(taken, (kTurns - 1) & 1);\n"
#define LATE_ARRIVAL(rank)                                                                                             \
    "    bar_sync_0();\n    if (tid_x() == 0 && other != " #rank ") {\n"                                               \
    "        mbarrier_arrive_cluster(mapa_shared_cluster(taken, other));\n    }\n"

static const Fault faults[] = {
    {"wrong_mbarrier_parity", pipeline, "mbarrier_wait_parity(shared + kFull + 8 * slot, phase);",
     "mbarrier_wait_parity(shared + kFull + 8 * slot, phase ^ 1);",
     "it passed at once|wait for parity 1 of the mbarrier"},
    {"missing_wait_on_the_full_barrier", pipeline, "        mbarrier_wait_parity(shared + kFull + 8 * slot, phase);\n",
     "", "wgmma_m64k16_ss"},
    {"missing_wait_on_the_empty_barrier", pipeline,
     "        mbarrier_wait_parity(shared + kEmpty + 8 * slot, phase ^ 1);\n", "", "mbarrier"},
    {"missing_fence_mbarrier_init", pipeline, "        fence_mbarrier_init();\n", "",
     "initialised without a fence_mbarrier_init"},
    {"missing_syncthreads_after_init", pipeline, "    bar_sync_0();\n", "", "and no barrier lies between"},
    {"missing_mbarrier_init", pipeline, "            mbarrier_init(shared + kEmpty + 8 * i, kConsumers);\n", "",
     "missing mbarrier_init"},
    {"barrier_count_too_high", pipeline, "mbarrier_init(shared + kEmpty + 8 * i, kConsumers);",
     "mbarrier_init(shared + kEmpty + 8 * i, kConsumers + 1);", "1 of 3 arrivals"},
    {"barrier_count_too_low", pipeline, "mbarrier_init(shared + kEmpty + 8 * i, kConsumers);",
     "mbarrier_init(shared + kEmpty + 8 * i, kConsumers - 1);", ""},
    {"double_arrive", pipeline, "            mbarrier_arrive(shared + kEmpty + 8 * slot);\n",
     "            mbarrier_arrive(shared + kEmpty + 8 * slot);\n            mbarrier_arrive(shared + kEmpty + 8 * "
     "slot);\n",
     "double arrive"},
    {"buffer_released_too_early", pipeline,
     "        multiply(sum, shared, consumer, slot, tile > 0);\n        if (tid_x() % 128 == 0) {\n"
     "            mbarrier_arrive(shared + kEmpty + 8 * slot);\n        }\n",
     "        if (tid_x() % 128 == 0) {\n            mbarrier_arrive(shared + kEmpty + 8 * slot);\n        }\n"
     "        multiply(sum, shared, consumer, slot, tile > 0);\n",
     "the buffer was released too early|deadlock"},
    {"roles_disagree_on_an_empty_tile", pipeline, "        consume(params, shared, tid_x() / 128 - 1, tiles);",
     "        consume(params, shared, tid_x() / 128 - 1, tiles > 0 ? tiles : 1);", "deadlock"},
    {"too_many_bytes_expected", pipeline, "8 * slot, kBytesA + kBytesB);", "8 * slot, kBytesA + kBytesB + 16);",
     "16 bytes are missing"},
    {"too_few_bytes_expected", pipeline, "8 * slot, kBytesA + kBytesB);", "8 * slot, kBytesA);", ""},
    {"wrong_swizzle_of_the_output", pipeline, "((unit ^ row % 8) << 4)", "((unit ^ row % 4) << 4)", ""},
    {"wrong_descriptor_stride", pipeline, "consumer * kHalfBytes, 16, 1024);", "consumer * kHalfBytes, 16, 512);", ""},
    {"wrong_descriptor_step", pipeline, "a + step * 2, b + step * 128", "a + step * 4, b + step * 128", ""},
    {"misaligned_descriptor", pipeline, "wgmma_descriptor_128b(shared + slot * kBytesA + consumer * kHalfBytes,",
     "wgmma_descriptor_128b(shared + 128 + slot * kBytesA + consumer * kHalfBytes,", "the descriptor of A starts at"},
    {"wrong_transpose", pipeline, "wgmma_m64k16_ss<0, 1>", "wgmma_m64k16_ss<0, 0>", ""},
    {"missing_proxy_fence", pipeline, "    fence_proxy_async_shared();\n", "", "without a fence.proxy.async between"},
    {"proxy_fence_of_one_thread_only", pipeline, "    fence_proxy_async_shared();\n",
     "    if (tid_x() % 128 == 5) {\n        fence_proxy_async_shared();\n    }\n",
     "without a fence.proxy.async between"},
    {"missing_named_barrier", pipeline, "    bar_sync(1 + consumer, 128);\n", "", "shared byte"},
    {"named_barrier_count_wrong", pipeline, "bar_sync(1 + consumer, 128);", "bar_sync(1 + consumer, 160);",
     "128 of 160 threads"},
    {"named_barrier_shared_by_two_groups", pipeline, "bar_sync(1 + consumer, 128);",
     "bar_sync(1, 128 + 128 * consumer);", "barrier count wrong|of 256 threads have come"},
    {"missing_wait_group_read", pipeline, "        cp_async_bulk_wait_group_read<0>();\n", "",
     "missing wait_group.read"},
    {"missing_wgmma_fence", pipeline, "    wgmma_fence();\n", "", "missing wgmma_fence"},
    {"missing_wgmma_commit", pipeline, "    wgmma_commit_group();\n", "", "missing wgmma_commit_group"},
    {"missing_wgmma_wait", pipeline, "    wgmma_wait_group<0>();\n", "", ""},
    {"accumulator_written_in_flight", pipeline, "    wgmma_wait_group<0>();\n",
     "    sum[3] = 1.0f;\n    wgmma_wait_group<0>();\n", "was written while products were under way"},
    {"too_many_registers", pipeline, "setmaxnreg_inc<240>();", "setmaxnreg_inc<248>();",
     "setmaxnreg.inc to 248 registers"},
    {"a_warp_leaves_its_warpgroup", pipeline, "    float sum[32];\n",
     "    if (tid_x() / 32 == 6) {\n        return;\n    }\n    float sum[32];\n", "deadlock"},
    {"missing_mbarrier_inval_before_reuse", linear_loads, "        mbarrier_inval(barrier);\n", "",
     "part of an mbarrier"},
    {"wait_for_another_tensor_map", tensor_load, "cp_async_bulk_tensor_2d_load(shared, map, barrier, -8, 5);",
     "cp_async_bulk_tensor_3d_load(shared, map, barrier, -8, 5, 0);",
     "a tensor map of 2 dimensions in an instruction for 3"},
    {"tensor_copy_to_a_misaligned_place", tensor_load, "cp_async_bulk_tensor_2d_load(shared, map, barrier, -8, 5);",
     "cp_async_bulk_tensor_2d_load(shared + 64, map, barrier, -8, 5);", "is not a multiple of 128"},
    {"tensor_load_that_starts_inside_16_bytes", tensor_load,
     "cp_async_bulk_tensor_2d_load(shared, map, barrier, -8, 5);",
     "cp_async_bulk_tensor_2d_load(shared, map, barrier, -3, 5);", "starts at byte -6 of its rows"},
    {"linear_copy_past_the_end", copies_out, "cp_async_bulk_store(output, shared, 1536);",
     "cp_async_bulk_store(output - ctaid_x() * kWords, shared - 16, 1536);", "outside the"},
    {"tensor_store_that_starts_below", copies_out, "cp_async_bulk_tensor_3d_store(map, shared, 16, 3, 2);",
     "cp_async_bulk_tensor_3d_store(map, shared, 16, -1, 2);", "starts at -1 in dimension 1"},
    {"tensor_store_that_starts_inside_16_bytes", copies_out, "cp_async_bulk_tensor_2d_store(map, shared, 16, 5);",
     "cp_async_bulk_tensor_2d_store(map, shared, 12, 5);", "starts at byte 24 of its rows"},
    {"tensor_reduction_that_starts_below", copies_out,
     "cp_async_bulk_tensor_2d_reduce_add(&params.sums, shared, 8, 2);",
     "cp_async_bulk_tensor_2d_reduce_add(&params.sums, shared, -4, 2);", "starts at -4 in dimension 0"},
    {"tensor_store_past_rows_that_end_inside_16_bytes", copies_out,
     "    const gdpa_tensor_map *map = &params.stores[dimensions - 2];\n",
     "    gdpa_tensor_map shorter = params.stores[dimensions - 2];\n    shorter.words[2] -= 2;\n"
     "    const gdpa_tensor_map *map = &shorter;\n",
     "which is not a multiple of 16: the bytes up to the next one are written too"},
    {"reduction_past_the_end", copies_out, "red_global_add_f32(sums + tid_x() % 8, number);",
     "red_global_add_f32(sums + tid_x() % 8 + 100000, number);", "outside every tensor"},
    {"lanes_diverge_at_stmatrix", stmatrix,
     "    stmatrix_x4(shared + (lane * 7 + 3) % 32 * 16, m[0], m[1], m[2], m[3]);\n",
     "    if (lane < 16) {\n        stmatrix_x4(shared + (lane * 7 + 3) % 32 * 16, m[0], m[1], m[2], m[3]);\n    }\n",
     "diverge"},
    {"missing_cluster_barrier", cluster,
     "    barrier_cluster_arrive();\n    barrier_cluster_wait();\n    uint32_t *output",
     "    bar_sync_0();\n    uint32_t *output", "mbarrier"},
    {"sender_overwrites_what_the_other_block_has_not_taken", cluster_copy,
     "            mbarrier_wait_parity_cluster(taken, (turn - 1) & 1);\n", "", "the buffer was released too early"},
    {"receiver_does_not_wait", cluster_copy, "        mbarrier_wait_parity_cluster(full, turn & 1);\n", "",
     "nobody has written yet|while the cp_async_bulk_to_cluster of|written by cp_async_bulk_to_cluster of"},
    {"receiver_waits_for_the_sender_and_not_for_its_copy", cluster_copy,
     "        mbarrier_wait_parity_cluster(full, turn & 1);\n",
     "        barrier_cluster_arrive();\n        barrier_cluster_wait();\n",
     "while the cp_async_bulk_to_cluster of|written by cp_async_bulk_to_cluster of"},
    {"receiver_waits_for_the_wrong_parity", cluster_copy, "mbarrier_wait_parity_cluster(full, turn & 1);",
     "mbarrier_wait_parity_cluster(full, ~turn & 1);",
     "nobody has written yet|while the cp_async_bulk_to_cluster of|written by cp_async_bulk_to_cluster of"},
    {"receiver_acknowledges_before_it_reads", cluster_copy,
     "        word = ld_shared_b32(incoming + kBytes - 4 - tid_x() * 4);\n"
     "        mbarrier_arrive_cluster(mapa_shared_cluster(taken, other));\n",
     "        mbarrier_arrive_cluster(mapa_shared_cluster(taken, other));\n        bar_sync_0();\n"
     "        word = ld_shared_b32(incoming + kBytes - 4 - tid_x() * 4);\n",
     "the buffer was released too early|while the cp_async_bulk_to_cluster of|written by cp_async_bulk_to_cluster of"},
    {"missing_proxy_fence_before_a_copy_to_another_block", cluster_copy, "        fence_proxy_async_shared();\n", "",
     "without a fence.proxy.async between"},
    {"copy_to_another_block_starts_before_the_writes", cluster_copy, "        bar_sync_0();\n", "",
     "nobody has written yet|and no barrier lies between"},
    {"copy_and_mbarrier_of_different_blocks", cluster_copy, "mapa_shared_cluster(full, other);",
     "mapa_shared_cluster(full, other ^ 1);", "are of different blocks"},
    {"copy_to_another_block_from_there", cluster_copy, "cp_async_bulk_to_cluster(to, outgoing,",
     "cp_async_bulk_to_cluster(to, to,", "outside the"},
    {"receiver_leaves_before_the_copy", cluster_copy, "    uint32_t word = 0;\n",
     "    if (other == 0) {\n        return;\n    }\n    uint32_t word = 0;\n",
     "may still write its shared memory|block 1 has left the kernel"},
    {"sender_leaves_before_the_copy_has_read", cluster_copy, LAST_CLUSTER_BARRIER, "",
     "may still read its shared memory"},
    {"block_has_left_when_an_arrival_comes", cluster_copy, LAST_CLUSTER_BARRIER, WAIT_UNTIL_TAKEN LATE_ARRIVAL(1),
     "has left the kernel, and its mbarrier|may still arrive at one of its mbarriers"},
    {"block_leaves_without_knowing_of_an_arrival", cluster_copy, LAST_CLUSTER_BARRIER, WAIT_UNTIL_TAKEN LATE_ARRIVAL(0),
     "has left the kernel, and its mbarrier|may still arrive at one of its mbarriers"},
};

static const emu::ConformanceCase &case_of(const Fault &fault)
{
    for (const emu::ConformanceCase &one : emu::conformance_cases()) {
        if (strcmp(one.name, fault.in) == 0) {
            return one;
        }
    }
    fail_msg("there is no case called %s", fault.in);
    return emu::conformance_cases().front();
}

static bool names_it(const std::string &message, const std::string &expected)
{
    size_t start = 0;
    while (start <= expected.size()) {
        const size_t end = std::min(expected.find('|', start), expected.size());
        if (message.find(expected.substr(start, end - start)) != std::string::npos) {
            return true;
        }
        start = end + 1;
    }
    return false;
}

static bool is_right(const emu::ConformanceCase &one, const std::vector<uint32_t> &input,
                     const std::vector<uint32_t> &output)
{
    const std::vector<emu::Expected> expected = one.expect(input);
    for (size_t i = 0; i < output.size(); ++i) {
        if (!(emu::conformance_error(expected[i], output[i]) <= 1)) {
            return false;
        }
    }
    return true;
}

static void a_planted_fault_is_named(void **state)
{
    const auto &fault = *static_cast<const Fault *>(*state);
    const emu::ConformanceCase &one = case_of(fault);
    std::string why;
    std::string source = emu::conformance_source(one, &why);
    if (!emu::replace_once(&source, fault.from, fault.to)) {
        fail_msg("the source does not have exactly one \"%s\"", fault.from);
    }
    const struct {
        emu::Completion completion;
        uint64_t seed;
    } modes[] = {{emu::Completion::Latest, 0}, {emu::Completion::Earliest, 0}, {emu::Completion::Random, 3}};
    for (const auto &mode : modes) {
        const std::vector<uint32_t> input = one.make_input(1);
        std::vector<uint32_t> output;
        const std::string found = emu::conformance_emulate(one, source, input, mode.completion, mode.seed, &output);
        if (fault.expected[0] == '\0') {
            if (found.empty() && is_right(one, input, output)) {
                fail_msg("%s: not found", fault.name);
            }
        } else if (!names_it(found, fault.expected)) {
            fail_msg("%s, completion %d: \"%s\" is not in the message: %s", fault.name,
                     static_cast<int>(mode.completion), fault.expected, found.c_str());
        }
        print_message("# %s\n", found.empty() ? "wrong results" : found.substr(0, found.find('\n')).c_str());
    }
}

/* Changes that are no faults: what the checks must not complain about. */
static void a_sound_variant_passes(void **)
{
    const Fault variants[] = {
        {"fence behind the barrier, by whoever issues", pipeline,
         "    fence_proxy_async_shared();\n    bar_sync(1 + consumer, 128);\n",
         "    bar_sync(1 + consumer, 128);\n    fence_proxy_async_shared();\n", ""},
        {"one wait a warp", pipeline, "        mbarrier_wait_parity(shared + kFull + 8 * slot, phase);\n",
         "        if (tid_x() % 32 == 0) {\n            mbarrier_wait_parity(shared + kFull + 8 * slot, phase);\n      "
         "  }\n"
         "        bar_warp_sync();\n",
         ""},
        {"fewer registers", pipeline, "setmaxnreg_inc<240>();", "setmaxnreg_inc<232>();", ""},
        {"the acknowledgement of the last copy, and no cluster barrier", cluster_copy, LAST_CLUSTER_BARRIER,
         WAIT_UNTIL_TAKEN, ""},
        {"a proxy fence behind the barrier, by whoever copies", cluster_copy,
         "        fence_proxy_async_shared();\n        bar_sync_0();\n",
         "        bar_sync_0();\n        fence_proxy_async_shared();\n", ""},
        {"another number of the barrier", pipeline, "bar_sync(1 + consumer, 128);", "bar_sync(9 - consumer, 128);", ""},
    };
    for (const Fault &variant : variants) {
        const emu::ConformanceCase &one = case_of(variant);
        std::string why;
        std::string source = emu::conformance_source(one, &why);
        if (!emu::replace_once(&source, variant.from, variant.to)) {
            fail_msg("the source does not have exactly one \"%s\"", variant.from);
        }
        const std::vector<uint32_t> input = one.make_input(1);
        std::vector<uint32_t> output;
        for (const uint64_t seed : {0, 1, 2, 3, 4}) {
            const std::string found =
                emu::conformance_emulate(one, source, input, emu::Completion::Random, seed, &output);
            if (!found.empty() || !is_right(one, input, output)) {
                fail_msg("%s: %s", variant.name, found.c_str());
            }
        }
    }
}

int main(void)
{
    constexpr size_t count = sizeof faults / sizeof faults[0];
    CMUnitTest tests[count + 1];
    tests[count] = {"a_sound_variant_passes", a_sound_variant_passes, nullptr, nullptr, nullptr};
    for (size_t i = 0; i < count; ++i) {
        tests[i] = {faults[i].name, a_planted_fault_is_named, nullptr, nullptr, const_cast<Fault *>(&faults[i])};
    }
    return cmocka_run_group_tests_name("faults planted into Hopper kernels", tests, nullptr, nullptr);
}
