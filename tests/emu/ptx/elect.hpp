/*
 * Host bodies of templates/ptx/elect.cuh.
 */
#ifndef GDPA_EMU_PTX_ELECT_HPP
#define GDPA_EMU_PTX_ELECT_HPP

#include "tests/emu/device.hpp"

inline bool elect_sync()
{
    return emu::elect("elect_sync");
}

#endif
