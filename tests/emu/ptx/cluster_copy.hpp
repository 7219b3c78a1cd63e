/*
 * Host bodies of templates/ptx/cluster_copy.cuh.
 */
#ifndef GDPA_EMU_PTX_CLUSTER_COPY_HPP
#define GDPA_EMU_PTX_CLUSTER_COPY_HPP

#include "tests/emu/device.hpp"

inline void cp_async_bulk_to_cluster(uint32_t to, uint32_t from, uint32_t bytes, uint32_t barrier)
{
    emu::bulk_copy_to_cluster("cp_async_bulk_to_cluster", to, from, bytes, barrier);
}

#endif
