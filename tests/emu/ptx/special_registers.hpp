/*
 * Host bodies of templates/ptx/special_registers.cuh.
 */
#ifndef GDPA_EMU_PTX_SPECIAL_REGISTERS_HPP
#define GDPA_EMU_PTX_SPECIAL_REGISTERS_HPP

#include "tests/emu/device.hpp"

inline uint32_t tid_x()
{
    return emu::thread_index();
}

inline uint32_t ctaid_x()
{
    return emu::block_index_x();
}

inline uint32_t ctaid_y()
{
    return emu::block_index_y();
}

inline uint32_t nctaid_x()
{
    return emu::grid_x();
}

#endif
