/*
 * Host bodies of templates/ptx/cluster.cuh.
 */
#ifndef GDPA_EMU_PTX_CLUSTER_HPP
#define GDPA_EMU_PTX_CLUSTER_HPP

#include "tests/emu/device.hpp"

inline uint32_t cluster_ctarank()
{
    return emu::cluster_rank();
}

inline uint32_t cluster_nctarank()
{
    return emu::cluster_size();
}

inline uint32_t mapa_shared_cluster(uint32_t address, uint32_t rank)
{
    return emu::map_shared("mapa_shared_cluster", address, rank);
}

inline void barrier_cluster_arrive()
{
    emu::cluster_arrive("barrier_cluster_arrive");
}

inline void barrier_cluster_wait()
{
    emu::cluster_wait("barrier_cluster_wait");
}

inline void mbarrier_arrive_cluster(uint32_t barrier)
{
    emu::mbarrier_arrive("mbarrier_arrive_cluster", barrier);
}

inline void mbarrier_wait_parity_cluster(uint32_t barrier, uint32_t parity)
{
    emu::mbarrier_wait_parity("mbarrier_wait_parity_cluster", barrier, parity);
}

#endif
