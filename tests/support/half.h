/*
 * bf16 and fp16 on the host: bit patterns to numbers and back, rounding to nearest even as every CUDA cast does.
 *
 * From double in one rounding step, so that a reference never rounds twice. Overflow gives infinity, NaN stays NaN,
 * subnormals are kept. dtype arguments are gdpa_dtype values.
 */
#ifndef GDPA_TESTS_SUPPORT_HALF_H
#define GDPA_TESTS_SUPPORT_HALF_H

#include <stddef.h>
#include <stdint.h>

uint16_t bf16_from_double(double value);
double bf16_to_double(uint16_t bits);
uint16_t fp16_from_double(double value);
double fp16_to_double(uint16_t bits);

/* Bytes of an element; 0 for a number that is no dtype. */
size_t dtype_size(int32_t dtype);

/* "bf16"; "?" for a number that is no dtype. */
const char *dtype_name(int32_t dtype);

/* The nearest number that the type can hold, as a double. */
double dtype_round(int32_t dtype, double value);

/* One unit in the last place of the type at the magnitude of value (the smallest normal one for smaller values). */
double dtype_ulp(int32_t dtype, double value);

/* Element `index` of an array of the type. */
double dtype_load(int32_t dtype, const void *data, int64_t index);
void dtype_store(int32_t dtype, void *data, int64_t index, double value);

#endif
