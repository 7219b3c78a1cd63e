/*
 * Host bodies of templates/ptx/fence.cuh.
 */
#ifndef GDPA_EMU_PTX_FENCE_HPP
#define GDPA_EMU_PTX_FENCE_HPP

#include "tests/emu/device.hpp"

inline void fence_proxy_async_shared()
{
    emu::fence_proxy_async("fence_proxy_async_shared");
}

#endif
