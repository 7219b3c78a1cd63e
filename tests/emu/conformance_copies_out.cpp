/*
 * What tests/emu/conformance/copies_out.cu must give: tensors into which boxes were stored or added, linear copies, atomics.
 */
#include "conformance_tensors.hpp"

extern "C" {
#include "tests/support/random.h"
}

namespace emu
{

static constexpr uint32_t kSections = 8;
static constexpr uint32_t kBlockWords = 4096;
static constexpr uint32_t kTensorWords = 2048; // room for one tensor
static constexpr size_t kTensors = 5;
static constexpr size_t kSums = 4; // the tensor that is added to
static constexpr size_t kWords = kSections * kBlockWords + kTensors * kTensorWords;

/* The sections after the stores, which are named for their tensors. */
enum : size_t { kTensorSums = 4, kLinear = 5, kLinearSums = 6, kAtomics = 7 };

/* Rows are of whole 16 bytes, and followed by bytes that must stay as they are. */
static const Geometry geometries[kTensors] = {
    {2, {24, 10}, {64}, {16, 8}, {16, 5}, Swizzle::None, 2},
    {3, {24, 5, 4}, {64, 320}, {16, 4, 3}, {16, 3, 2}, Swizzle::Bytes32, 2},
    {4, {40, 12, 3, 2}, {96, 1152, 3456}, {64, 8, 2, 3}, {8, 6, 2, 1}, Swizzle::Bytes128, 2},
    {5, {40, 2, 3, 2, 3}, {96, 192, 576, 1152}, {32, 2, 2, 2, 2}, {16, 1, 2, 0, 1}, Swizzle::Bytes64, 2},
    {2, {20, 6}, {96}, {16, 8}, {0, 0}, Swizzle::None, 4},
};

static size_t tensor_word(size_t tensor)
{
    return kSections * kBlockWords + tensor * kTensorWords;
}

static uint32_t whole_number(random_source *source)
{
    const auto number = static_cast<float>(random_between(source, -8, 8));
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static std::vector<uint32_t> make_input(uint64_t seed)
{
    random_source source = {seed, 0};
    std::vector<uint32_t> input(kWords);
    for (size_t i = 0; i < kWords; ++i) {
        const size_t section = i / kBlockWords;
        const bool summed = section == kTensorSums || section == kLinearSums || section == kAtomics;
        input[i] = summed && i % kBlockWords < 600 ? whole_number(&source)
                                                   : static_cast<uint32_t>(random_hash(source.seed, ++source.counter));
    }
    return input;
}

static Expected *words_of(std::vector<Expected> &all, size_t section)
{
    return all.data() + section * kBlockWords;
}

static float number_of(const std::vector<uint32_t> &input, size_t section, size_t i)
{
    float value;
    memcpy(&value, &input[section * kBlockWords + i], sizeof value);
    return value;
}

static void expect_numbers(const std::vector<float> &numbers, Expected *out)
{
    for (size_t i = 0; i < numbers.size(); ++i) {
        out[i] = near(static_cast<double>(numbers[i]), 0);
    }
}

static void expect_store(const std::vector<uint32_t> &input, size_t tensor, std::vector<Expected> &all)
{
    const Geometry &g = geometries[tensor];
    const auto *shared = reinterpret_cast<const unsigned char *>(input.data() + tensor * kBlockWords);
    std::vector<unsigned char> target(kTensorWords * 4);
    for_elements(g, g.place, [&](uint32_t from, int64_t to) {
        if (to >= 0) {
            memcpy(&target[static_cast<size_t>(to)], shared + from, g.element_bytes);
        }
    });
    expect_bytes(target, all.data() + tensor_word(tensor));
}

static void expect_tensor_sums(const std::vector<uint32_t> &input, Expected *out)
{
    std::vector<float> tensor(kTensorWords);
    const int32_t places[2][2] = {{8, 2}, {0, 0}};
    for (const auto &place : places) {
        for_elements(geometries[kSums], place, [&](uint32_t from, int64_t to) {
            if (to >= 0) {
                tensor[static_cast<size_t>(to / 4)] += number_of(input, kTensorSums, from / 4);
            }
        });
    }
    expect_numbers(tensor, out);
}

static void expect_linear(const uint32_t *in, Expected *out)
{
    for (uint32_t i = 0; i < 1024; ++i) {
        out[i] = exactly(i % 512 < 384 ? in[i] : 0);
    }
}

static void expect_linear_sums(const std::vector<uint32_t> &input, Expected *out)
{
    std::vector<float> linear(512);
    for (size_t i = 0; i < 256; ++i) {
        linear[i] = number_of(input, kLinearSums, i) + number_of(input, kLinearSums, 128 + i);
    }
    expect_numbers(linear, out);
}

static void expect_atomics(const std::vector<uint32_t> &input, Expected *out)
{
    std::vector<float> reduced(64);
    uint32_t counts[2] = {0, 0};
    for (uint32_t thread = 0; thread < 128; ++thread) {
        const float number = number_of(input, kAtomics, thread);
        reduced[thread % 8] += number;
        const float four[4] = {number, 2 * number, -number, 1};
        for (uint32_t i = 0; i < 4; ++i) {
            reduced[16 + thread % 4 * 4 + i] += four[i];
        }
        counts[thread % 2] += input[kAtomics * kBlockWords + 600 + thread];
    }
    expect_numbers(reduced, out);
    out[600] = exactly(counts[0]);
    out[601] = exactly(counts[1]);
}

static std::vector<Expected> expect(const std::vector<uint32_t> &input)
{
    std::vector<Expected> all(kWords);
    for (size_t tensor = 0; tensor < kSums; ++tensor) {
        expect_store(input, tensor, all);
    }
    expect_tensor_sums(input, all.data() + tensor_word(kSums));
    expect_linear(input.data() + kLinear * kBlockWords, words_of(all, kLinear));
    expect_linear_sums(input, words_of(all, kLinearSums));
    expect_atomics(input, words_of(all, kAtomics));
    return all;
}

static std::vector<Section> sections()
{
    return {
        {"tensor store 2d", tensor_word(0), kTensorWords},
        {"tensor store 3d, 32-byte swizzle", tensor_word(1), kTensorWords},
        {"tensor store 4d, 128-byte swizzle", tensor_word(2), kTensorWords},
        {"tensor store 5d, 64-byte swizzle", tensor_word(3), kTensorWords},
        {"tensor reductions", tensor_word(kSums), kTensorWords},
        {"linear stores", kLinear * kBlockWords, kBlockWords},
        {"linear reductions", kLinearSums * kBlockWords, kBlockWords},
        {"atomics", kAtomics * kBlockWords, kBlockWords},
    };
}

/* Aligned like the struct in the kernel. */
static bool parameters(uint64_t input, uint64_t output, const EncodeMap &encode, std::vector<unsigned char> *bytes,
                       std::vector<size_t> *starts)
{
    bytes->assign(kTensors * 128 + 64, 0);
    *starts = {0};
    bool encoded = true;
    for (size_t i = 0; i < kTensors; ++i) {
        encoded =
            encoded && encode_geometry(geometries[i], output + tensor_word(i) * 4, encode, bytes->data() + i * 128);
    }
    memcpy(bytes->data() + kTensors * 128, &input, 8);
    memcpy(bytes->data() + kTensors * 128 + 8, &output, 8);
    return encoded;
}

std::vector<ConformanceCase> conformance_copies_out()
{
    return {
        {"copies out",
         "copies_out.cu",
         {},
         90,
         kSections,
         16384,
         1,
         128,
         kWords,
         kWords,
         make_input,
         expect,
         sections,
         parameters},
    };
}

} // namespace emu
