/*
 * The five products of a step of the Hopper backward, of one consumer warpgroup; who owns what, and the named barriers.
 */
#ifndef GDPA_BWD_PRODUCTS_SM90_CUH
#define GDPA_BWD_PRODUCTS_SM90_CUH

#include "bwd_work_sm90.cuh"
#include "config_default.cuh"
#include "params.h"
//@if paired
#include "ptx/cluster.cuh"
//@endif
#include "ptx/ldmatrix.cuh"
#include "ptx/special_registers.cuh"
#include "ptx/wgmma.cuh"
#include "wgmma_depth.cuh"
#include "wgmma_queries.cuh"
#include "wgmma_share.cuh"
#include "wgmma_values.cuh"

constexpr int kScores = kBlockM / 2;          // a thread's share of 64 keys x kBlockM queries
constexpr int kKeySums = kDepthColumns / 2;   // of dK, 64 x kDepthColumns (head_dim rounded up to a width of wgmma)
constexpr int kValueSums = kValueColumns / 2; // of dV
constexpr int kQuerySums = kShareColumns / 2; // of dQ, kBlockM x kShareColumns
constexpr int kShareBlocks = kShareColumns / 16;
constexpr int kDepthSteps = (kHeadDim + 15) / 16;
constexpr int kValueSteps = (kHeadDimV + 15) / 16;
constexpr int kQuerySteps = kBlockM / 16;
constexpr int kKeySteps = kBlockN / 16;

/* The sums of dK and dV of one of the blocks that share a tile of keys, in words: of each warp a piece. */
constexpr int kRecordOfWarp = 32 * (kKeySums + kValueSums);
constexpr int kRecord = kConsumers * 4 * kRecordOfWarp;

/*
 * Where there are registers for it, a warpgroup holds its rows of V, as left operands of dP: products with both operands in shared memory take
 * all of its bandwidth.
 */
constexpr bool kHoldsValues = kBlockM == 64 && kKeySums + kValueSums <= 96;
constexpr int kHeldSteps = kHoldsValues ? kValueSteps : 0;

struct Values {
    uint32_t fragments[kHoldsValues ? kValueSteps : 1][4];
};

struct Products {
    Shared shared;
    const gdpa_bwd_params *params;
    //@if whole
    const gdpa_tensor_map *dq_map;
    //@endif
    uint32_t number; // of the warpgroup, from 0

    __device__ uint32_t lane() const
    {
        return tid_x() % 32;
    }

    /* First of the warp's 16 keys in the tile. */
    __device__ uint32_t warp_key() const
    {
        return number * 64 + tid_x() / 32 % 4 * 16;
    }

    /* A tile that only products read: once they are waited for, they have ended for the whole warpgroup. */
    __device__ void release_tile(uint32_t empty_barrier) const
    {
        if (tid_x() % kWarpgroupThreads == 0) {
            mbarrier_arrive(empty_barrier);
        }
    }

    /* 16 columns of a tile whose rows have kRows x 128 bytes a chunk, as a distance of descriptors. */
    template <int kRows> __device__ static constexpr uint64_t along_columns(int step)
    {
        return (step / 4 * (kRows * 128) + step % 4 * 32) / 16;
    }

    /* S = K Q^T, 64 keys by kBlockM queries. */
    __device__ void multiply_scores(float (&scores)[kScores], uint32_t queries) const
    {
        const uint64_t a = wgmma_descriptor_128b(shared.keys() + number * (64 * 128), 16, 1024);
        const uint64_t b = wgmma_descriptor_128b(queries, 16, 1024);
#pragma unroll
        for (int step = 0; step < kDepthSteps; ++step) {
            wgmma_m64k16_ss<0, 0>(scores, a + along_columns<kBlockN>(step), b + along_columns<kBlockM>(step), step > 0);
        }
    }

