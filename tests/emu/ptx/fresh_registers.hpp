/*
 * Host bodies of templates/ptx/fresh_registers.cuh.
 */
#ifndef GDPA_EMU_PTX_FRESH_REGISTERS_HPP
#define GDPA_EMU_PTX_FRESH_REGISTERS_HPP

#include "tests/emu/device.hpp"

inline uint32_t fresh_tid_x()
{
    return emu::thread_index();
}

#endif
