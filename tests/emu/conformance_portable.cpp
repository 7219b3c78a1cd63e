/*
 * What tests/emu/conformance/portable.cu must give.
 */
#include "conformance.hpp"

#include <cfenv>
#include <cmath>
#include <cstring>

#include "include/gdpajit.h"

extern "C" {
#include "tests/support/half.h"
#include "tests/support/random.h"
}

namespace emu
{

static constexpr uint32_t kThreads = 128;
static constexpr uint32_t kWords = 16;
static constexpr uint32_t kBlockWords = kThreads * kWords;
static const char *const section_names[] = {"cvt",
                                            "fma of packed 16-bit floats",
                                            "fma, max, min, popc, prmt",
                                            "ex2, lg2, rcp, tanh",
                                            "ldmatrix",
                                            "mma.m16n8k16 bf16",
                                            "mma.m16n8k16 f16",
                                            "vote, shfl, special registers",
                                            "ld and st shared",
                                            "cp.async",
                                            "ld and st global"};
static constexpr uint32_t kSections = sizeof section_names / sizeof section_names[0];

/* What a sum of k products may be off by, against the sum of their magnitudes: the tensor core adds with about 24 bits. */
static constexpr double kSumTolerance = 0x1p-19;

static float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Input
 * ------------------------------------------------------------------------------------------------------------- */

static uint32_t special_float(uint64_t number)
{
    static const uint32_t specials[] = {
        0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000, 0xffffffff,
        0x7f800001, 0x00000001, 0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff, 0xff7fffff, 0x3f808000,
        0x3f818000, 0x3f80ffff, 0x477fe000, 0x477fefff, 0x477ff000, 0xc77ff000, 0x33000000, 0x33000001,
        0x337fffff, 0x387fc000, 0x38800000, 0x7f7f7fff, 0x7f7f8000, 0x3f801000, 0x3f803000};
    return specials[number % (sizeof specials / sizeof specials[0])];
}

/* Two numbers of a 16-bit type with a standard normal distribution. */
static uint32_t normal_pair(random_source *source, int32_t dtype)
{
    uint16_t pair[2];
    dtype_store(dtype, pair, 0, random_normal(source));
    dtype_store(dtype, pair, 1, random_normal(source));
    return pair[0] | static_cast<uint32_t>(pair[1]) << 16;
}

static uint32_t input_word(random_source *source, uint32_t section, uint32_t word)
{
    const auto bits = static_cast<uint32_t>(random_hash(source->seed, ++source->counter));
    const auto number = static_cast<float>(random_normal(source));
    switch (section) {
    case 0:
    case 2:
        return bits % 4 == 0 ? special_float(bits >> 8) : bits % 4 == 1 ? bits_of_float(number) : bits;
    case 3:
        return bits % 8 == 0 ? special_float(bits >> 8)
                             : bits_of_float(word % 4 == 1 || word % 4 == 2 ? std::fabs(number) * 100 : number * 8);
    case 5:
    case 6:
        return word < 6 ? normal_pair(source, section == 5 ? GDPA_DTYPE_BF16 : GDPA_DTYPE_FP16) : bits_of_float(number);
    default:
        return bits;
    }
}

static std::vector<uint32_t> make_input(uint64_t seed)
{
    random_source source = {seed, 0};
    std::vector<uint32_t> input(size_t{kSections} * kBlockWords);
    for (size_t i = 0; i < input.size(); ++i) {
        input[i] = input_word(&source, static_cast<uint32_t>(i / kBlockWords), i % kWords);
    }
    return input;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Expectations. `in` and `out`: the words of one thread, or of the whole block where threads work together.
 * ------------------------------------------------------------------------------------------------------------- */

/* cvt of fp32: every NaN becomes 0x7fff. */
static uint16_t narrow(int32_t dtype, uint32_t bits, bool relu)
{
    const float value = float_of_bits(bits);
    if (std::isnan(value)) {
        return 0x7fff;
    }
    uint16_t result;
    dtype_store(dtype, &result, 0, relu && value <= 0.0f ? 0.0 : static_cast<double>(value));
    return result;
}

static void expect_convert(const uint32_t *in, Expected *out)
{
    for (int i = 0; i < 3; ++i) {
        for (int form = 0; form < 4; ++form) {
            const int32_t dtype = form < 2 ? GDPA_DTYPE_BF16 : GDPA_DTYPE_FP16;
            const uint32_t low = narrow(dtype, in[2 * i], form % 2 == 1);
            const uint32_t high = narrow(dtype, in[2 * i + 1], form % 2 == 1);
            out[4 * i + form] = exactly(low | high << 16);
        }
    }
    for (int half = 0; half < 2; ++half) {
        const double value = fp16_to_double(static_cast<uint16_t>(in[6] >> 16 * half));
        out[12 + half] = std::isnan(value) ? near(NAN, 0) : exactly(bits_of_float(static_cast<float>(value)));
    }
}

/*
 * A number of which only the sign counts, because it is so much smaller than `big`, brought near enough for their sum to be exact enough in
 * double.
 */
static double brought_near(double small, double big)
{
    const bool far = small != 0 && big != 0 && std::isfinite(big) && std::isfinite(small) &&
                     std::ilogb(small) < std::ilogb(big) - 40;
    return far ? std::copysign(std::ldexp(1.0, std::ilogb(big) - 40), small) : small;
}

static uint16_t fused(int32_t dtype, uint16_t a, uint16_t b, uint16_t c)
{
    const double product = dtype_load(dtype, &a, 0) * dtype_load(dtype, &b, 0);
    const double summand = dtype_load(dtype, &c, 0);
    const double exact = brought_near(product, summand) + brought_near(summand, product);
    if (std::isnan(exact)) {
        return 0x7fff;
    }
    uint16_t result;
    dtype_store(dtype, &result, 0, exact);
    return result;
}

static void expect_packed(const uint32_t *in, Expected *out)
{
    for (int i = 0; i < 4; ++i) {
        for (int form = 0; form < 2; ++form) {
            uint32_t word = 0;
            for (int half = 0; half < 2; ++half) {
                const auto part = [&](int operand) { return static_cast<uint16_t>(in[3 * i + operand] >> 16 * half); };
                const int32_t dtype = form == 0 ? GDPA_DTYPE_BF16 : GDPA_DTYPE_FP16;
                word |= static_cast<uint32_t>(fused(dtype, part(0), part(1), part(2))) << 16 * half;
            }
            out[2 * i + form] = exactly(word);
        }
    }
}

/* The hardware makes one NaN. */
static Expected number(float value)
{
    return exactly(std::isnan(value) ? 0x7fffffff : bits_of_float(value));
}

/* +0 is above -0. */
static float larger(float a, float b)
{
    return a == b ? (std::signbit(a) ? b : a) : (a > b ? a : b);
}

static uint32_t permuted(uint32_t a, uint32_t b, uint32_t selector)
{
    const uint32_t words[2] = {a, b};
    unsigned char bytes[8];
    memcpy(bytes, words, 8);
    unsigned char result[4];
    for (int i = 0; i < 4; ++i) {
        const uint32_t nibble = selector >> 4 * i & 15;
        const unsigned char byte = bytes[nibble & 7];
        result[i] = static_cast<unsigned char>(nibble < 8 ? byte : (byte & 0x80) != 0 ? 0xff : 0);
    }
    uint32_t word;
    memcpy(&word, result, 4);
    return word;
}

/* By the host's own rounding towards zero. */
static float fused_towards_zero(float a, float b, float c)
{
    const int mode = std::fegetround();
    std::fesetround(FE_TOWARDZERO);
    const volatile float factor = a, other = b, term = c;
    const volatile float result = std::fma(factor, other, term);
    std::fesetround(mode);
    return result;
}

static void expect_scalar(const uint32_t *in, Expected *out)
{
    const auto f = [in](int i) { return float_of_bits(in[i]); };
    const bool nan67[2] = {std::isnan(f(6)), std::isnan(f(7))};
    out[0] = number(std::fma(f(0), f(1), f(2)));
    const float saturated = std::fma(f(3), f(4), f(5));
    out[1] = number(std::isnan(saturated) || saturated <= 0 ? 0.0f : std::fmin(saturated, 1.0f));
    out[2] = nan67[0] ? number(nan67[1] ? NAN : f(7)) : number(nan67[1] ? f(6) : larger(f(6), f(7)));
    out[3] = number(std::isnan(f(8)) || std::isnan(f(9)) ? NAN : larger(f(8), f(9)));
    out[4] = number(std::isnan(f(10)) || std::isnan(f(11)) ? NAN : -larger(-f(10), -f(11)));
    uint32_t ones = 0;
    for (int i = 0; i < 32; ++i) {
        ones += in[12] >> i & 1;
    }
    out[5] = exactly(ones);
    out[6] = exactly(permuted(in[13], in[14], in[15] & 0xffff));
    out[7] = exactly(permuted(in[13], in[14], 0xbb99));
    out[8] = number(fused_towards_zero(f(0), f(1), f(2)));
}

/* Subnormal numbers are zeros to these instructions. */
static double flushed(double value)
{
    return std::fabs(value) < 0x1p-126 ? std::copysign(0.0, value) : value;
}

static Expected approximately(double value, double relative, double absolute)
{
    const double rounded = flushed(static_cast<double>(static_cast<float>(value)));
    /* Near the smallest normal number the result may be flushed or not. */
    const bool border = std::fabs(value) < 0x1.1p-126 && value != 0;
    return near(rounded, border ? 0x1.2p-126 : std::fabs(rounded) * relative + absolute);
}

static void expect_approximate(const uint32_t *in, Expected *out)
{
    for (int i = 0; i < 4; ++i) {
        const auto x = [&](int j) { return flushed(static_cast<double>(float_of_bits(in[4 * i + j]))); };
        out[4 * i] = approximately(std::exp2(x(0)), 0x1p-21, 0);
        out[4 * i + 1] = approximately(std::log2(x(1)), 0x1p-21, 0x1p-21);
        out[4 * i + 2] = approximately(1 / x(2), 0x1p-22, 0);
        out[4 * i + 3] = near(std::tanh(static_cast<double>(float_of_bits(in[4 * i + 3]))),
                              std::fabs(std::tanh(static_cast<double>(float_of_bits(in[4 * i + 3])))) * 0x1p-10);
    }
}

static void expect_ldmatrix(const uint32_t *in, Expected *out)
{
    for (uint32_t warp = 0; warp < 4; ++warp) {
        /* Row r of the warp's 64 is in words 0 to 3 of lane r, or 4 to 7 of lane r - 32. */
        const auto element = [&](uint32_t row, uint32_t column) {
            const uint32_t *lane = in + (warp * 32 + row % 32) * kWords;
            return lane[row / 32 * 4 + column / 2] >> 16 * (column % 2) & 0xffff;
        };
        const auto named = [&](uint32_t lane, uint32_t word) { return in[(warp * 32 + lane) * kWords + word] % 64; };
        for (uint32_t lane = 0; lane < 32; ++lane) {
            for (uint32_t i = 0; i < 4; ++i) {
                Expected *result = out + (warp * 32 + lane) * kWords;
                const uint32_t row = named(8 * i + lane / 4, 8);
                result[i] = exactly(element(row, lane % 4 * 2) | element(row, lane % 4 * 2 + 1) << 16);
                const uint32_t low = named(8 * i + lane % 4 * 2, 9);
                const uint32_t high = named(8 * i + lane % 4 * 2 + 1, 9);
                result[4 + i] = exactly(element(low, lane / 4) | element(high, lane / 4) << 16);
            }
        }
    }
}

/* D = A B + D of each warp, elements by the figures of the manual. */
static void expect_mma(const uint32_t *in, Expected *out, int32_t dtype)
{
    for (uint32_t warp = 0; warp < 4; ++warp) {
        const auto word = [&](uint32_t lane, uint32_t i) { return in[(warp * 32 + lane) * kWords + i]; };
        const auto half = [&](uint32_t bits, uint32_t upper) {
            const auto part = static_cast<uint16_t>(bits >> 16 * upper);
            return dtype_load(dtype, &part, 0);
        };
        /* Element (row, k) of A: lane 4 (row % 8) + k % 8 / 2, register row / 8 + 2 (k / 8). */
        const auto a = [&](uint32_t row, uint32_t k) {
            return half(word(row % 8 * 4 + k % 8 / 2, row / 8 + k / 8 * 2), k % 2);
        };
        const auto b = [&](uint32_t k, uint32_t column) {
            return half(word(column * 4 + k % 8 / 2, 4 + k / 8), k % 2);
        };
        for (uint32_t row = 0; row < 16; ++row) {
            for (uint32_t column = 0; column < 8; ++column) {
                const uint32_t lane = row % 8 * 4 + column / 2;
                const uint32_t i = row / 8 * 2 + column % 2;
                double sum = static_cast<double>(float_of_bits(word(lane, 6 + i)));
                double magnitude = std::fabs(sum);
                for (uint32_t k = 0; k < 16; ++k) {
                    sum += a(row, k) * b(k, column);
                    magnitude += std::fabs(a(row, k) * b(k, column));
                }
                out[(warp * 32 + lane) * kWords + i] = near(sum, magnitude * kSumTolerance);
            }
        }
    }
}

static void expect_exchange(const uint32_t *in, Expected *out)
{
    for (uint32_t thread = 0; thread < kThreads; ++thread) {
        const uint32_t *warp = in + thread / 32 * 32 * kWords;
        uint32_t votes = 0;
        for (uint32_t lane = 0; lane < 32; ++lane) {
            votes |= (warp[lane * kWords] & 1) << lane;
        }
        Expected *mine = out + thread * kWords;
        mine[0] = exactly(votes);
        mine[1] = exactly(1u << 5);
        mine[2] = exactly(warp[in[thread * kWords + 2] % 32 * kWords + 1]);
        mine[3] = exactly(warp[31 * kWords + 3]);
        const uint32_t registers[4] = {thread, 7, 0, kSections};
        for (int i = 0; i < 4; ++i) {
            mine[4 + i] = exactly(registers[i]);
        }
    }
}

static void expect_shared(const uint32_t *in, Expected *out)
{
    for (uint32_t thread = 0; thread < kThreads; ++thread) {
        const auto of = [in](uint32_t other, uint32_t word) { return in[other * kWords + word]; };
        Expected *mine = out + thread * kWords;
        mine[0] = exactly(of(thread ^ 37, 0));
        mine[1] = exactly((of(thread & ~1u, 1) & 0xffff) | of(thread | 1, 1) << 16);
        mine[2] = exactly(of(127 - thread, 3));
        mine[3] = exactly(of(127 - thread, 2));
        for (uint32_t i = 0; i < 4; ++i) {
            mine[4 + i] = exactly(of(thread ^ 64, 4 + i));
        }
    }
}

static void expect_cp_async(const uint32_t *in, Expected *out)
{
    for (uint32_t thread = 0; thread < kThreads; ++thread) {
        const uint32_t *mine = in + thread * kWords;
        unsigned char bytes[16] = {};
        memcpy(bytes, mine, mine[15] % 17);
        for (uint32_t i = 0; i < 4; ++i) {
            uint32_t word;
            memcpy(&word, bytes + 4 * i, 4);
            out[thread * kWords + i] = exactly(word);
            out[thread * kWords + 4 + i] = exactly(in[(thread ^ 1) * kWords + 4 + i]);
        }
    }
}

static void expect_global(const uint32_t *in, Expected *out)
{
    const uint32_t words[8] = {in[0] >> 16 | in[1] << 16, in[3], in[4], in[5], in[6], in[7], in[8], in[9]};
    for (int i = 0; i < 8; ++i) {
        out[i] = exactly(words[i]);
    }
}

static std::vector<Expected> expect(const std::vector<uint32_t> &input)
{
    std::vector<Expected> all(input.size());
    const auto in = [&](uint32_t section) { return input.data() + size_t{section} * kBlockWords; };
    const auto out = [&](uint32_t section) { return all.data() + size_t{section} * kBlockWords; };
    void (*const of_thread[])(const uint32_t *, Expected *) = {expect_convert, expect_packed, expect_scalar,
                                                               expect_approximate};
    for (uint32_t thread = 0; thread < kThreads; ++thread) {
        for (uint32_t section = 0; section < 4; ++section) {
            of_thread[section](in(section) + thread * kWords, out(section) + thread * kWords);
        }
        expect_global(in(10) + thread * kWords, out(10) + thread * kWords);
    }
    expect_ldmatrix(in(4), out(4));
    expect_mma(in(5), out(5), GDPA_DTYPE_BF16);
    expect_mma(in(6), out(6), GDPA_DTYPE_FP16);
    expect_exchange(in(7), out(7));
    expect_shared(in(8), out(8));
    expect_cp_async(in(9), out(9));
    return all;
}

static std::vector<Section> sections()
{
    std::vector<Section> result;
    for (size_t i = 0; i < kSections; ++i) {
        result.push_back({section_names[i], i * kBlockWords, kBlockWords});
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

std::vector<ConformanceCase> conformance_portable()
{
    const size_t words = size_t{kSections} * kBlockWords;
    return {{"portable",
             "portable.cu",
             {},
             80,
             kSections,
             8192,
             1,
             kThreads,
             words,
             words,
             make_input,
             expect,
             sections,
             parameters}};
}

} // namespace emu
