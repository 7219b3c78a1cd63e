/*
 * Host bodies of templates/ptx/ldmatrix.cuh.
 */
#ifndef GDPA_EMU_PTX_LDMATRIX_HPP
#define GDPA_EMU_PTX_LDMATRIX_HPP

#include "tests/emu/device.hpp"

inline void ldmatrix_x4(uint32_t (&matrix)[4], uint32_t address)
{
    emu::load_matrices("ldmatrix_x4", matrix, address, false);
}

inline void ldmatrix_x4_trans(uint32_t (&matrix)[4], uint32_t address)
{
    emu::load_matrices("ldmatrix_x4_trans", matrix, address, true);
}

#endif
