/*
 * What all backward kernels have in common: the constant factors, where a gradient lies, and how two elements of one are written.
 *
 * With P = M f(S) and dS' = M f'(S) dP, S the scaled score, in 16 bits each:
 *
 *     dV = out_scale P^T dO        dQ = scale out_scale dS' K        dK = scale out_scale dS'^T Q
 *
 * The factors are applied once, to the fp32 sums. fp16, whose range is small, takes the factor of dS into dS' where it is smaller than 1,
 * or dS' would overflow where the result does not.
 */
#ifndef GDPA_GRADIENT_CUH
#define GDPA_GRADIENT_CUH

#include "config_default.cuh"
#include "numeric.cuh"
#include "params.h"
#include "ptx/atomic.cuh"
#include "ptx/global_load.cuh"
#include "ptx/global_memory.cuh"

struct GradientFactors {
    float inner; // of dS', before it is rounded; 1 in bf16
    float outer; // of the sums dQ and dK
};

__device__ inline GradientFactors gradient_factors(const gdpa_bwd_params &params)
{
    const float factor = params.scale * params.out_scale;
    //@if fp16
    if (factor < 1.0f && factor > -1.0f) {
        return {factor, 1.0f};
    }
    //@endif
    return {1.0f, factor};
}

__device__ inline uint32_t packed_multiply(uint32_t a, uint32_t b)
{
    return packed_fma(a, b, 0x80008000u); // -0, which leaves the sign of a product of 0
}

//@if out_fp32
using Gradient = float;
//@else
using Gradient = uint16_t;
//@endif

/* Columns of dq_sum. */
constexpr int kSumColumns = (kHeadDim + 15) / 16 * 16;

/*
 * dq_sum holds blocks of 16 rows and 16 columns, [block of rows][heads_q][group of columns], each in the order in which a warp holds its
 * fragments, so that one reduction of a warp goes to 512 bytes in a row: [upper or lower 8 rows][lane][4]. The four of a lane are those of row
 * lane / 4 and columns lane % 4 * 2, the next one, and the same 8 further on.
 */
constexpr int kSumBlock = 16 * 16;

/* First block of rows of a sequence: dense ones have as many as their rows need, jagged ones are counted as in the search of tiles. */
__device__ inline int64_t first_sum_block(const gdpa_bwd_params &params, int32_t batch, int64_t first_row)
{
    return params.cu_seqlens_q != nullptr ? first_row / 16 + batch : batch * ((params.rows_q + 15) / 16);
}

/* What lane 0 adds to in the upper rows of a block, for the first group of columns. */
__device__ inline float *sum_block(const gdpa_bwd_params &params, int64_t block, int32_t head)
{
    return params.dq_sum + (block * params.heads_q + head) * (16 * kSumColumns);
}

/* To four neighbours in dq_sum. */
__device__ inline void add_four(float *address, const float (&values)[4])
{
    if constexpr (kArch >= 90) {
        red_global_add_v4_f32(address, values);
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            red_global_add_f32(address + i, values[i]);
        }
    }
}

/* Two neighbours of a gradient: factor * sum, rounded once; added to what is there with `accumulate`. */
__device__ inline void store_gradients(Gradient *place, float low, float high, float factor, bool accumulate)
{
    low = scale_output(low, factor);
    high = scale_output(high, factor);
    //@if out_fp32
    if (accumulate) {
        low += ld_global_f32(place);
        high += ld_global_f32(place + 1);
    }
    //@if unaligned
    st_global_b32(place, float_as_bits(low));
    st_global_b32(place + 1, float_as_bits(high));
    //@else
    st_global_v2_b32(place, float_as_bits(low), float_as_bits(high));
    //@endif
    //@else
    const uint32_t packed = pack_output(low, high);
    //@if unaligned
    st_global_b16(place, static_cast<uint16_t>(packed));
    st_global_b16(place + 1, static_cast<uint16_t>(packed >> 16));
    //@else
    st_global_b32(place, packed);
    //@endif
    //@endif
}

#endif