    /* The warpgroup's rows of V, where registers hold them. */
    __device__ void load_values(Values &values) const
    {
        const uint32_t row = warp_key() + lane() % 16;
#pragma unroll
        for (int step = 0; step < kHeldSteps; ++step) {
            const uint32_t unit = step % 4 * 2 + lane() / 16;
            ldmatrix_x4(values.fragments[step],
                        shared.values() + step / 4 * kKeyChunkBytes + row * 128 + ((unit ^ row % 8) << 4));
        }
    }

    /* dP = V dO^T */
    __device__ void multiply_outputs(float (&slopes)[kScores], const Values &values, uint32_t outputs) const
    {
        const uint64_t a = wgmma_descriptor_128b(shared.values() + number * (64 * 128), 16, 1024);
        const uint64_t b = wgmma_descriptor_128b(outputs, 16, 1024);
#pragma unroll
        for (int step = 0; step < kValueSteps; ++step) {
            if constexpr (kHoldsValues) {
                wgmma_m64k16_rs<0>(slopes, values.fragments[step], b + along_columns<kBlockM>(step), step > 0);
            } else {
                wgmma_m64k16_ss<0, 0>(slopes, a + along_columns<kBlockN>(step), b + along_columns<kBlockM>(step),
                                      step > 0);
            }
        }
    }

    /* dV += P dO, or dK += dS Q: the right operand is read along its rows. */
    template <int kSums>
    __device__ static void add_products(float (&sums)[kSums], const uint32_t (&left)[kQuerySteps][4], uint32_t right,
                                        bool accumulate)
    {
        const uint64_t b = wgmma_descriptor_128b(right, kQueryChunkBytes, 1024);
#pragma unroll
        for (int step = 0; step < kQuerySteps; ++step) {
            wgmma_m64k16_rs<1>(sums, left[step], b + step * (16 * 128) / 16, step > 0 || accumulate);
        }
    }

    /* The columns of K that this warpgroup makes of dQ. */
    __device__ uint32_t share_of_keys() const
    {
        const uint32_t columns = first_share_column();
        return shared.keys() + columns / kChunkColumns * kKeyChunkBytes + columns % kChunkColumns * 2;
    }

    /* This warpgroup's rows or columns of dQ = dS^T K, or dQ +=, over the keys of both. */
    __device__ void multiply_keys(float (&sums)[kQuerySums], uint32_t scores, uint32_t keys, bool accumulate) const
    {
        const uint64_t a = wgmma_descriptor_128b(scores + first_share_row() * (kBlockN * 2), 16, 1024);
        const uint64_t b = wgmma_descriptor_128b(keys, kKeyChunkBytes, 1024);
#pragma unroll
        for (int step = 0; step < kKeySteps; ++step) {
            wgmma_m64k16_ss<1, 1>(sums, a + step * (16 * 128) / 16, b + step * (16 * 128) / 16, step > 0 || accumulate);
        }
    }

    /* Of the part of dQ that is this warpgroup's. */
    __device__ uint32_t first_share_row() const
    {
        return kSharesRows ? number * 64 : 0;
    }

    __device__ uint32_t first_share_column() const
    {
        //@if paired
        return cluster_ctarank() * kShareColumns;
        //@else
        return kSharesRows ? 0 : number * kShareColumns;
        //@endif
    }

    /* In the query tile, the upper one of the two rows that the thread has of dQ. */
    __device__ int32_t share_row() const
    {
        return static_cast<int32_t>(first_share_row() + tid_x() % kWarpgroupThreads / 32 * 16 + lane() / 4);
    }

    /* Named barriers, 0 being the block's: one for each warpgroup itself, */
    __device__ uint32_t own_barrier() const
    {
        return 1 + number;
    }

    /* that dS of a step of warpgroup w is there, */
    __device__ static uint32_t scores_barrier(uint32_t warpgroup, uint32_t step)
    {
        return 1 + kConsumers + warpgroup * kScoreSlots + step % kScoreSlots;
    }

    /* and that w has made its part of the dQ of a step. */
    __device__ static uint32_t read_barrier(uint32_t warpgroup, uint32_t step)
    {
        return 1 + kConsumers + kConsumers * kScoreSlots + warpgroup * kScoreSlots + step % kScoreSlots;
    }
};

#endif
