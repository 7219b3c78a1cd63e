/*
 * Host bodies of templates/ptx/setmaxnreg.cuh.
 */
#ifndef GDPA_EMU_PTX_SETMAXNREG_HPP
#define GDPA_EMU_PTX_SETMAXNREG_HPP

#include "tests/emu/device.hpp"

template <int kRegisters> inline void setmaxnreg_inc()
{
    emu::set_registers("setmaxnreg_inc", kRegisters, true);
}

template <int kRegisters> inline void setmaxnreg_dec()
{
    emu::set_registers("setmaxnreg_dec", kRegisters, false);
}

#endif
