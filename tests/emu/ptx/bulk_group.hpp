/*
 * Host bodies of templates/ptx/bulk_group.cuh.
 */
#ifndef GDPA_EMU_PTX_BULK_GROUP_HPP
#define GDPA_EMU_PTX_BULK_GROUP_HPP

#include "tests/emu/device.hpp"

inline void cp_async_bulk_commit_group()
{
    emu::bulk_commit_group("cp_async_bulk_commit_group");
}

template <int kPending> inline void cp_async_bulk_wait_group()
{
    emu::bulk_wait_group("cp_async_bulk_wait_group", kPending, false);
}

template <int kPending> inline void cp_async_bulk_wait_group_read()
{
    emu::bulk_wait_group("cp_async_bulk_wait_group_read", kPending, true);
}

#endif
