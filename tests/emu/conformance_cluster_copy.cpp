/*
 * What tests/emu/conformance/cluster_copy.cu must give.
 */
#include "conformance.hpp"

#include <cstring>

extern "C" {
#include "tests/support/random.h"
}

namespace emu
{

static constexpr size_t kBlocks = 2;
static constexpr size_t kTurns = 5;
static constexpr size_t kThreads = 128;
static constexpr size_t kBlockWords = kTurns * kThreads;

static std::vector<uint32_t> make_input(uint64_t seed)
{
    std::vector<uint32_t> input(kBlocks * kBlockWords);
    for (size_t i = 0; i < input.size(); ++i) {
        input[i] = static_cast<uint32_t>(random_hash(seed, i));
    }
    return input;
}

static std::vector<Expected> expect(const std::vector<uint32_t> &input)
{
    std::vector<Expected> all(kBlocks * kBlockWords);
    for (size_t turn = 0; turn < kTurns; ++turn) {
        for (size_t block = 0; block < kBlocks; ++block) {
            for (size_t thread = 0; thread < kThreads; ++thread) {
                const size_t sender = (1 - block) * kBlockWords + turn * kThreads + kThreads - 1 - thread;
                const uint32_t before = turn == 0 ? 0 : all[sender - kThreads].bits;
                all[block * kBlockWords + turn * kThreads + thread] = exactly(before ^ input[sender]);
            }
        }
    }
    return all;
}

static std::vector<Section> sections()
{
    return {{"block 0", 0, kBlockWords}, {"block 1", kBlockWords, kBlockWords}};
}

static bool parameters(uint64_t input, uint64_t output, const EncodeMap &, std::vector<unsigned char> *bytes,
                       std::vector<size_t> *starts)
{
    bytes->assign(16, 0);
    *starts = {0};
    memcpy(bytes->data(), &input, 8);
    memcpy(bytes->data() + 8, &output, 8);
    return true;
}

std::vector<ConformanceCase> conformance_cluster_copy()
{
    ConformanceCase one = {};
    one.name = "cluster copy";
    one.file = "cluster_copy.cu";
    one.arch = 90;
    one.blocks = kBlocks;
    one.shared_bytes = 2 * 4 * kThreads + 16;
    one.cluster = 2;
    one.threads = kThreads;
    one.input_words = kBlocks * kBlockWords;
    one.output_words = kBlocks * kBlockWords;
    one.make_input = make_input;
    one.expect = expect;
    one.sections = sections;
    one.parameters = parameters;
    return {one};
}

} // namespace emu
