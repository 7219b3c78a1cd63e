/*
 * Host bodies of templates/ptx/stmatrix_trans.cuh.
 */
#ifndef GDPA_EMU_PTX_STMATRIX_TRANS_HPP
#define GDPA_EMU_PTX_STMATRIX_TRANS_HPP

#include "tests/emu/device.hpp"

inline void stmatrix_x4_trans(uint32_t address, uint32_t m0, uint32_t m1, uint32_t m2, uint32_t m3)
{
    emu::store_matrices("stmatrix_x4_trans", address, m0, m1, m2, m3, true);
}

#endif
