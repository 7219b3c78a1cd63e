/*
 * The epilogue of a consumer warpgroup of the Hopper forward: sums -> global memory, scaled and rounded once.
 *
 * 16-bit results go through the warp's own rows of the query tile, which nobody else reads any more. From there the copy engine stores them,
 * asked by a warp of its own (storer_sm90.cuh), so that the consumer may go on; where the sequence ends within the rows of the warpgroup, the
 * warps do it themselves, 16 bytes a lane. fp32 results go straight from the sums.
 */
#ifndef GDPA_EPILOGUE_SM90_CUH
#define GDPA_EPILOGUE_SM90_CUH

#include "config_default.cuh"
#include "numeric.cuh"
#include "params.h"
#include "ptx/fence.cuh"
#include "ptx/global_memory.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/special_registers.cuh"
#include "ptx/stmatrix.cuh"
#include "ptx/warp.cuh"
#include "shared_tile.cuh"
#include "work_sm90.cuh"

constexpr int kOutputs = kValueColumns / 2; // a thread's share of 64 x kValueColumns (head_dim_v rounded up to a width of wgmma)

struct Epilogue {
    Shared shared;
    const gdpa_fwd_params *params;
    uint32_t part;   // which 64 rows of the tile are the warpgroup's
    uint32_t slot;   // of the query tile

    __device__ uint32_t lane() const
    {
        return tid_x() % 32;
    }

    /* Row of the query tile where this thread's warp begins. */
    __device__ uint32_t warp_row() const
    {
        return part * 64 + tid_x() / 32 % 4 * 16;
    }

    /* Where the thread's warp writes: its first row. */
    template <typename Element> __device__ Element *warp_target(uint32_t work) const
    {
        return static_cast<Element *>(params->o) + ld_shared_b64(work + kWorkOffset) + warp_row() * params->o_stride_row;
    }

    /* Rows of the thread's warp that exist, or less than 1. */
    __device__ int32_t warp_valid_rows(uint32_t work) const
    {
        return read_uniform_word(work + kWorkValidRows) - static_cast<int32_t>(warp_row());
    }

    /* Writes the rows that exist, or leaves them to the storer, and gives the query tile back: every thread for itself, once it is done with it. */
    __device__ void store(const float (&output)[kOutputs], uint32_t work, float factor) const
    {
        //@if out_fp32
        const int32_t valid_rows = warp_valid_rows(work);
        float *place = warp_target<float>(work) + lane() / 4 * params->o_stride_row + lane() % 4 * 2;
#pragma unroll
        for (int half = 0; half < 2; ++half, place += 8 * params->o_stride_row) {
            if (static_cast<int32_t>(lane() / 4) + half * 8 < valid_rows) {
#pragma unroll
                for (int n = 0; n < kHeadDimV / 8; ++n) {
                    st_global_v2_b32(place + n * 8, float_as_bits(scale_output(output[4 * n + 2 * half], factor)),
                                     float_as_bits(scale_output(output[4 * n + 2 * half + 1], factor)));
                }
            }
        }
        mbarrier_arrive(shared.queries_empty(slot));
        //@else
        stage(output, factor);
        if (read_uniform_word(work + kWorkValidRows) >= static_cast<int32_t>(part + 1) * 64) {
            fence_proxy_async_shared(); // there is nothing but the staging to wait for
            mbarrier_arrive(shared.outputs_staged(slot));
        } else {
            bar_warp_sync();
            store_existing_rows(work);
        }
        //@endif
    }

