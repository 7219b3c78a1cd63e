/*
 * bf16 and fp16 on the host. See half.h.
 *
 * Rounding works on the bits of the double: the mantissa bits that the type does not have are rounded away to nearest
 * even by an integer addition, whose carry walks into the exponent as it should. Below the smallest normal number the
 * spacing is fixed, and adding and subtracting 1.5 * 2^52 spacings lets the FPU round.
 */
#include "tests/support/half.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "include/gdpajit.h"

/* What sets a binary floating point type apart. */
struct float_format {
    int mantissa_bits;     /* stored ones */
    int smallest_exponent; /* of a normal number */
    int largest_exponent;
};

static const struct float_format bf16_format = {7, -126, 127};
static const struct float_format fp16_format = {10, -14, 15};
static const struct float_format fp32_format = {23, -126, 127};

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double double_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* 2^exponent for normal doubles. */
static double power_of_two(int exponent)
{
    return double_of((uint64_t)(exponent + 1023) << 52);
}

static double round_to_format(const struct float_format *format, double value)
{
    uint64_t bits = bits_of(value);
    int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
    if (exponent == 1024) {
        return value;
    }
    if (exponent < format->smallest_exponent) {
        /* Volatile keeps compilers from folding the two operations, whatever the floating point options are. */
        double spacing = power_of_two(format->smallest_exponent - format->mantissa_bits);
        volatile double shifted = value + spacing * 0x1.8p52;
        return copysign(shifted - spacing * 0x1.8p52, value);
    }
    int dropped = 52 - format->mantissa_bits;
    uint64_t odd = bits >> dropped & 1;
    bits += (UINT64_C(1) << (dropped - 1)) - 1 + odd;
    bits &= ~((UINT64_C(1) << dropped) - 1);
    double rounded = double_of(bits);
    bool fits = fabs(rounded) < power_of_two(format->largest_exponent + 1);
    return fits ? rounded : copysign((double)INFINITY, value);
}

/* The 16-bit pattern of a value that the format holds exactly, of an infinity or of a NaN. */
static uint16_t encode16(const struct float_format *format, double value)
{
    int mantissa_bits = format->mantissa_bits;
    uint64_t bits = bits_of(value);
    uint16_t sign = (uint16_t)(bits >> 63 << 15);
    uint16_t infinity = (uint16_t)(0x7fff >> mantissa_bits << mantissa_bits);
    if (isnan(value)) {
        return (uint16_t)(sign | 0x7fff);
    }
    if (isinf(value)) {
        return (uint16_t)(sign | infinity);
    }
    int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
    if (exponent < format->smallest_exponent) {
        double spacing = power_of_two(format->smallest_exponent - mantissa_bits);
        return (uint16_t)(sign | (uint16_t)(fabs(value) / spacing));
    }
    uint16_t biased = (uint16_t)(exponent - format->smallest_exponent + 1);
    uint16_t mantissa = (uint16_t)(bits >> (52 - mantissa_bits) & ((UINT64_C(1) << mantissa_bits) - 1));
    return (uint16_t)(sign | biased << mantissa_bits | mantissa);
}

uint16_t bf16_from_double(double value)
{
    return encode16(&bf16_format, round_to_format(&bf16_format, value));
}

double bf16_to_double(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return (double)value;
}

uint16_t fp16_from_double(double value)
{
    return encode16(&fp16_format, round_to_format(&fp16_format, value));
}

double fp16_to_double(uint16_t bits)
{
    double sign = bits & 0x8000 ? -1 : 1;
    int exponent = bits >> 10 & 0x1f;
    int mantissa = bits & 0x3ff;
    if (exponent == 0x1f) {
        return mantissa ? (double)NAN : sign * (double)INFINITY;
    }
    if (exponent == 0) {
        return sign * mantissa * 0x1p-24;
    }
    return sign * (0x400 | mantissa) * power_of_two(exponent - 25);
}

static const struct float_format *format_of(int32_t dtype)
{
    switch (dtype) {
    case GDPA_DTYPE_BF16:
        return &bf16_format;
    case GDPA_DTYPE_FP16:
        return &fp16_format;
    default:
        return &fp32_format;
    }
}

size_t dtype_size(int32_t dtype)
{
    switch (dtype) {
#define DTYPE(suffix, number, name, aliases, bytes, is_input)                                                          \
    case number:                                                                                                       \
        return bytes;
#include "gen/dtypes.def"
#undef DTYPE
    default:
        return 0;
    }
}

const char *dtype_name(int32_t dtype)
{
    switch (dtype) {
#define DTYPE(suffix, number, name, aliases, bytes, is_input)                                                          \
    case number:                                                                                                       \
        return name;
#include "gen/dtypes.def"
#undef DTYPE
    default:
        return "?";
    }
}

double dtype_round(int32_t dtype, double value)
{
    return round_to_format(format_of(dtype), value);
}

double dtype_ulp(int32_t dtype, double value)
{
    const struct float_format *format = format_of(dtype);
    int exponent = value == 0 || !isfinite(value) ? format->smallest_exponent : ilogb(value);
    if (exponent < format->smallest_exponent) {
        exponent = format->smallest_exponent;
    }
    return power_of_two(exponent - format->mantissa_bits);
}

double dtype_load(int32_t dtype, const void *data, int64_t index)
{
    switch (dtype) {
    case GDPA_DTYPE_BF16:
        return bf16_to_double(((const uint16_t *)data)[index]);
    case GDPA_DTYPE_FP16:
        return fp16_to_double(((const uint16_t *)data)[index]);
    default:
        return (double)((const float *)data)[index];
    }
}

void dtype_store(int32_t dtype, void *data, int64_t index, double value)
{
    switch (dtype) {
    case GDPA_DTYPE_BF16:
        ((uint16_t *)data)[index] = bf16_from_double(value);
        break;
    case GDPA_DTYPE_FP16:
        ((uint16_t *)data)[index] = fp16_from_double(value);
        break;
    default:
        ((float *)data)[index] = (float)value;
        break;
    }
}
