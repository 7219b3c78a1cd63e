/*
 * In front of the packed pairs on the host: the instructions of host_activation.hpp, and the memory of kernels, which they do not touch.
 */
#ifndef GDPA_TESTS_TEMPLATES_HOST_PACKED_PAIR_HPP
#define GDPA_TESTS_TEMPLATES_HOST_PACKED_PAIR_HPP

#include "tests/templates/host_activation.hpp"
#include "tests/templates/host_packed_pair.h"

#include "tests/emu/ptx/fma_rz.hpp"
#include "tests/emu/ptx/prmt.hpp"

void red_global_add_f32(float *address, float value);
void red_global_add_v4_f32(float *address, const float (&value)[4]);
float ld_global_f32(const float *address);
void st_global_b16(void *address, uint16_t value);
void st_global_b32(void *address, uint32_t value);
void st_global_v2_b32(void *address, uint32_t low, uint32_t high);

#endif
