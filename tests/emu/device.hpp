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

} // namespace emu

#endif
