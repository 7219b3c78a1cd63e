/*
 * Host bodies of templates/ptx/griddepcontrol.cuh.
 */
#ifndef GDPA_EMU_PTX_GRIDDEPCONTROL_HPP
#define GDPA_EMU_PTX_GRIDDEPCONTROL_HPP

#include "tests/emu/device.hpp"

/* One launch at a time is emulated: the one before has ended. */
inline void griddepcontrol_wait()
{
}

inline void griddepcontrol_launch_dependents()
{
}

#endif
