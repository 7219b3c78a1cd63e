/*
 * Host bodies of templates/ptx/cp_async.cuh.
 */
#ifndef GDPA_EMU_PTX_CP_ASYNC_HPP
#define GDPA_EMU_PTX_CP_ASYNC_HPP

#include "tests/emu/device.hpp"

inline void cp_async_cg_16(uint32_t shared, const void *global, uint32_t source_bytes)
{
    emu::copy_async("cp_async_cg_16", shared, global, 16, source_bytes);
}

inline void cp_async_commit_group()
{
    emu::copy_async_commit("cp_async_commit_group");
}

template <int kPending> inline void cp_async_wait_group()
{
    emu::copy_async_wait("cp_async_wait_group", kPending);
}

#endif
