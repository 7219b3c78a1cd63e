/*
 * The number formats of the tensor cores, bit by bit: bf16, fp16 and e4m3, to fp32 and back with round to nearest even.
 */
#ifndef GDPA_EMU_FLOAT_FORMATS_HPP
#define GDPA_EMU_FLOAT_FORMATS_HPP

#include <cmath>
#include <cstdint>
#include <cstring>

namespace emu
{

inline uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

inline float bf16_to_float(uint16_t bits)
{
    return float_of(static_cast<uint32_t>(bits) << 16);
}

inline float fp16_to_float(uint16_t bits)
{
    const uint32_t sign = (bits & 0x8000u) << 16;
    const uint32_t exponent = bits >> 10 & 0x1f;
    const uint32_t fraction = bits & 0x3ff;
    if (exponent == 0x1f) {
        return float_of(sign | 0x7f800000u | fraction << 13);
    }
    if (exponent == 0) {
        const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
        return sign != 0 ? -magnitude : magnitude;
    }
    return float_of(sign | (exponent + 112) << 23 | fraction << 13);
}

/* 4 exponent and 3 fraction bits; no infinity, NaN is 0x7f and 0xff. */
inline float e4m3_to_float(uint8_t bits)
{
    const uint32_t exponent = bits >> 3 & 0xf;
    const uint32_t fraction = bits & 7;
    float magnitude = exponent == 0 ? static_cast<float>(fraction) * 0x1p-9f
                                    : std::ldexp(static_cast<float>(8 + fraction), static_cast<int>(exponent) - 10);
    if (exponent == 0xf && fraction == 7) {
        magnitude = float_of(0x7fffffffu);
    }
    return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

/*
 * A double rounded to a format of `fraction_bits` fraction bits and smallest exponent `min_exponent`, to nearest even, as the
 * integer magnitude in units of the last place, with the exponent of that place. Exact for every finite value.
 */
inline double round_to_format(double value, int fraction_bits, int min_exponent)
{
    if (value == 0 || !std::isfinite(value)) {
        return value;
    }
    int exponent;
    std::frexp(value, &exponent); // |value| in [0.5, 1) * 2^exponent
    int place = exponent - 1 - fraction_bits;
    if (place < min_exponent - fraction_bits) {
        place = min_exponent - fraction_bits;
    }
    return std::ldexp(std::nearbyint(std::ldexp(value, -place)), place);
}

/* NaN becomes the one NaN that the hardware makes. */
inline uint16_t double_to_bf16(double value)
{
    if (std::isnan(value)) {
        return 0x7fff;
    }
    const double rounded = round_to_format(value, 7, -126);
    const float narrow = std::fabs(rounded) > 0x1.fep127 ? std::copysign(INFINITY, static_cast<float>(value))
                                                         : static_cast<float>(rounded);
    return static_cast<uint16_t>(bits_of(narrow) >> 16);
}

inline uint16_t float_to_bf16(float value)
{
    const uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return 0x7fff;
    }
    return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

inline uint16_t double_to_fp16(double value)
{
    if (std::isnan(value)) {
        return 0x7fff;
    }
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    const double magnitude = std::fabs(round_to_format(value, 10, -14));
    if (magnitude > 65504.0) {
        return static_cast<uint16_t>(sign | 0x7c00);
    }
    if (magnitude < 0x1p-14) {
        return static_cast<uint16_t>(sign | static_cast<uint16_t>(magnitude * 0x1p24));
    }
    const uint32_t bits = bits_of(static_cast<float>(magnitude));
    return static_cast<uint16_t>(sign | ((bits >> 23) - 112) << 10 | (bits >> 13 & 0x3ff));
}

inline uint16_t float_to_fp16(float value)
{
    return double_to_fp16(static_cast<double>(value));
}

/*
 * a * b + c of 16-bit operands rounded once to odd in double: the later rounding to 16 bits then is the only one that counts.
 */
inline double fused_round_to_odd(double a, double b, double c)
{
    const double product = a * b; // exact: 11 bits each
    const double sum = product + c;
    if (!std::isfinite(sum)) {
        return sum;
    }
    const double of_product = sum - c;
    const double error = (product - of_product) + (c - (sum - of_product));
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    if (error != 0 && (bits & 1) == 0) {
        bits += (error > 0) == (sum > 0) ? 1 : UINT64_MAX;
    }
    double odd;
    memcpy(&odd, &bits, sizeof odd);
    return odd;
}

} // namespace emu

#endif
