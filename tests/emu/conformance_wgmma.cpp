/*
 * What tests/emu/conformance/wgmma.cu and e4m3.cu must give. The kernels place the matrices; only the fragment of D is ours to say.
 */
#include "conformance.hpp"
#include "include/gdpajit.h"
#include "text.hpp"

#include <cstring>

extern "C" {
#include "tests/support/half.h"
#include "tests/support/random.h"
}

namespace emu
{

static constexpr uint32_t kRows = 64;
static constexpr uint32_t kMostColumns = 256;
static constexpr uint32_t kThreads = 128;
static constexpr uint32_t kOutputWords = kThreads * kThreads;
/* Against the sum of the magnitudes: 16-bit products are added with about 24 bits, those of 8 bits with about 14. */
static constexpr double kSumTolerance = 0x1p-19;
static constexpr double kSumToleranceE4m3 = 0x1p-11;

struct WgmmaCase {
    uint32_t columns;
    bool accumulate;
};

/* As the kernels list them. */
static const WgmmaCase wide_cases[] = {{64, true},  {64, true},  {64, true},  {64, true},   {64, true},  {64, true},
                                       {64, true},  {64, true},  {128, true}, {128, false}, {64, true},  {64, false},
                                       {128, true}, {32, true},  {80, true},  {96, true},   {112, true}, {160, true},
                                       {176, true}, {192, true}, {256, true}, {256, true},  {256, true}};
static const WgmmaCase e4m3_cases[] = {{64, true},  {64, false}, {64, true},  {64, true},
                                       {128, true}, {256, true}, {256, false}};
static constexpr size_t kWideCases = sizeof wide_cases / sizeof wide_cases[0];
static constexpr size_t kE4m3Cases = sizeof e4m3_cases / sizeof e4m3_cases[0];

/* Words of A, B and D of a block. */
struct Sizes {
    uint32_t a, b;
    uint32_t block() const
    {
        return a + b + kOutputWords;
    }
};
static constexpr Sizes kWideSizes = {kRows * 16 / 2, kMostColumns * 16 / 2};
static constexpr Sizes kE4m3Sizes = {kRows * 32 / 4, kMostColumns * 32 / 4};

static uint32_t float_bits(double value)
{
    const auto narrow = static_cast<float>(value);
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    return bits;
}

static std::vector<uint32_t> make_wide(uint64_t seed, int32_t dtype)
{
    random_source source = {seed, 0};
    std::vector<uint32_t> input;
    for (size_t block = 0; block < kWideCases; ++block) {
        for (uint32_t i = 0; i < kWideSizes.a + kWideSizes.b; ++i) {
            uint16_t pair[2];
            dtype_store(dtype, pair, 0, random_normal(&source));
            dtype_store(dtype, pair, 1, random_normal(&source));
            input.push_back(pair[0] | static_cast<uint32_t>(pair[1]) << 16);
        }
        for (uint32_t i = 0; i < kOutputWords; ++i) {
            input.push_back(float_bits(random_normal(&source)));
        }
    }
    return input;
}

/* Bytes without the NaN, exponents up to 1. */
static std::vector<uint32_t> make_e4m3(uint64_t seed)
{
    random_source source = {seed, 0};
    std::vector<uint32_t> input;
    for (size_t block = 0; block < kE4m3Cases; ++block) {
        for (uint32_t i = 0; i < kE4m3Sizes.a + kE4m3Sizes.b; ++i) {
            const auto bits = static_cast<uint32_t>(random_hash(source.seed, ++source.counter));
            input.push_back(bits & 0xbfbfbfbfu);
        }
        for (uint32_t i = 0; i < kOutputWords; ++i) {
            input.push_back(float_bits(random_normal(&source)));
        }
    }
    return input;
}

/* 4 exponent bits with a bias of 7, 3 fraction bits. */
static double e4m3_value(unsigned char bits)
{
    const int exponent = bits >> 3 & 15;
    const int fraction = bits & 7;
    const double magnitude = exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
    return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

/* a(row, k), b(k, column), and the start of D's input and of the output of the block. */
template <typename A, typename B>
static void expect_product(const WgmmaCase &one, uint32_t depth, A a, B b, const uint32_t *sums, double tolerance,
                           Expected *out)
{
    for (uint32_t thread = 0; thread < kThreads; ++thread) {
        for (uint32_t i = 0; i < one.columns / 2; ++i) {
            const uint32_t row = thread / 32 * 16 + thread % 32 / 4 + 8 * (i % 4 / 2);
            const uint32_t column = i / 4 * 8 + thread % 4 * 2 + i % 2;
            float before;
            memcpy(&before, &sums[thread * kThreads + i], sizeof before);
            double sum = one.accumulate ? static_cast<double>(before) : 0;
            double magnitude = std::fabs(sum);
            for (uint32_t k = 0; k < depth; ++k) {
                const double product = a(row, k) * b(k, column);
                sum += product;
                magnitude += std::fabs(product);
            }
            out[thread * kThreads + i] = near(sum, magnitude * tolerance);
        }
    }
}

static std::vector<Expected> expect_wide(const std::vector<uint32_t> &input, int32_t dtype)
{
    std::vector<Expected> all(kWideCases * kOutputWords);
    for (size_t block = 0; block < kWideCases; ++block) {
        const uint32_t *words = input.data() + block * kWideSizes.block();
        const auto a = [&](uint32_t row, uint32_t k) { return dtype_load(dtype, words, row * 16 + k); };
        const auto b = [&](uint32_t k, uint32_t column) {
            return dtype_load(dtype, words + kWideSizes.a, k * kMostColumns + column);
        };
        expect_product(wide_cases[block], 16, a, b, words + kWideSizes.a + kWideSizes.b, kSumTolerance,
                       all.data() + block * kOutputWords);
    }
    return all;
}

static std::vector<Expected> expect_e4m3(const std::vector<uint32_t> &input)
{
    std::vector<Expected> all(kE4m3Cases * kOutputWords);
    for (size_t block = 0; block < kE4m3Cases; ++block) {
        const uint32_t *words = input.data() + block * kE4m3Sizes.block();
        const auto *bytes_a = reinterpret_cast<const unsigned char *>(words);
        const auto *bytes_b = reinterpret_cast<const unsigned char *>(words + kE4m3Sizes.a);
        const auto a = [&](uint32_t row, uint32_t k) { return e4m3_value(bytes_a[row * 32 + k]); };
        const auto b = [&](uint32_t k, uint32_t column) { return e4m3_value(bytes_b[column * 32 + k]); };
        expect_product(e4m3_cases[block], 32, a, b, words + kE4m3Sizes.a + kE4m3Sizes.b, kSumToleranceE4m3,
                       all.data() + block * kOutputWords);
    }
    return all;
}

static std::vector<Section> make_sections(const char *prefix, size_t count, const WgmmaCase *cases)
{
    std::vector<Section> result;
    for (size_t i = 0; i < count; ++i) {
        result.push_back({text("%s case %zu, n%u", prefix, i, cases[i].columns), i * kOutputWords, kOutputWords});
    }
    return result;
}

static bool parameters(uint64_t input, uint64_t output, const EncodeMap &, std::vector<unsigned char> *bytes,
                       std::vector<size_t> *starts)
{
    bytes->resize(16);
    memcpy(bytes->data(), &input, 8);
    memcpy(bytes->data() + 8, &output, 8);
    *starts = {0, 8};
    return true;
}

std::vector<ConformanceCase> conformance_wgmma()
{
    const auto blocks = static_cast<uint32_t>(kWideCases);
    const size_t input = kWideCases * kWideSizes.block();
    const size_t output = kWideCases * kOutputWords;
    return {
        {"wgmma bf16",
         "wgmma.cu",
         {"bf16"},
         90,
         blocks,
         65536,
         1,
         kThreads,
         input,
         output,
         [](uint64_t seed) { return make_wide(seed, GDPA_DTYPE_BF16); },
         [](const std::vector<uint32_t> &in) { return expect_wide(in, GDPA_DTYPE_BF16); },
         [] { return make_sections("m64k16", kWideCases, wide_cases); },
         parameters},
        {"wgmma f16",
         "wgmma.cu",
         {},
         90,
         blocks,
         65536,
         1,
         kThreads,
         input,
         output,
         [](uint64_t seed) { return make_wide(seed, GDPA_DTYPE_FP16); },
         [](const std::vector<uint32_t> &in) { return expect_wide(in, GDPA_DTYPE_FP16); },
         [] { return make_sections("m64k16", kWideCases, wide_cases); },
         parameters},
        {"wgmma e4m3",
         "e4m3.cu",
         {},
         90,
         static_cast<uint32_t>(kE4m3Cases),
         65536,
         1,
         kThreads,
         kE4m3Cases * kE4m3Sizes.block(),
         kE4m3Cases * kOutputWords,
         make_e4m3,
         expect_e4m3,
         [] { return make_sections("m64k32", kE4m3Cases, e4m3_cases); },
         parameters},
    };
}

} // namespace emu
