/*
 * Host bodies of templates/ptx/stmatrix.cuh.
 */
#ifndef GDPA_EMU_PTX_STMATRIX_HPP
#define GDPA_EMU_PTX_STMATRIX_HPP

#include "tests/emu/device.hpp"

inline void stmatrix_x4(uint32_t address, uint32_t m0, uint32_t m1, uint32_t m2, uint32_t m3)
{
    emu::store_matrices("stmatrix_x4", address, m0, m1, m2, m3, false);
}

#endif
