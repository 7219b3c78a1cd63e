/*
 * What tests/emu/conformance/order.cu must give.
 */
#include "conformance.hpp"

#include <cstring>

extern "C" {
#include "tests/support/random.h"
}

namespace emu
{

static constexpr size_t kThreads = 64;
static constexpr size_t kSeen = 128;
static constexpr size_t kNumbers = 384;

/* Small whole numbers: their sums are exact in any order. */
static std::vector<uint32_t> make_input(uint64_t seed)
{
    random_source source = {seed, 0};
    std::vector<uint32_t> input(kThreads * 4);
    for (uint32_t &word : input) {
        const auto number = static_cast<float>(std::round(8 * random_normal(&source)));
        memcpy(&word, &number, sizeof word);
    }
    return input;
}

/* What the threads of a lane have added. */
static uint32_t sum_of(const std::vector<uint32_t> &input, size_t lane, size_t i)
{
    float numbers[2];
    memcpy(&numbers[0], &input[lane * 4 + i], sizeof numbers[0]);
    memcpy(&numbers[1], &input[(lane + 32) * 4 + i], sizeof numbers[1]);
    const float sum = 0.0f + numbers[0] + numbers[1];
    uint32_t bits;
    memcpy(&bits, &sum, sizeof bits);
    return bits;
}

static std::vector<Expected> expect(const std::vector<uint32_t> &input)
{
    std::vector<Expected> all(kNumbers + kThreads);
    for (size_t thread = 0; thread < kThreads; ++thread) {
        for (size_t i = 0; i < 4; ++i) {
            all[thread % 32 * 4 + i] = exactly(sum_of(input, thread % 32, i));
            all[kSeen + thread * 4 + i] = exactly(sum_of(input, (thread + 5) % 32, i));
        }
        all[kNumbers + thread] = exactly(static_cast<uint32_t>(thread));
    }
    return all;
}

static std::vector<Section> sections()
{
    return {{"sums", 0, kNumbers}, {"numbers", kNumbers, kThreads}};
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

std::vector<ConformanceCase> conformance_order()
{
    ConformanceCase one = {};
    one.name = "order";
    one.file = "order.cu";
    one.arch = 90;
    one.blocks = 1;
    one.threads = kThreads;
    one.cluster = 1;
    one.input_words = kThreads * 4;
    one.output_words = kNumbers + kThreads;
    one.make_input = make_input;
    one.expect = expect;
    one.sections = sections;
    one.parameters = parameters;
    return {one};
}

} // namespace emu
