/*
 * What the host bodies of the wrappers (tests/emu/ptx/) call: one function an instruction or family of instructions. `name` is the
 * wrapper's name, for reports.
 */
#ifndef GDPA_EMU_DEVICE_HPP
#define GDPA_EMU_DEVICE_HPP

#include <cstdint>

namespace emu
{

/* Special registers. */
uint32_t thread_index();
uint32_t block_index_x();
uint32_t block_index_y();
uint32_t grid_x();

/* Generic proxy, one thread. */
uint32_t shared_base();
void load_shared(const char *name, uint32_t address, void *value, uint32_t bytes);
void store_shared(const char *name, uint32_t address, const void *value, uint32_t bytes);
void load_global(const char *name, const void *address, void *value, uint32_t bytes);
void store_global(const char *name, void *address, const void *value, uint32_t bytes);

/* cp.async. */
void copy_async(const char *name, uint32_t shared, const void *global, uint32_t bytes, uint32_t source_bytes);
void copy_async_commit(const char *name);
void copy_async_wait(const char *name, uint32_t pending);

/* Whole warps. */
void load_matrices(const char *name, uint32_t (&matrices)[4], uint32_t address, bool transposed);
void multiply_16x8x16(const char *name, float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, bool bf16);
uint32_t ballot(const char *name, bool predicate);
uint32_t shuffle(const char *name, uint32_t value, uint32_t source_lane);
void sync_warp(const char *name);

/* bar.sync and bar.arrive. threads 0: all of the block. */
void barrier(const char *name, uint32_t number, uint32_t threads, bool wait);

/* mbarrier. Addresses may be of another block of the cluster where PTX allows it. */
void mbarrier_init(const char *name, uint32_t address, uint32_t count);
void mbarrier_invalidate(const char *name, uint32_t address);
void mbarrier_fence_init(const char *name);
void mbarrier_arrive(const char *name, uint32_t address);
void mbarrier_expect_tx(const char *name, uint32_t address, uint32_t bytes);
void mbarrier_arrive_expect_tx(const char *name, uint32_t address, uint32_t bytes);
void mbarrier_wait_parity(const char *name, uint32_t address, uint32_t parity);

/* The bulk copy engine. mask: ranks of a multicast, 0 without. Coordinates: `rank` of them, fastest dimension first. */
void bulk_load(const char *name, uint32_t shared, const void *global, uint32_t bytes, uint32_t mbarrier, uint32_t mask);
void bulk_store(const char *name, void *global, uint32_t shared, uint32_t bytes, bool add_f32);
void bulk_copy_to_cluster(const char *name, uint32_t to, uint32_t from, uint32_t bytes, uint32_t mbarrier);
void tensor_load(const char *name, uint32_t rank, uint32_t shared, const void *map, uint32_t mbarrier,
                 const int32_t *coordinates, uint32_t mask);
void tensor_store(const char *name, uint32_t rank, const void *map, uint32_t shared, const int32_t *coordinates,
                  bool add_f32);
void bulk_commit_group(const char *name);
void bulk_wait_group(const char *name, uint32_t pending, bool only_reads);
void fence_proxy_async(const char *name);

/* wgmma, whole warpgroups. d: columns / 2 registers; a: 4 registers; `mn_major`: the transpose flags. */
enum class WgmmaType { Bf16, Fp16, E4m3 };
void wgmma_fence(const char *name);
void wgmma_ss(const char *name, WgmmaType type, uint32_t columns, float *d, uint64_t a, uint64_t b, bool accumulate,
              bool a_mn_major, bool b_mn_major);
void wgmma_rs(const char *name, WgmmaType type, uint32_t columns, float *d, const uint32_t *a, uint64_t b,
              bool accumulate, bool b_mn_major);
void wgmma_commit_group(const char *name);
void wgmma_wait_group(const char *name, uint32_t pending);

/* Other instructions of whole warps. */
void store_matrices(const char *name, uint32_t address, uint32_t m0, uint32_t m1, uint32_t m2, uint32_t m3,
                    bool transposed);
void set_registers(const char *name, uint32_t count, bool increase);
bool elect(const char *name);

/* Clusters. */
uint32_t cluster_rank();
uint32_t cluster_size();
uint32_t map_shared(const char *name, uint32_t address, uint32_t rank);
void cluster_arrive(const char *name);
void cluster_wait(const char *name);

/* Atomic operations on global memory. */
void reduce_add_f32(const char *name, float *address, const float *values, uint32_t count);
uint32_t atomic_add_u32(const char *name, uint32_t *address, uint32_t value);

} // namespace emu

#endif