    //@if !out_fp32
    /* Of a warpgroup in whose rows the sequence ends. */
    __device__ void store_existing_rows(uint32_t work) const
    {
        const int32_t valid_rows = warp_valid_rows(work);
        // The copy engine writes the next query tile here: a fence orders that behind the loads. It also waits for stores to global memory,
        // so they come after it, where there are registers for a whole share of the output.
        uint16_t *target = warp_target<uint16_t>(work);
        constexpr int kBatches = kOutputLoads > 8 ? 2 : 1;
        constexpr int kBatchLoads = kOutputLoads / kBatches;
        uint32_t words[kBatchLoads][4];
#pragma unroll
        for (int batch = 0; batch < kBatches; ++batch) {
            load_staged(words, batch * kBatchLoads);
            if (batch == kBatches - 1) {
                fence_proxy_async_shared();
                mbarrier_arrive(shared.outputs_staged(slot));
            }
            store_units(words, batch * kBatchLoads, target, valid_rows);
        }
    }

    /*
     * A warp reads its 16 rows back in units of 16 bytes, neighbouring lanes those of a row. Where a whole number of rows goes into a
     * load, all loads of a thread have the same column.
     */
    static constexpr uint32_t kRowUnits = kHeadDimV / 8;
    static constexpr int kOutputLoads = round_up((16 * kRowUnits + 31) / 32, 2);
    static constexpr bool kWholeRows = 32 % kRowUnits == 0;

    __device__ uint32_t unit_row(int load) const
    {
        return kWholeRows ? load * (32 / kRowUnits) + lane() / kRowUnits : (load * 32 + lane()) / kRowUnits;
    }

    __device__ uint32_t unit_column(int load) const
    {
        return kWholeRows ? lane() % kRowUnits : (load * 32 + lane()) % kRowUnits;
    }

    template <int kCount> __device__ void load_staged(uint32_t (&words)[kCount][4], int first) const
    {
        const uint32_t first_place = staging_address(unit_row(0), unit_column(0));
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            const uint32_t rows = (first + i) * (32 / kRowUnits); // from the first load on: rows and lanes share no bit of the address
            const uint32_t place = kWholeRows ? (first_place ^ rows % 8 << 4) + rows * 128
                                              : staging_address(unit_row(first + i), unit_column(first + i));
            if (unit_row(first + i) < 16) {
                ld_shared_v4_b32(words[i], place);
            }
        }
    }

    template <int kCount>
    __device__ void store_units(const uint32_t (&words)[kCount][4], int first, uint16_t *target, int32_t valid_rows) const
    {
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            const uint32_t row = unit_row(first + i);
            if (row < 16 && static_cast<int32_t>(row) < valid_rows) {
                st_global_v4_b32(target + row * params->o_stride_row + unit_column(first + i) * 8, words[i]);
            }
        }
    }

    /* Of a row of the warp's 16. */
    __device__ uint32_t staging_address(uint32_t row, uint32_t unit) const
    {
        return shared.queries(slot) + warp_row() * 128 + unit / 8 * kQueryChunkBytes + row * 128 +
               ((unit % 8 ^ row % 8) << 4);
    }

    /* The warp's 16 rows of the output over its own rows of the query tile, which nobody else reads. */
    __device__ void stage(const float (&output)[kOutputs], float factor) const
    {
        const uint32_t first_place = staging_address(lane() % 16, lane() / 16);
#pragma unroll
        for (int n = 0; n < kOutputs / 8; ++n) { // 16 columns
            uint32_t packed[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                packed[i] = pack_output(scale_output(output[8 * n + 2 * i], factor), scale_output(output[8 * n + 2 * i + 1], factor));
            }
            stmatrix_x4((first_place ^ n % 4 << 5) + n / 4 * kQueryChunkBytes, packed[0], packed[1], packed[2], packed[3]);
        }
        // Boxes are whole chunks: the copy engine reads the columns beyond the sums, too, and the queries may have left nothing there.
#pragma unroll
        for (int n = kOutputs / 8; n < (kValueChunks > kDepthChunks ? kValueChunks * 4 : 0); ++n) {
            stmatrix_x4((first_place ^ n % 4 << 5) + n / 4 * kQueryChunkBytes, 0, 0, 0, 0);
        }
    }
    //@endif
};

#endif
