/*
 * Made by libgdpajit 0.1.0. The kernel is at the end, what it calls before it.
 *
 * spec       fwd head_dim=64 dtype=bf16 activation=relu causal layout_q=jagged layout_k=jagged schedule=dynamic arch=sm_90a
 * kernel     gdpa_fwd_sm90_d64_bf16_relu_causal_jqjk_dynamic_f906d2ab
 * generator  (this version)
 * plan       sm90 block_m=192 block_n=128 slice_n=64 warps=16 threads=512 stages=2 q_in_registers=1 min_blocks=1 smem_bytes=114960 query_stages=2 value_columns=64 producer_registers=32 consumer_registers=160
 * again      gdpa-jit show source "fwd head_dim=64 dtype=bf16 activation=relu causal layout_q=jagged layout_k=jagged schedule=dynamic arch=sm_90a"
 */

// ---- templates/config_default.cuh, with the values of this kernel
constexpr int kArch = 90;               // compute capability * 10
constexpr int kHeadDim = 64;            // columns of q and k
constexpr int kHeadDimV = 64;           // columns of v and o
constexpr int kWindowLeft = -1;         // keys to the left of the aligned one; -1: unbounded
constexpr int kWindowRight = 0;         // keys to the right of it; -1: unbounded
constexpr int kBlockM = 192;            // query rows a block
constexpr int kBlockN = 128;            // keys a tile
constexpr int kSliceN = 64;             // keys that are activated and multiplied at a time
constexpr int kWarps = 16;              // warps a block
constexpr int kThreads = 512;           // threads a block
constexpr int kStages = 2;              // key and value tiles in shared memory at a time
constexpr int kQueryStages = 2;         // query tiles in shared memory at a time
constexpr int kValueColumns = 64;       // columns of the output in registers
constexpr int kProducerRegisters = 32;  // of a thread that copies
constexpr int kConsumerRegisters = 160; // of a thread that computes
constexpr int kSmemBytes = 114960;      // dynamic shared memory of a block

// ---- templates/types.cuh
/*
 * Fixed-width integer names, those of a 64-bit Linux host: NVRTC compiles the generated source with no header at all.
 */

using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long;
using uint64_t = unsigned long;

// ---- templates/ptx/convert.cuh
/*
 * Conversions between fp32 and 16-bit types, round to nearest even. PTX ISA, "cvt".
 *
 * Packed results have `low` in the lower half. Values beyond the largest finite fp16 become infinities.
 */

__device__ inline uint32_t cvt_rn_bf16x2_f32(float low, float high)
{
    uint32_t packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

/* max(x, 0) on the way; NaN stays NaN. */
__device__ inline uint32_t cvt_rn_relu_bf16x2_f32(float low, float high)
{
    uint32_t packed;
    asm("cvt.rn.relu.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

__device__ inline uint32_t cvt_rn_f16x2_f32(float low, float high)
{
    uint32_t packed;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

__device__ inline uint32_t cvt_rn_relu_f16x2_f32(float low, float high)
{
    uint32_t packed;
    asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

__device__ inline float cvt_f32_f16(uint16_t value)
{
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value));
    return wide;
}

/* The bits of an fp32 as they are. PTX ISA, "mov.b32". */
__device__ inline uint32_t float_as_bits(float value)
{
    uint32_t bits;
    asm("mov.b32 %0, %1;" : "=r"(bits) : "f"(value));
    return bits;
}

__device__ inline float bits_as_float(uint32_t bits)
{
    float value;
    asm("mov.b32 %0, %1;" : "=f"(value) : "r"(bits));
    return value;
}

// ---- templates/ptx/math.cuh
/*
 * Scalar fp32 arithmetic that must be one given instruction, and the special function unit. PTX ISA, "Floating Point
 * Instructions"; the error bounds are the manual's. Plain +, - and * are written as such in the templates.
 */

__device__ inline float fma_rn_f32(float a, float b, float c)
{
    float d;
    asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(d) : "f"(a), "f"(b), "f"(c));
    return d;
}

/* a * b + c clamped to [0, 1]; NaN gives 0. */
__device__ inline float fma_rn_sat_f32(float a, float b, float c)
{
    float d;
    asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(d) : "f"(a), "f"(b), "f"(c));
    return d;
}

__device__ inline float abs_f32(float a)
{
    float d;
    asm("abs.f32 %0, %1;" : "=f"(d) : "f"(a));
    return d;
}

/* NaN in one operand gives the other one. */
__device__ inline float max_f32(float a, float b)
{
    float d;
    asm("max.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
}

/* NaN in any operand gives NaN. */
__device__ inline float max_nan_f32(float a, float b)
{
    float d;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
}

__device__ inline float min_nan_f32(float a, float b)
{
    float d;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
}

/* 2^a; relative error 2^-22; subnormal inputs and results are 0. */
__device__ inline float ex2_approx_ftz_f32(float a)
{
    float d;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(d) : "f"(a));
    return d;
}

/* log2 a; absolute error 2^-22 for a in [0.5, 2], relative elsewhere. */
__device__ inline float lg2_approx_ftz_f32(float a)
{
    float d;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(d) : "f"(a));
    return d;
}

/* 1 / a within 1 ulp; subnormal inputs and results are 0. */
__device__ inline float rcp_approx_ftz_f32(float a)
{
    float d;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(d) : "f"(a));
    return d;
}

/* tanh a; relative error 2^-11 (sm_75 and later). */
__device__ inline float tanh_approx_f32(float a)
{
    float d;
    asm("tanh.approx.f32 %0, %1;" : "=f"(d) : "f"(a));
    return d;
}

// ---- templates/ptx/packed_math.cuh
/*
 * Arithmetic on two 16-bit floats in one register. PTX ISA, "Half Precision Floating Point Instructions" (bf16x2 forms of
 * fma need sm_80, of mul sm_90: products are written as fma with -0).
 */

__device__ inline uint32_t fma_rn_bf16x2(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t d;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

__device__ inline uint32_t fma_rn_f16x2(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t d;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

/* Absolute error 2^-8 (sm_90 and later). */
__device__ inline uint32_t tanh_approx_bf16x2(uint32_t a)
{
    uint32_t d;
    asm("tanh.approx.bf16x2 %0, %1;" : "=r"(d) : "r"(a));
    return d;
}

/* Absolute error 2^-10.987 (sm_75 and later). */
__device__ inline uint32_t tanh_approx_f16x2(uint32_t a)
{
    uint32_t d;
    asm("tanh.approx.f16x2 %0, %1;" : "=r"(d) : "r"(a));
    return d;
}

// ---- templates/numeric.cuh
/*
 * The element types as the kernel sees them: two 16-bit elements in a register, lower index in the lower half.
 */

__device__ inline uint32_t pack_input(float low, float high)
{
    return cvt_rn_bf16x2_f32(low, high);
}

__device__ inline uint32_t pack_input_relu(float low, float high)
{
    return cvt_rn_relu_bf16x2_f32(low, high);
}

__device__ inline float unpack_input_low(uint32_t packed)
{
    return bits_as_float(packed << 16);
}

__device__ inline float unpack_input_high(uint32_t packed)
{
    return bits_as_float(packed & 0xffff0000u);
}

__device__ inline uint32_t packed_fma(uint32_t a, uint32_t b, uint32_t c)
{
    return fma_rn_bf16x2(a, b, c);
}

/* Before sm_90 there is no bf16 tanh: each half takes the way through fp32. */
__device__ inline uint32_t packed_tanh(uint32_t a)
{
    if constexpr (kArch >= 90) {
        return tanh_approx_bf16x2(a);
    } else {
        return pack_input(tanh_approx_f32(unpack_input_low(a)), tanh_approx_f32(unpack_input_high(a)));
    }
}

__device__ inline uint32_t packed_constant(float value)
{
    return pack_input(value, value);
}

/* The final factor. Adding +0 makes the empty sum +0 whatever the sign of the factor is. */
__device__ inline float scale_output(float sum, float factor)
{
    return fma_rn_f32(sum, factor, 0.0f);
}

__device__ inline uint32_t pack_output(float low, float high)
{
    return cvt_rn_bf16x2_f32(low, high);
}

// ---- templates/activation/relu.cuh
/*
 * f(x) = max(x, 0), f'(x) = x > 0. Exact; no operation, it rides on the packing instruction.
 */

__device__ inline float activation_value(float x, float param)
{
    return max_nan_f32(x, 0.0f);
}

__device__ inline float activation_derivative(float x, float param)
{
    return x > 0.0f ? 1.0f : 0.0f;
}

struct ActivationConstants {
    float scale;
    float epilogue;
    float turn; // -1 where the scale is negative, else 1
};

/* relu(s r) = |s| relu(r or -r): the scale moves to the output, but in fp16, where P would overflow in another place than f does. */
__device__ inline ActivationConstants activation_constants(float scale, float out_scale, float param)
{
    return {1.0f, out_scale * (scale < 0.0f ? -scale : scale), scale < 0.0f ? -1.0f : 1.0f};
}

__device__ inline float activation_turn(const ActivationConstants &constants)
{
    return constants.turn;
}

__device__ inline uint32_t activation_pack(float score0, float score1, const ActivationConstants &constants)
{
    return pack_input_relu(score0, score1);
}

// ---- templates/schedule_format.h
/*
 * The format of a schedule (gdpa_schedule_build), shared by host C and generated CUDA: 32-bit words on the device.
 *
 *     header    kScheduleHeaderWords: counters, in pairs {next place, blocks that are done}, all 0 between launches
 *     queries   the sequences, costliest query tiles first: for kernels whose blocks own query tiles
 *     keys      the sequences, costliest key tiles first: for the main kernel of a backward
 *
 * A list is kScheduleArrays arrays of schedule_stride(batch) words, by rank: the number of the sequence; then, for tiles of 64, 128 and 192
 * rows, how many tiles the sequences before it have together in one head, with their sum at [batch].
 */

enum {
    kScheduleHeaderWords = 64,
    kScheduleForwardCounters = 0,  /* words of the header */
    kScheduleBackwardCounters = 2, /* of the main kernel */
    kScheduleSecondCounters = 4,   /* of the second one */
    kScheduleQueries = 0,          /* lists */
    kScheduleKeys = 1,
    kScheduleLists = 2,
    kScheduleArrays = 4,    /* of a list: the order, then one for each height of tiles */
    kScheduleTileStep = 64, /* array 1 is that of tiles of 64 rows, and so on */
    kScheduleHeights = 3,
    kScheduleThreads = 1024, /* of each of the kScheduleLists blocks that make one */
    kScheduleClasses = 256,  /* of cost, in which sequences are counted */
    kScheduleSmemBytes = kScheduleThreads / 32 * (kScheduleClasses + kScheduleHeights) * 4 + kScheduleClasses * 4
};

// ---- templates/params.h
/*
 * The kernel arguments, shared by host C and generated CUDA: one struct, passed by value as the only parameter.
 *
 * The host fills it in runtime/launch_params.c; the generator pastes this file into the source without the include
 * guards and the host-only part. Strides are in elements. Fixed-width fields, widest first, no padding anywhere.
 */

struct gdpa_fwd_params {
    const void *q;
    const void *k;
    const void *v;
    void *o;
    const int32_t *cu_seqlens_q; /* [batch + 1] or null: dense */
    const int32_t *cu_seqlens_k;
    const int32_t *seqused_q; /* [batch] or null */
    const int32_t *seqused_k;
    int64_t q_stride_batch, q_stride_row, q_stride_head;
    int64_t k_stride_batch, k_stride_row, k_stride_head;
    int64_t v_stride_batch, v_stride_row, v_stride_head;
    int64_t o_stride_batch, o_stride_row, o_stride_head;
    int64_t rows_q; /* dense: seqlen_q; jagged: total_q, the bound every offset is clamped to */
    int64_t rows_k;
    int64_t num_tiles;     /* query tiles of the whole launch; see templates/tile_schedule.cuh */
    int64_t round_shift;   /* persistent kernels: each round of the grid begins so many blocks further on */
    int32_t batch;
    int32_t heads_q;
    int32_t heads_per_group; /* heads_q / heads_k */
    int32_t tiles_per_seq;   /* query tiles a sequence may have; 0: find the sequence by search in cu_seqlens_q */
    float scale;             /* inside the activation */
    float out_scale;         /* outside */
    float activation_param;
    int32_t full_tiles_per_seq; /* > 0: tiles of kBlockM rows, which come before the last, shorter ones of all sequences */
    uint32_t *schedule; /* templates/schedule_format.h; last, so that kernels without one do not have it */
};

/* What cuTensorMapEncodeTiled writes: opaque. (NVRTC ignores an attribute behind the brace.) */
struct __attribute__((aligned(64))) gdpa_tensor_map {
    uint64_t words[16];
};

/*
 * Kernels that load and store through the copy engine. Each map has four dimensions, fastest first: columns, rows (of a sequence: dense; of the
 * tensor: jagged), heads, sequences (jagged: one).
 */
struct gdpa_fwd_sm90_params {
    struct gdpa_tensor_map q_map; /* box 64 x kBlockM */
    struct gdpa_tensor_map k_map; /* box 64 x kBlockN */
    struct gdpa_tensor_map v_map; /* box 64 x kBlockN */
    struct gdpa_tensor_map o_map; /* box 64 x 64; not used where o is fp32 */
    struct gdpa_fwd_params common; /* q, k and v and their strides are not used */
};

// ---- templates/ptx/fence.cuh
/*
 * Order between ordinary accesses and those of the copy engine and the tensor cores (the async proxy). PTX ISA, "fence.proxy".
 */

/* This thread's accesses to shared memory before it come before the async proxy's after it. */
__device__ inline void fence_proxy_async_shared()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// ---- templates/ptx/global_memory.cuh
/*
 * Global memory by pointer. PTX ISA, "ld", "st".
 */

/* Read-only data: the compiler may keep or move the load. */
__device__ inline int32_t ld_global_nc_s32(const int32_t *address)
{
    int32_t value;
    asm("ld.global.nc.s32 %0, [%1];" : "=r"(value) : "l"(address));
    return value;
}

__device__ inline uint16_t ld_global_nc_b16(const void *address)
{
    uint16_t value;
    asm("ld.global.nc.b16 %0, [%1];" : "=h"(value) : "l"(address));
    return value;
}

__device__ inline void st_global_b16(void *address, uint16_t value)
{
    asm volatile("st.global.b16 [%0], %1;" ::"l"(address), "h"(value) : "memory");
}

__device__ inline void st_global_b32(void *address, uint32_t value)
{
    asm volatile("st.global.b32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

__device__ inline void st_global_v2_b32(void *address, uint32_t low, uint32_t high)
{
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(address), "r"(low), "r"(high) : "memory");
}

__device__ inline void st_global_v4_b32(void *address, const uint32_t (&value)[4])
{
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(value[0]), "r"(value[1]),
                 "r"(value[2]), "r"(value[3])
                 : "memory");
}

// ---- templates/ptx/shared_memory.cuh
/*
 * Shared memory by 32-bit address in the .shared window. PTX ISA, "ld", "st", "cvta".
 *
 * Kernels hold shared addresses as uint32_t and touch shared memory through these functions and the other wrappers of
 * ptx/ only, never through pointers.
 */

/* Address of the dynamic shared memory of the block, aligned to 1024 bytes. */
__device__ inline uint32_t dynamic_shared_base()
{
    extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
    return static_cast<uint32_t>(__cvta_generic_to_shared(dynamic_shared_memory));
}

__device__ inline void st_shared_b16(uint32_t address, uint16_t value)
{
    asm volatile("st.shared.b16 [%0], %1;" ::"r"(address), "h"(value) : "memory");
}

__device__ inline void st_shared_b32(uint32_t address, uint32_t value)
{
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

__device__ inline uint32_t ld_shared_b32(uint32_t address)
{
    uint32_t value;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
    return value;
}

__device__ inline void st_shared_b64(uint32_t address, int64_t value)
{
    asm volatile("st.shared.b64 [%0], %1;" ::"r"(address), "l"(value) : "memory");
}

__device__ inline int64_t ld_shared_b64(uint32_t address)
{
    int64_t value;
    asm volatile("ld.shared.b64 %0, [%1];" : "=l"(value) : "r"(address) : "memory");
    return value;
}

__device__ inline void st_shared_v4_b32(uint32_t address, const uint32_t (&value)[4])
{
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(value[0]), "r"(value[1]),
                 "r"(value[2]), "r"(value[3])
                 : "memory");
}

__device__ inline void ld_shared_v4_b32(uint32_t (&value)[4], uint32_t address)
{
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value[0]), "=r"(value[1]), "=r"(value[2]), "=r"(value[3])
                 : "r"(address)
                 : "memory");
}

// ---- templates/ptx/special_registers.cuh
/*
 * Who am I: %tid, %ctaid, %nctaid. PTX ISA, "Special Registers". Blocks are one-dimensional; a grid has a second dimension
 * when it has more blocks than the first may have.
 */

__device__ inline uint32_t tid_x()
{
    return threadIdx.x;
}

__device__ inline uint32_t ctaid_x()
{
    return blockIdx.x;
}

__device__ inline uint32_t ctaid_y()
{
    return blockIdx.y;
}

__device__ inline uint32_t nctaid_x()
{
    return gridDim.x;
}

// ---- templates/ptx/stmatrix.cuh
/*
 * Stores of 8x8 matrices of 16-bit elements, four at a time: the inverse of ldmatrix_x4. PTX ISA, "stmatrix" (sm_90).
 */

__device__ inline void stmatrix_x4(uint32_t address, uint32_t m0, uint32_t m1, uint32_t m2, uint32_t m3)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(m0), "r"(m1),
                 "r"(m2), "r"(m3)
                 : "memory");
}

// ---- templates/ptx/warp.cuh
/*
 * Exchange among the lanes of a full warp. PTX ISA, "vote.sync", "shfl.sync", "bar.warp.sync".
 */

/* Bit l is the predicate of lane l. */
__device__ inline uint32_t vote_sync_ballot(bool predicate)
{
    uint32_t ballot;
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; vote.sync.ballot.b32 %0, p, 0xffffffff; }"
                 : "=r"(ballot)
                 : "r"(static_cast<uint32_t>(predicate)));
    return ballot;
}

/* The value of lane `source`. */
__device__ inline uint32_t shfl_sync_idx(uint32_t value, uint32_t source)
{
    uint32_t result;
    asm volatile("shfl.sync.idx.b32 %0, %1, %2, 31, 0xffffffff;" : "=r"(result) : "r"(value), "r"(source));
    return result;
}

/* A meeting of the warp's lanes; orders their memory accesses. PTX ISA, "bar.warp.sync". */
__device__ inline void bar_warp_sync()
{
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
}

// ---- templates/shared_tile.cuh
/*
 * A tile of 16-bit elements in shared memory: rows x columns, cut into chunks of 64 (or 32) columns, each chunk
 * [rows][128 (or 64) bytes] with the 16-byte units of a row exchanged (swizzled), so that the 8 rows of an 8x8 matrix that
 * ldmatrix reads, and the 8 units of a row that a copy writes, lie in different banks.
 *
 *     chunk of 64 columns: unit u of row r is stored at unit u ^ (r % 8)         of that row
 *     chunk of 32 columns: unit u of row r is stored at unit u ^ ((r / 2) % 4)   of that row
 */

constexpr int round_up(int value, int step)
{
    return (value + step - 1) / step * step;
}

template <int kRows_, int kColumns_> struct SharedTile {
    static constexpr int kRows = kRows_;
    static constexpr int kColumns = kColumns_;
    static constexpr int kChunkColumns = kColumns % 64 == 0 ? 64 : 32;
    static constexpr int kChunkUnits = kChunkColumns / 8; // of 16 bytes
    static constexpr int kRowBytes = kChunkColumns * 2;   // of one row in one chunk
    static constexpr int kChunkBytes = kRows * kRowBytes;
    static constexpr int kBytes = round_up(kColumns, kChunkColumns) / kChunkColumns * kChunkBytes;
    static constexpr int kUnits = round_up(kColumns, 16) / 8; // units of a row that are filled and read

    uint32_t base;

    /* What row r adds to the unit number. */
    __device__ static uint32_t swizzle(uint32_t row)
    {
        return kChunkColumns == 64 ? row % 8 : row / 2 % 4;
    }

    /* Shared address of a 16-byte unit, counted over all chunks. */
    __device__ uint32_t unit_address(uint32_t row, uint32_t unit) const
    {
        const uint32_t chunk = unit / kChunkUnits;
        const uint32_t place = unit % kChunkUnits ^ swizzle(row);
        return base + chunk * kChunkBytes + row * kRowBytes + place * 16;
    }
};

// ---- templates/ptx/mbarrier.cuh
/*
 * Barriers in shared memory that count arrivals and bytes, and alternate between two phases. PTX ISA, "mbarrier".
 *
 * A wait for parity p returns once the phase of that parity is complete: parity 1 passes at once on a fresh barrier.
 */

__device__ inline void mbarrier_init(uint32_t barrier, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

/* After the inits, before the barrier that lets the other threads and the copy engine use them. */
__device__ inline void fence_mbarrier_init()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ inline void mbarrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* Arrives, and makes the phase wait for so many more bytes of asynchronous copies. */
__device__ inline void mbarrier_arrive_expect_tx(uint32_t barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/* One asm block with its own labels: a loop in C++ around try_wait costs registers where there are none to spare. */
__device__ inline void mbarrier_wait_parity(uint32_t barrier, uint32_t parity)
{
    asm volatile("{ .reg .pred p; \n"
                 "WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; \n"
                 "@p bra DONE; \n"
                 "bra WAIT; \n"
                 "DONE: }" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

// ---- templates/work_sm90.cuh
/*
 * Shared memory of the Hopper forward kernel, and the messages in it.
 *
 *     Q      kQueryStages x [kBlockM x head dim]     the output is staged in a query tile, by the warps that own its rows
 *     K, V   kStages x [kBlockN x head dim] each
 *     messages and barriers
 *
 * Every tile consists of chunks of 64 columns, [rows][128 bytes] with the 128-byte swizzle of the copy engine; columns beyond the head dim
 * are zeros.
 */

constexpr int kConsumers = kWarps / 4 - 1; // warpgroups of 64 query rows each; warpgroup 0 feeds them
constexpr int kWarpgroupThreads = 128;
constexpr int kChunkColumns = 64;
constexpr int kDepthChunks = (kHeadDim + kChunkColumns - 1) / kChunkColumns;
constexpr int kValueChunks = (kHeadDimV + kChunkColumns - 1) / kChunkColumns;
constexpr int kQueryChunks = kDepthChunks > kValueChunks ? kDepthChunks : kValueChunks; // room for the output, too
constexpr int kQueryChunkBytes = kBlockM * 128;
constexpr int kKeyChunkBytes = kBlockN * 128;
constexpr int kKeyBytes = kDepthChunks * kKeyChunkBytes;
constexpr int kValueBytes = kValueChunks * kKeyChunkBytes;

/*
 * The message of a query tile, written by the scout before the tile's barriers complete: 32-bit words at these bytes. Who feeds reads its
 * own part again each time: it has few registers.
 */
constexpr int kWorkOffset = 0;     // 64 bits: elements of o before row 0 of the tile
constexpr int kWorkFirstRow = 8;   // of the tile, in its sequence
constexpr int kWorkValidRows = 12; // rows of the tile that exist; 0: no more work
constexpr int kWorkLengthQ = 16;
constexpr int kWorkLengthK = 20;
constexpr int kWorkFirstTile = 24; // key tiles [first, end)
constexpr int kWorkEndTile = 28;
constexpr int kWorkHeadQ = 32; // coordinates in the tensor maps
constexpr int kWorkHeadK = 36;
constexpr int kWorkRowQ = 40; // of the tile
constexpr int kWorkRowK = 44; // of the sequence; 0 in dense tensors
constexpr int kWorkBatchQ = 48; // 0 in jagged tensors
constexpr int kWorkBatchK = 52;
constexpr int kWorkBytes = 64;

constexpr int kQueryPlace = 0;
constexpr int kKeyPlace = kQueryPlace + kQueryStages * kQueryChunks * kQueryChunkBytes;
constexpr int kValuePlace = kKeyPlace + kStages * kKeyBytes;
constexpr int kWorkPlace = kValuePlace + kStages * kValueBytes;
constexpr int kBarrierPlace = kWorkPlace + kQueryStages * kWorkBytes;
constexpr int kBarriers = 4 * kQueryStages + 5 * kStages;
static_assert(kBarrierPlace + kBarriers * 8 <= kSmemBytes, "the plan gave too little shared memory");
static_assert(kBlockM == kConsumers * 64 && kBlockN % 16 == 0, "a consumer warpgroup owns 64 rows");

/* Addresses of everything, from the base of dynamic shared memory. */
struct Shared {
    uint32_t base;

    __device__ uint32_t queries(uint32_t slot) const
    {
        return base + kQueryPlace + slot * (kQueryChunks * kQueryChunkBytes);
    }
    __device__ uint32_t keys(uint32_t slot) const
    {
        return base + kKeyPlace + slot * kKeyBytes;
    }
    __device__ uint32_t values(uint32_t slot) const
    {
        return base + kValuePlace + slot * kValueBytes;
    }
    __device__ uint32_t work(uint32_t slot) const
    {
        return base + kWorkPlace + slot * kWorkBytes;
    }
    __device__ uint32_t barrier(uint32_t number) const
    {
        return base + kBarrierPlace + number * 8;
    }
    __device__ uint32_t queries_full(uint32_t slot) const
    {
        return barrier(slot);
    }
    __device__ uint32_t queries_empty(uint32_t slot) const
    {
        return barrier(kQueryStages + slot);
    }
    /* The message is there; the queries may be still under way. */
    __device__ uint32_t announced(uint32_t slot) const
    {
        return barrier(2 * kQueryStages + slot);
    }
    __device__ uint32_t keys_full(uint32_t slot) const
    {
        return barrier(3 * kQueryStages + slot);
    }
    __device__ uint32_t keys_empty(uint32_t slot) const
    {
        return barrier(3 * kQueryStages + kStages + slot);
    }
    __device__ uint32_t values_full(uint32_t slot) const
    {
        return barrier(3 * kQueryStages + 2 * kStages + slot);
    }
    __device__ uint32_t values_empty(uint32_t slot) const
    {
        return barrier(3 * kQueryStages + 3 * kStages + slot);
    }
    /* The values have arrived, but rows of another sequence among them are still to be zeroed. */
    __device__ uint32_t values_raw(uint32_t slot) const
    {
        return barrier(3 * kQueryStages + 4 * kStages + slot);
    }
    /* The consumers are done with a query tile, and what the copy engine shall store of their output lies there. */
    __device__ uint32_t outputs_staged(uint32_t slot) const
    {
        return barrier(3 * kQueryStages + 5 * kStages + slot);
    }
};

/* By one thread, followed by a barrier of the block. */
__device__ inline void init_barriers(const Shared &shared)
{
    for (uint32_t slot = 0; slot < kQueryStages; ++slot) {
        mbarrier_init(shared.queries_full(slot), 1);
        mbarrier_init(shared.announced(slot), 32);
        // Every thread that reads the message: of two feeding warps and the consumers, or of the storer, which waits for these.
        mbarrier_init(shared.queries_empty(slot), 64 + 32);
        mbarrier_init(shared.outputs_staged(slot), kConsumers * kWarpgroupThreads);
    }
    for (uint32_t slot = 0; slot < kStages; ++slot) {
        mbarrier_init(shared.keys_full(slot), 1);
        mbarrier_init(shared.keys_empty(slot), kConsumers); // one thread a warpgroup: products end for all of it
        mbarrier_init(shared.values_full(slot), 1);
        mbarrier_init(shared.values_empty(slot), kConsumers);
        mbarrier_init(shared.values_raw(slot), 1);
    }
    fence_mbarrier_init();
}

__device__ inline void write_word(uint32_t address, int32_t value)
{
    st_shared_b32(address, static_cast<uint32_t>(value));
}

__device__ inline int32_t read_word(uint32_t address)
{
    return static_cast<int32_t>(ld_shared_b32(address));
}

/* The same for all lanes, and known to be so: what depends on it can live in uniform registers. By whole warps. */
__device__ inline int32_t read_uniform_word(uint32_t address)
{
    return static_cast<int32_t>(shfl_sync_idx(ld_shared_b32(address), 0));
}

// ---- templates/epilogue_sm90.cuh
/*
 * The epilogue of a consumer warpgroup of the Hopper forward: sums -> global memory, scaled and rounded once.
 *
 * 16-bit results go through the warp's own rows of the query tile, which nobody else reads any more. From there the copy engine stores them,
 * asked by a warp of its own (storer_sm90.cuh), so that the consumer may go on; where the sequence ends within the rows of the warpgroup, the
 * warps do it themselves, 16 bytes a lane. fp32 results go straight from the sums.
 */

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
        stage(output, factor);
        if (read_uniform_word(work + kWorkValidRows) >= static_cast<int32_t>(part + 1) * 64) {
            fence_proxy_async_shared(); // there is nothing but the staging to wait for
            mbarrier_arrive(shared.outputs_staged(slot));
        } else {
            bar_warp_sync();
            store_existing_rows(work);
        }
    }

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
};

// ---- templates/mask.cuh
/*
 * Visibility: which keys a query sees. Position i of the queries stands at position i + offset of the keys, offset = length_k -
 * length_q (bottom_right) or 0 (top_left), and sees the keys from i + offset - kWindowLeft to i + offset + kWindowRight, as far as they exist.
 */

/* The keys that any row of a query tile sees, [begin, end); begin >= end: none. */
struct KeyRange {
    int32_t begin;
    int32_t end;
};

/* What to add to a query's position to get the key position it stands at. */
__device__ inline int64_t key_offset(int32_t length_q, int32_t length_k)
{
    return static_cast<int64_t>(length_k) - length_q;
}

/* first_row, last_row: of the query tile, in its sequence. */
__device__ inline KeyRange visible_keys(int64_t first_row, int64_t last_row, int32_t length_q, int32_t length_k)
{
    int64_t begin = 0;
    int64_t end = length_k;
    const int64_t offset = key_offset(length_q, length_k);
    const int64_t behind_rightmost = last_row + offset + kWindowRight + 1;
    end = behind_rightmost < end ? behind_rightmost : end;
    if (end <= begin) {
        return {0, 0};
    }
    return {static_cast<int32_t>(begin), static_cast<int32_t>(end)};
}

/* Whether some pair of the query tile and the key tile at `key` is hidden. */
__device__ inline bool tile_needs_mask(int64_t first_row, int64_t last_row, int64_t offset, int32_t key)
{
    bool needs_mask = false;
    needs_mask = needs_mask || key + kBlockN - 1 > first_row + offset + kWindowRight;
    return needs_mask;
}

/* aligned_row: position of the query among the keys, i + offset. */
__device__ inline bool is_visible(int64_t aligned_row, int64_t key)
{
    bool visible = true;
    visible = visible && key <= aligned_row + kWindowRight;
    return visible;
}

/* Zeroes the hidden ones of two packed elements of P at keys `key` and `key + 1`. */
__device__ inline uint32_t hide(uint32_t packed, int64_t aligned_row, int64_t key)
{
    const uint32_t low = is_visible(aligned_row, key) ? 0x0000ffffu : 0;
    const uint32_t high = is_visible(aligned_row, key + 1) ? 0xffff0000u : 0;
    return packed & (low | high);
}

// ---- templates/ptx/tma.cuh
/*
 * Copies of boxes of a tensor by the copy engine. PTX ISA, "cp.async.bulk.tensor" (sm_90). One thread asks for all of it.
 *
 * Boxes, strides, swizzle and bounds are in the tensor map; elements outside the tensor become zeros, and count as bytes.
 */

__device__ inline void prefetch_tensormap(const gdpa_tensor_map *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* Coordinates of the box's first element, fastest dimension first. Completes on `barrier` by its bytes. */
__device__ inline void cp_async_bulk_tensor_4d_load(uint32_t shared, const gdpa_tensor_map *map, uint32_t barrier, int32_t c0,
                                                    int32_t c1, int32_t c2, int32_t c3)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
                 "[%2];" ::"r"(shared),
                 "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
                 : "memory");
}

// ---- templates/ring.cuh
/*
 * A place in a ring of shared-memory slots, as the number of the uses before it: which slot, and in which of its alternating uses.
 * The parity of a slot's `full` barrier in a use is phase(); that of its `empty` barrier before the use is phase() ^ 1, which passes at once
 * the first time round.
 */

template <int kSlots> struct RingPlace {
    uint32_t uses = 0;

    __device__ uint32_t slot() const
    {
        return uses % kSlots;
    }

    __device__ uint32_t phase() const
    {
        return uses / kSlots % 2;
    }
};

// ---- templates/ptx/atomic.cuh
/*
 * Reductions and atomic operations on global memory, relaxed, of the whole device. PTX ISA, "red", "atom".
 */

__device__ inline void red_global_add_f32(float *address, float value)
{
    asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(address), "f"(value) : "memory");
}

/* Four neighbours at an address aligned to 16 bytes, each by itself (sm_90). */
__device__ inline void red_global_add_v4_f32(float *address, const float (&value)[4])
{
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(address), "f"(value[0]),
                 "f"(value[1]), "f"(value[2]), "f"(value[3])
                 : "memory");
}

/* Returns what was there before. */
__device__ inline uint32_t atom_global_add_u32(uint32_t *address, uint32_t value)
{
    uint32_t before;
    asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(address), "r"(value) : "memory");
    return before;
}

// ---- templates/ptx/integer.cuh
/*
 * Integer helpers that are one instruction. PTX ISA, "Integer Arithmetic Instructions".
 */

__device__ inline uint32_t popc_b32(uint32_t bits)
{
    uint32_t count;
    asm("popc.b32 %0, %1;" : "=r"(count) : "r"(bits));
    return count;
}

// ---- templates/list_places.cuh
/*
 * What readers of a schedule (schedule_format.h) have in common: its arrays, the search in them, and the counter of places.
 */

/* An array of a list. */
__device__ inline uint32_t *schedule_array(uint32_t *schedule, int32_t batch, int32_t list, int32_t array)
{
    const int64_t stride = (static_cast<int64_t>(batch) + kScheduleHeaderWords) / kScheduleHeaderWords * kScheduleHeaderWords;
    return schedule + kScheduleHeaderWords + (list * kScheduleArrays + array) * stride;
}

__device__ inline uint32_t read_schedule(const uint32_t *array, uint32_t rank)
{
    return static_cast<uint32_t>(ld_global_nc_s32(reinterpret_cast<const int32_t *>(array) + rank));
}

/* Moves to the last sequence from `list.rank` on whose tiles begin at or before `tile`, and returns where they begin. By whole warps. */
template <typename List> __device__ inline uint32_t move_to(List &list, int32_t batch, uint32_t tile)
{
    const uint32_t lane = tid_x() % 32;
    uint32_t count = static_cast<uint32_t>(batch) - list.rank;
    uint32_t step = 1; // mostly it is one of the next 32
    while (true) {
        const uint32_t begin = lane * step < count ? list.begin_of(list.rank + lane * step) : 0xffffffff;
        const uint32_t before = popc_b32(vote_sync_ballot(begin <= tile));
        const uint32_t passed = before > 1 ? before - 1 : 0;
        list.rank += passed * step;
        const uint32_t left = count - passed * step;
        if (step == 1 && (passed < 31 || left == 1)) {
            return shfl_sync_idx(begin, passed);
        }
        count = step == 1 || left < step ? left : step;
        step = (count + 31) / 32;
    }
}

/* Of a sequence's places, all heads of it. */
struct PlaceInSequence {
    uint32_t head;
    uint32_t tile;
};

/* Groups of kGroup heads take turns, tile after tile; `count` tiles a head. */
template <uint32_t kGroup>
__device__ inline PlaceInSequence take_turns(uint32_t place, uint32_t count, uint32_t heads)
{
    const uint32_t group = place / (count * kGroup);
    const uint32_t heads_left = heads - group * kGroup;
    const uint32_t heads_here = heads_left < kGroup ? heads_left : kGroup;
    const uint32_t in_group = place - group * kGroup * count;
    return {group * kGroup + in_group % heads_here, in_group / heads_here};
}

/*
 * The counter of the places that were handed out: every block begins with that of its number, and draws the others. Between launches it
 * is 0: the last block to have drawn one that does not exist resets it, behind all draws.
 */
struct PlaceCounter {
    uint32_t *words;

    /* For lane 0; the others get nothing. The answer is not waited for before it is used. */
    __device__ uint32_t draw() const
    {
        return tid_x() % 32 == 0 ? atom_global_add_u32(words, 1) + nctaid_x() : 0;
    }

    /* Called by one thread of a block that will draw no more. */
    __device__ void finish() const
    {
        if (atom_global_add_u32(words + 1, 1) == nctaid_x() - 1) {
            st_global_b32(words, 0);
            st_global_b32(words + 1, 0);
        }
    }
};

// ---- templates/sequence.cuh
/*
 * Where a sequence lies and how long it is, from the offsets and lengths on the device. Nothing in them is trusted: whatever
 * they hold, rows stay inside [0, rows).
 */

struct Sequence {
    int64_t first_row; // in the tensor; jagged layout only, else 0
    int32_t length;
};

__device__ inline int64_t clamp_row(int64_t row, int64_t lowest, int64_t highest)
{
    return row < lowest ? lowest : row > highest ? highest : row;
}

/* cu_seqlens [batch + 1]: jagged; null: every sequence has `rows` rows. seqused [batch] shortens, null: does not. */
__device__ inline Sequence find_sequence(const int32_t *cu_seqlens, const int32_t *seqused, int64_t rows, int32_t batch)
{
    int64_t first = 0;
    int64_t end = rows;
    if (cu_seqlens != nullptr) {
        first = clamp_row(ld_global_nc_s32(cu_seqlens + batch), 0, rows);
        end = clamp_row(ld_global_nc_s32(cu_seqlens + batch + 1), first, rows);
    }
    int64_t length = end - first;
    if (seqused != nullptr) {
        length = clamp_row(ld_global_nc_s32(seqused + batch), 0, length);
    }
    return {first, static_cast<int32_t>(length)};
}

// ---- templates/tile_schedule.cuh
/*
 * Which query tile a block works on: tile number -> sequence, head, tile in the sequence.
 *
 * Direct (tiles_per_seq > 0): every sequence has the same number of tiles, some of them perhaps empty. The tile in the sequence
 * runs fastest, so that blocks which run together share their keys and values in L2, then the head, then the sequence.
 *
 * With full_tiles_per_seq > 0 the last, shorter tiles of all sequences come behind the full ones: what is dealt out last should be small.
 *
 * Search (tiles_per_seq = 0, jagged queries): no bound of the lengths is known. Tiles are numbered through all sequences: sequence b
 * starts at tile cu_seqlens[b] / kBlockM + b. That leaves room for its ceil(length / kBlockM) tiles, whatever the lengths are,
 * and needs no other array. The sequence of a tile is found by a search with 32 probes a step. The head runs fastest.
 */

struct TileWork {
    int32_t batch; // -1: no such sequence
    int32_t head;
    int64_t first_row; // of the tile, in its sequence; may lie beyond its end
};

struct Division {
    int64_t quotient;
    int32_t remainder;
};

/* 64-bit division takes many times the instructions of a 32-bit one, and is needed by the largest batches only. */
__device__ inline Division divide(int64_t value, int32_t divisor)
{
    if (value <= 0xffffffffll) {
        const uint32_t quotient = static_cast<uint32_t>(value) / static_cast<uint32_t>(divisor);
        return {quotient, static_cast<int32_t>(static_cast<uint32_t>(value) - quotient * static_cast<uint32_t>(divisor))};
    }
    const int64_t quotient = value / divisor;
    return {quotient, static_cast<int32_t>(value - quotient * divisor)};
}

__device__ inline int64_t divide_wide(int64_t value, int64_t divisor)
{
    if (value <= 0xffffffffll && divisor <= 0xffffffffll) {
        return static_cast<uint32_t>(value) / static_cast<uint32_t>(divisor);
    }
    return value / divisor;
}

/* First tile of a sequence in the numbering of the search. */
__device__ inline int64_t first_tile(const gdpa_fwd_params &params, uint32_t batch)
{
    return static_cast<int64_t>(ld_global_nc_s32(params.cu_seqlens_q + batch)) / kBlockM + batch;
}

/* The last sequence that starts at or before a tile, -1 when there is none. Called by whole warps. */
__device__ inline int32_t search_sequence(const gdpa_fwd_params &params, int64_t tile)
{
    const uint32_t lane = tid_x() % 32;
    uint32_t lowest = 0;
    uint32_t count = static_cast<uint32_t>(params.batch);
    while (true) {
        const uint32_t step = (count + 31) / 32;
        const uint32_t probe = lowest + lane * step;
        const bool starts_before = lane * step < count && first_tile(params, probe) <= tile;
        const uint32_t passed = popc_b32(vote_sync_ballot(starts_before));
        if (passed == 0) {
            return -1;
        }
        lowest += (passed - 1) * step;
        if (step == 1) {
            return static_cast<int32_t>(lowest);
        }
        const uint32_t left = count - (passed - 1) * step;
        count = left < step ? left : step;
    }
}

/*
 * Under a causal mask the tiles of a sequence differ in cost. Groups of kPairsInGroup (sequence, head) pairs, which share L2, go through
 * their tiles together, the last group from the longest tile to the shortest, the one before it the other way, and so on: then the places
 * block, block + grid, ... of a persistent block cost nearly the same, whatever the number of tiles is (docs/kernels.md).
 */
constexpr int32_t kPairsInGroup = 16;

__device__ inline TileWork find_direct_tile(const gdpa_fwd_params &params, int64_t tile)
{
    const int64_t pairs = static_cast<int64_t>(params.batch) * params.heads_q;
    const int64_t group_tiles = static_cast<int64_t>(params.tiles_per_seq) * kPairsInGroup;
    const int64_t groups = (pairs + kPairsInGroup - 1) / kPairsInGroup;
    const int64_t group = divide_wide(tile, group_tiles);
    const int64_t first_pair = group * kPairsInGroup;
    const int64_t pairs_left = pairs - first_pair;
    const int32_t pairs_here = static_cast<int32_t>(pairs_left < kPairsInGroup ? pairs_left : kPairsInGroup);
    const Division in_group = divide(tile - group * group_tiles, pairs_here);
    const Division in_batch = divide(first_pair + in_group.remainder, params.heads_q);
    const bool shortest_first = (groups - 1 - group) % 2 != 0;
    const int64_t place = shortest_first ? in_group.quotient : params.tiles_per_seq - 1 - in_group.quotient;
    return {static_cast<int32_t>(in_batch.quotient), in_batch.remainder, place * kBlockM};
}

/*
 * How far a persistent block goes from its first place to its second; from there on the steps alternate between this and 2 grid - this. With
 * a single group of causal tiles the blocks are dealt with there and back, so that who got the longest tile gets the shortest next.
 */
__device__ inline uint32_t first_step(const gdpa_fwd_params &params)
{
    if (static_cast<int64_t>(params.batch) * params.heads_q <= kPairsInGroup && params.tiles_per_seq > 0) {
        return 2 * (nctaid_x() - ctaid_x()) - 1;
    }
    return nctaid_x();
}

__device__ inline TileWork find_tile(const gdpa_fwd_params &params, int64_t tile)
{
    if (params.tiles_per_seq > 0) {
        return find_direct_tile(params, tile);
    }
    const Division of_head = divide(tile, params.heads_q);
    const int32_t batch = search_sequence(params, of_head.quotient);
    const int64_t place = batch < 0 ? -1 : of_head.quotient - first_tile(params, static_cast<uint32_t>(batch));
    // Offsets that do not increase may have led to a sequence that starts behind the tile.
    return {place < 0 ? -1 : batch, of_head.remainder, place * kBlockM};
}

// ---- templates/list_schedule.cuh
/*
 * Which query tile a block works on, by a schedule on the device (schedule_format.h): place -> sequence, head, tile in the sequence.
 *
 * The places of all sequences follow each other in the order of the list, costliest sequences first. In a sequence without a mask the
 * tile runs fastest, so that blocks which run together share their keys and values in L2, then the head. With a mask the costliest tiles
 * come first: groups of kHeadsInGroup heads, which share L2, go through their tiles together.
 *
 * What is dealt out last should be small. A few long sequences under a causal mask have no small ones behind them: there the list is gone
 * through several times, for the longer half of the tiles of every sequence, then the longer half of those that are left, and so on.
 *
 * Nothing in a schedule is trusted: places stay below the bound of the host, sequences below the batch, rows inside their sequence.
 */

constexpr int32_t kHeightArray = kBlockM / kScheduleTileStep;
static_assert(kBlockM % kScheduleTileStep == 0 && kHeightArray <= kScheduleHeights, "tiles of a height that schedules know");

/* An array of a list. */
__device__ inline uint32_t *schedule_array(const gdpa_fwd_params &params, int32_t list, int32_t array)
{
    return schedule_array(params.schedule, params.batch, list, array);
}

constexpr uint32_t kHeadsInGroup = 16;
constexpr uint32_t kPasses = 4;
constexpr uint32_t kFewPairs = 8; // (sequence, head) pairs a block that are gone through in passes

/* What a warp knows of the list. Places are asked for in rising order. */
struct TileList {
    const gdpa_fwd_params *params;
    uint32_t rank; // of the sequence found last
    uint32_t pass = 0;       // from the longest tiles on
    uint32_t last_pass = 0;  // 0: all tiles in one
    uint32_t pass_begin = 0; // in tiles of one head
    uint32_t tiles = 0;      // of one head

    /* To be called first: how many places there are, of all heads. */
    __device__ uint32_t start()
    {
        const uint32_t all_tiles = read_schedule(schedule_array(*params, kScheduleQueries, kHeightArray), static_cast<uint32_t>(params->batch));
        const int64_t all = static_cast<int64_t>(all_tiles) * params->heads_q;
        tiles = all_tiles;
        if (kWindowLeft < 0 && static_cast<int64_t>(params->batch) * params->heads_q <= kFewPairs * nctaid_x()) {
            last_pass = kPasses - 1;
        }
        return static_cast<uint32_t>(all < params->num_tiles ? all : params->num_tiles);
    }

    /* Of so many tiles that lie in a row, sequence by sequence, those that are shorter than the tiles of a pass. */
    __device__ uint32_t shorter(uint32_t count, uint32_t of_pass) const
    {
        return of_pass < last_pass ? count >> (of_pass + 1) : 0;
    }

    /* The tiles of the pass among them. */
    __device__ uint32_t in_pass(uint32_t count) const
    {
        return (pass > 0 ? shorter(count, pass - 1) : count) - shorter(count, pass);
    }

    /* Where the tiles of the pass of a sequence begin. */
    __device__ uint32_t begin_of(uint32_t of_rank) const
    {
        return in_pass(read_schedule(schedule_array(*params, kScheduleQueries, kHeightArray), of_rank));
    }

    /* Sequence, head and row of a place; batch -1: not in this schedule. Called by whole warps. */
    __device__ TileWork find(uint32_t place, Sequence &q)
    {
        const uint32_t heads = static_cast<uint32_t>(params->heads_q);
        while (pass < last_pass && place / heads >= pass_begin + in_pass(tiles)) {
            pass_begin += in_pass(tiles);
            ++pass;
            rank = 0;
        }
        place -= pass_begin * heads;
        const uint32_t in_sequence = place - move_to(*this, params->batch, place / heads) * heads;
        const uint32_t batch = read_schedule(schedule_array(*params, kScheduleQueries, 0), rank);
        if (batch >= static_cast<uint32_t>(params->batch)) {
            return {-1, 0, 0};
        }
        q = find_sequence(params->cu_seqlens_q, params->seqused_q, params->rows_q, static_cast<int32_t>(batch));
        uint32_t count = (static_cast<uint32_t>(q.length) + kBlockM - 1) / kBlockM;
        uint32_t lower = 0; // tiles of the sequence in later passes
        if (last_pass > 0) {
            const uint32_t *first = schedule_array(*params, kScheduleQueries, kHeightArray);
            const uint32_t sequence_begin = read_schedule(first, rank);
            const uint32_t sequence_end = read_schedule(first, rank + 1);
            const uint32_t of_pass = in_pass(sequence_end) - in_pass(sequence_begin);
            count = of_pass < count ? of_pass : count; // in a schedule of other lengths it may be more
            lower = shorter(sequence_end, pass) - shorter(sequence_begin, pass);
        }
        if (count == 0 || in_sequence / heads >= count) {
            return {-1, 0, 0};
        }
        const PlaceInSequence found = take_turns<kHeadsInGroup>(in_sequence, count, heads);
        uint32_t tile = found.tile;
        tile = count - 1 - tile; // the last rows see most
        tile += lower;
        const int64_t first_row = static_cast<int64_t>(tile) * kBlockM;
        return {first_row < q.length ? static_cast<int32_t>(batch) : -1, static_cast<int32_t>(found.head), first_row};
    }
};

// ---- templates/scout_sm90.cuh
/*
 * The warp of the Hopper forward kernel that finds the work: it writes the messages, and asks the copy engine for the queries.
 *
 * It is ahead of everyone, by as many query tiles as there are slots: how long a search takes, and how far away the queries are, is then of
 * no importance, and the keys of the next tile follow those of this one without a gap.
 */

/* All chunks of a tile, by one thread. */
template <int kChunks, int kChunkBytes>
__device__ inline void load_box(uint32_t shared, const gdpa_tensor_map *map, uint32_t barrier, int32_t row, int32_t head,
                                int32_t batch)
{
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
        cp_async_bulk_tensor_4d_load(shared + chunk * kChunkBytes, map, barrier, chunk * kChunkColumns, row, head, batch);
    }
}

/* Decides which tiles there are, and tells everyone. Called by one whole warp. */
struct Scout {
    Shared shared;
    const gdpa_fwd_sm90_params *params;
    RingPlace<kQueryStages> query_place;
    static constexpr int32_t kShortTiles = 6; // keys of a query tile that are over before a place is drawn and looked up
    int32_t sent_tiles = 0;                   // keys of the tile that was sent last

    /* A tile by its place in the schedule. */
    __device__ void send_listed(TileList &list, uint32_t place)
    {
        const gdpa_fwd_params &common = params->common;
        Sequence q;
        const TileWork work = list.find(place, q);
        if (work.batch >= 0) {
            send(work, q, find_sequence(common.cu_seqlens_k, common.seqused_k, common.rows_k, work.batch));
        }
    }

    /*
     * The next place is drawn while this one is looked up, so that a short tile does not wait for it; behind a long tile only when there is a
     * slot for it: what a block has drawn, no other one can take.
     */
    __device__ void run_list()
    {
        TileList list = {&params->common, 0};
        const PlaceCounter counter = {params->common.schedule + kScheduleForwardCounters};
        const uint32_t places = list.start();
        uint32_t place = ctaid_x();
        while (place < places) {
            const bool early = sent_tiles <= kShortTiles;
            uint32_t drawn = 0;
            if (early) {
                drawn = counter.draw();
            }
            send_listed(list, place);
            if (!early) {
                mbarrier_wait_parity(shared.queries_empty(query_place.slot()), query_place.phase() ^ 1);
                drawn = counter.draw();
            }
            place = shfl_sync_idx(drawn, 0);
        }
        if (tid_x() % 32 == 0) {
            counter.finish();
        }
    }

    /*
     * Writes the message of a tile, once a query slot is empty, and asks for the queries. kept, keeps: whether the message before, and the
     * next one, are of the same keys, all of which stay where they are.
     */
    __device__ void send(const TileWork &place, const Sequence &q, const Sequence &k, bool kept = false,
                         bool keeps = false)
    {
        const gdpa_fwd_params &common = params->common;
        const int32_t first_row = static_cast<int32_t>(place.first_row);
        const int32_t rows_left = q.length - first_row;
        const int32_t valid_rows = rows_left < kBlockM ? rows_left : kBlockM;
        const KeyRange range = visible_keys(first_row, first_row + valid_rows - 1, q.length, k.length);
        sent_tiles = (range.end - range.begin) / kBlockN;
        mbarrier_wait_parity(shared.queries_empty(query_place.slot()), query_place.phase() ^ 1);
        if (tid_x() % 32 == 0) {
            const uint32_t work = shared.work(query_place.slot());
            st_shared_b64(work + kWorkOffset, place.batch * common.o_stride_batch +
                                                  (q.first_row + first_row) * common.o_stride_row +
                                                  place.head * common.o_stride_head);
            write_word(work + kWorkFirstRow, first_row);
            write_word(work + kWorkValidRows, valid_rows);
            write_word(work + kWorkLengthQ, q.length);
            write_word(work + kWorkLengthK, k.length);
            write_word(work + kWorkFirstTile, range.begin / kBlockN);
            write_word(work + kWorkEndTile, (range.end + kBlockN - 1) / kBlockN);
            write_word(work + kWorkHeadQ, place.head);
            write_word(work + kWorkHeadK, place.head / common.heads_per_group);
            write_word(work + kWorkRowQ, static_cast<int32_t>(q.first_row) + first_row);
            write_word(work + kWorkRowK, static_cast<int32_t>(k.first_row));
            write_word(work + kWorkBatchQ, common.cu_seqlens_q != nullptr ? 0 : place.batch);
            write_word(work + kWorkBatchK, common.cu_seqlens_k != nullptr ? 0 : place.batch);
        }
        announce_and_load();
    }

    /* Every lane announces the message: all of them have read the sums where the first keys go. */
    __device__ void announce_and_load()
    {
        mbarrier_arrive(shared.announced(query_place.slot()));
        if (tid_x() % 32 == 0) {
            const uint32_t full = shared.queries_full(query_place.slot());
            const uint32_t work = shared.work(query_place.slot());
            mbarrier_arrive_expect_tx(full, kDepthChunks * kQueryChunkBytes);
            load_box<kDepthChunks, kQueryChunkBytes>(shared.queries(query_place.slot()), &params->q_map, full,
                                                     read_word(work + kWorkRowQ), read_word(work + kWorkHeadQ),
                                                     read_word(work + kWorkBatchQ));
        }
        ++query_place.uses;
    }

    __device__ void run()
    {
        run_list();
        stop();
    }

    /* A work message without rows: there is no more. */
    __device__ void stop() const
    {
        mbarrier_wait_parity(shared.queries_empty(query_place.slot()), query_place.phase() ^ 1);
        if (tid_x() % 32 == 0) {
            write_word(shared.work(query_place.slot()) + kWorkValidRows, 0);
            mbarrier_arrive(shared.queries_full(query_place.slot()));
        }
        mbarrier_arrive(shared.announced(query_place.slot()));
    }
};

// ---- templates/producer_sm90.cuh
/*
 * The feeding side of the Hopper forward kernel, a warp each: the scout (scout_sm90.cuh) finds the work and asks the copy engine for queries,
 * the producer asks for keys and values, the repairer repairs value tiles.
 *
 * A value tile that reaches beyond its sequence, into rows that are there in memory, holds other sequences' values, perhaps NaN, and 0 * NaN is
 * not 0. Such a tile completes another barrier first (values_raw); the repair warp zeroes the rows and passes it on. Keys and queries
 * need no repair: what they spoil is masked, or not stored.
 */

/* Whether a key tile holds rows in memory that are not of the sequence. */
__device__ inline bool needs_repair(const gdpa_fwd_params &params, int32_t length_k, int32_t tile)
{
    const bool cut = tile * kBlockN > length_k - kBlockN;
    return cut && (params.cu_seqlens_k != nullptr || params.seqused_k != nullptr);
}

/* Asks for the keys and values of the messages. Called by one whole warp. */
struct Producer {
    Shared shared;
    const gdpa_fwd_sm90_params *params;
    RingPlace<kQueryStages> query_place;
    RingPlace<kStages> tile_place; // of the key tile that comes next

    __device__ void load_keys(RingPlace<kStages> place, uint32_t work, int32_t tile) const
    {
        mbarrier_wait_parity(shared.keys_empty(place.slot()), place.phase() ^ 1);
        if (tid_x() % 32 == 0) {
            const uint32_t full = shared.keys_full(place.slot());
            mbarrier_arrive_expect_tx(full, kKeyBytes);
            load_box<kDepthChunks, kKeyChunkBytes>(shared.keys(place.slot()), &params->k_map, full,
                                                   read_word(work + kWorkRowK) + tile * kBlockN,
                                                   read_word(work + kWorkHeadK), read_word(work + kWorkBatchK));
        }
    }

    __device__ void load_values(RingPlace<kStages> place, uint32_t work, int32_t tile) const
    {
        mbarrier_wait_parity(shared.values_empty(place.slot()), place.phase() ^ 1);
        if (tid_x() % 32 == 0) {
            const bool repair = needs_repair(params->common, read_word(work + kWorkLengthK), tile);
            const uint32_t full = repair ? shared.values_raw(place.slot()) : shared.values_full(place.slot());
            mbarrier_arrive_expect_tx(full, kValueBytes);
            load_box<kValueChunks, kKeyChunkBytes>(shared.values(place.slot()), &params->v_map, full,
                                                   read_word(work + kWorkRowK) + tile * kBlockN,
                                                   read_word(work + kWorkHeadK), read_word(work + kWorkBatchK));
        }
    }

    /* Values before the next keys: their slot is the first to become free, and they are needed first. */
    __device__ void load_tiles(uint32_t work)
    {
        const int32_t end_tile = read_uniform_word(work + kWorkEndTile);
        for (int32_t tile = read_uniform_word(work + kWorkFirstTile); tile < end_tile; ++tile) {
            load_keys(tile_place, work, tile);
            load_values(tile_place, work, tile);
            ++tile_place.uses;
        }
    }

    __device__ void run()
    {
        while (true) {
            mbarrier_wait_parity(shared.announced(query_place.slot()), query_place.phase());
            const uint32_t work = shared.work(query_place.slot());
            if (read_uniform_word(work + kWorkValidRows) == 0) {
                return;
            }
            load_tiles(work);
            mbarrier_arrive(shared.queries_empty(query_place.slot()));
            ++query_place.uses;
        }
    }
};

/* Zeroes the rows of value tiles that are not of the sequence. Follows the messages like a consumer. Called by one whole warp. */
struct Repairer {
    Shared shared;
    const gdpa_fwd_params *params;
    RingPlace<kQueryStages> query_place;
    RingPlace<kStages> tile_place; // of the first tile of the message
    uint32_t raw_phases = 0;       // one bit a slot

    __device__ void zero_rows(uint32_t slot, int32_t first_row) const
    {
        const uint32_t lane = tid_x() % 32;
        const uint32_t zeros[4] = {0, 0, 0, 0};
        for (uint32_t chunk = 0; chunk < kValueChunks; ++chunk) {
            const uint32_t place = shared.values(slot) + chunk * kKeyChunkBytes;
            for (uint32_t offset = first_row * 128 + lane * 16; offset < kKeyChunkBytes; offset += 32 * 16) {
                st_shared_v4_b32(place + offset, zeros); // whole rows: their swizzle does not matter
            }
        }
        fence_proxy_async_shared();
    }

    /* Only the last tile of a message can reach beyond the sequence. */
    __device__ void repair(uint32_t work)
    {
        const int32_t length_k = read_uniform_word(work + kWorkLengthK);
        const int32_t tiles = read_uniform_word(work + kWorkEndTile) - read_uniform_word(work + kWorkFirstTile);
        const int32_t last = read_uniform_word(work + kWorkEndTile) - 1;
        if (tiles > 0 && needs_repair(*params, length_k, last)) {
            RingPlace<kStages> place = tile_place;
            place.uses += tiles - 1;
            mbarrier_wait_parity(shared.values_raw(place.slot()), raw_phases >> place.slot() & 1);
            raw_phases ^= 1u << place.slot();
            zero_rows(place.slot(), length_k - last * kBlockN);
            bar_warp_sync();
            if (tid_x() % 32 == 0) {
                mbarrier_arrive(shared.values_full(place.slot()));
            }
        }
        tile_place.uses += tiles;
    }

    __device__ void run()
    {
        while (true) {
            mbarrier_wait_parity(shared.queries_full(query_place.slot()), query_place.phase());
            const uint32_t work = shared.work(query_place.slot());
            if (read_uniform_word(work + kWorkValidRows) == 0) {
                return;
            }
            repair(work);
            mbarrier_arrive(shared.queries_empty(query_place.slot()));
            ++query_place.uses;
        }
    }
};

// ---- templates/ptx/barrier.cuh
/*
 * Block-wide barrier. PTX ISA, "bar.sync".
 */

/* All threads of the block; orders their shared and global accesses. */
__device__ inline void bar_sync_0()
{
    asm volatile("bar.sync 0;" ::: "memory");
}

// ---- templates/ptx/ldmatrix.cuh
/*
 * Loads of 8x8 matrices of 16-bit elements, four at a time. PTX ISA, "ldmatrix".
 *
 * Lane l gives the address of row l % 8 of matrix l / 8 (16 bytes, aligned). Register i of lane l gets the elements
 * (row l / 4, columns 2 (l % 4) and + 1) of matrix i, or of its transpose.
 */

__device__ inline void ldmatrix_x4(uint32_t (&matrix)[4], uint32_t address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrix[0]), "=r"(matrix[1]), "=r"(matrix[2]), "=r"(matrix[3])
                 : "r"(address)
                 : "memory");
}

__device__ inline void ldmatrix_x4_trans(uint32_t (&matrix)[4], uint32_t address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrix[0]), "=r"(matrix[1]), "=r"(matrix[2]), "=r"(matrix[3])
                 : "r"(address)
                 : "memory");
}

// ---- templates/ptx/named_barrier.cuh
/*
 * Barriers among some warps of a block, by number (1 to 15; 0 is the one of the whole block). PTX ISA, "bar".
 */

__device__ inline void bar_sync(uint32_t number, uint32_t threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

/* Counts as arrived without waiting. */
__device__ inline void bar_arrive(uint32_t number, uint32_t threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// ---- templates/ptx/setmaxnreg.cuh
/*
 * Registers moved between warpgroups. PTX ISA, "setmaxnreg" (sm_90a). All warps of a warpgroup execute it; the sum over the block
 * after it must not pass what the block had at entry.
 */

template <int kRegisters> __device__ inline void setmaxnreg_inc()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

template <int kRegisters> __device__ inline void setmaxnreg_dec()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// ---- templates/ptx/wgmma.cuh
/*
 * Asynchronous products of a warpgroup (4 warps, the first one a multiple of 4). PTX ISA, "wgmma" (sm_90a).
 *
 * wgmma_m64k16_ss and _rs, one pair a width in wgmma_n<width>.cuh and told apart by the size of the accumulator, compute
 * D = A B (+ D when accumulate) with A 64 x 16, B 16 x N, D 64 x N in fp32. A is a matrix in shared memory (ss) or fragments in
 * registers (rs); B is in shared memory. With thread t of the warpgroup
 *     D  d[4 j + c] is row 16 (t / 32) + t % 32 / 4 + 8 (c / 2), column 8 j + 2 (t % 4) + c % 2
 *     A  a[i] holds row 16 (t / 32) + t % 32 / 4 + 8 (i % 2), columns 2 (t % 4) + 8 (i / 2) and the next
 *
 * Order: wgmma_fence after registers or shared memory were touched, products, wgmma_commit_group, wgmma_wait_group. Until the wait,
 * neither d nor a may be touched; tie() after it keeps the compiler from reading d earlier.
 */

__device__ inline void wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ inline void wgmma_commit_group()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Waits until at most kPending of the latest groups are under way. */
template <int kPending> __device__ inline void wgmma_wait_group()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

/* Registers as they are after everything above. */
template <int kCount> __device__ inline void tie(float (&registers)[kCount])
{
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
        asm volatile("" : "+f"(registers[i])::"memory");
    }
}

template <int kCount> __device__ inline void tie(uint32_t (&registers)[kCount])
{
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
        asm volatile("" : "+r"(registers[i])::"memory");
    }
}

/*
 * Descriptor of a matrix in shared memory stored with the 128-byte swizzle: rows of 128 bytes, groups of 8 rows 1024 bytes long and
 * aligned. leading: bytes from one 64-column chunk to the next (matrices whose columns are not the K dimension); stride: bytes
 * from one group of 8 rows to the next.
 */
__device__ inline uint64_t wgmma_descriptor_128b(uint32_t address, uint32_t leading, uint32_t stride)
{
    return static_cast<uint64_t>((address & 0x3ffff) >> 4) | static_cast<uint64_t>(leading >> 4) << 16 |
           static_cast<uint64_t>(stride >> 4) << 32 | 1ull << 62;
}

// ---- templates/ptx/bulk_group.cuh
/*
 * Groups of copies out of shared memory, of the thread that asked for them. PTX ISA, "cp.async.bulk.commit_group", "wait_group" (sm_90).
 */

__device__ inline void cp_async_bulk_commit_group()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* Waits until at most kPending of the latest groups are under way. */
template <int kPending> __device__ inline void cp_async_bulk_wait_group()
{
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}

/* The same for their reads of shared memory: it may be written again, and must be waited for before the thread ends. */
template <int kPending> __device__ inline void cp_async_bulk_wait_group_read()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

// ---- templates/ptx/tma_store.cuh
/*
 * Boxes of shared memory to a tensor by the copy engine. PTX ISA, "cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor" (sm_90).
 *
 * The writes of shared memory come first through fence_proxy_async_shared and a barrier. Completion is by groups: ptx/bulk_group.cuh.
 */

/* Elements of the box that are outside the tensor are not written. */
__device__ inline void cp_async_bulk_tensor_2d_store(const gdpa_tensor_map *map, uint32_t shared, int32_t c0,
                                                     int32_t c1)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map), "r"(shared),
                 "r"(c0), "r"(c1)
                 : "memory");
}

__device__ inline void cp_async_bulk_tensor_3d_store(const gdpa_tensor_map *map, uint32_t shared, int32_t c0,
                                                     int32_t c1, int32_t c2)
{
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
                 "r"(shared), "r"(c0), "r"(c1), "r"(c2)
                 : "memory");
}

__device__ inline void cp_async_bulk_tensor_4d_store(const gdpa_tensor_map *map, uint32_t shared, int32_t c0,
                                                     int32_t c1, int32_t c2, int32_t c3)
{
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
                 "r"(shared), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
                 : "memory");
}

__device__ inline void cp_async_bulk_tensor_5d_store(const gdpa_tensor_map *map, uint32_t shared, int32_t c0,
                                                     int32_t c1, int32_t c2, int32_t c3, int32_t c4)
{
    asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(map),
                 "r"(shared), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
                 : "memory");
}

/* Adds instead, element by element, in the type of the tensor map. */
__device__ inline void cp_async_bulk_tensor_2d_reduce_add(const gdpa_tensor_map *map, uint32_t shared, int32_t c0,
                                                          int32_t c1)
{
    asm volatile(
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),
        "r"(shared), "r"(c0), "r"(c1)
        : "memory");
}

__device__ inline void cp_async_bulk_tensor_3d_reduce_add(const gdpa_tensor_map *map, uint32_t shared, int32_t c0,
                                                          int32_t c1, int32_t c2)
{
    asm volatile(
        "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
        "r"(shared), "r"(c0), "r"(c1), "r"(c2)
        : "memory");
}

__device__ inline void cp_async_bulk_tensor_4d_reduce_add(const gdpa_tensor_map *map, uint32_t shared, int32_t c0,
                                                          int32_t c1, int32_t c2, int32_t c3)
{
    asm volatile(
        "cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(
            map),
        "r"(shared), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
        : "memory");
}

__device__ inline void cp_async_bulk_tensor_5d_reduce_add(const gdpa_tensor_map *map, uint32_t shared, int32_t c0,
                                                          int32_t c1, int32_t c2, int32_t c3, int32_t c4)
{
    asm volatile(
        "cp.reduce.async.bulk.tensor.5d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(
            map),
        "r"(shared), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
        : "memory");
}

// ---- templates/storer_sm90.cuh
/*
 * The warp of the Hopper forward kernel that has the output of finished query tiles stored by the copy engine.
 *
 * A consumer leaves its 64 rows in shared memory, where its queries were, and goes on with the next tile; to wait until the copy engine has read
 * them is left to this warp, which gives the query tile back afterwards. What a sequence ends in, the consumers store themselves: a box knows
 * nothing of the rows behind, which are those of another sequence.
 */

/* Follows the messages like a consumer. Called by one whole warp. */
struct Storer {
    Shared shared;
    const gdpa_fwd_sm90_params *params;
    RingPlace<kQueryStages> query_place;

    /* By one thread. Columns beyond the head dim are not in the tensor map. */
    __device__ void store(uint32_t work) const
    {
        const int32_t whole_warpgroups = read_word(work + kWorkValidRows) / 64;
        const int32_t row = read_word(work + kWorkRowQ);
        const int32_t head = read_word(work + kWorkHeadQ);
        const int32_t batch = read_word(work + kWorkBatchQ);
        for (int32_t number = 0; number < whole_warpgroups; ++number) {
            const uint32_t rows = shared.queries(query_place.slot()) + number * (64 * 128);
#pragma unroll
            for (int chunk = 0; chunk < kValueChunks; ++chunk) {
                cp_async_bulk_tensor_4d_store(&params->o_map, rows + chunk * kQueryChunkBytes, chunk * kChunkColumns,
                                              row + number * 64, head, batch);
            }
        }
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group_read<0>();
    }

    __device__ void run()
    {
        while (true) {
            mbarrier_wait_parity(shared.announced(query_place.slot()), query_place.phase());
            const uint32_t work = shared.work(query_place.slot());
            if (read_uniform_word(work + kWorkValidRows) == 0) {
                cp_async_bulk_wait_group<0>();
                return;
            }
            mbarrier_wait_parity(shared.outputs_staged(query_place.slot()), query_place.phase());
            if (tid_x() % 32 == 0) {
                store(work);
            }
            mbarrier_arrive(shared.queries_empty(query_place.slot())); // every lane has read the message
            ++query_place.uses;
        }
    }
};

// ---- templates/ptx/wgmma_n64.cuh
/*
 * Products of a warpgroup, m64n64k16: D (+)= A B. Fragments and rules are in ptx/wgmma.cuh. Written by scripts/make-wgmma.py.
 */

// clang-format off
template <int kTransA, int kTransB>
__device__ inline void wgmma_m64k16_ss(float (&d)[32], uint64_t a, uint64_t b, bool accumulate)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0; "
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31 "
                 "}, %32, %33, p, 1, 1, %35, %36; }"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
                   "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                   "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                   "+f"(d[30]), "+f"(d[31])
                 : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)), "n"(kTransA), "n"(kTransB));
}

template <int kTransB>
__device__ inline void wgmma_m64k16_rs(float (&d)[32], const uint32_t (&a)[4], uint64_t b, bool accumulate)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %37, 0; "
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31 "
                 "}, {%32, %33, %34, %35}, %36, p, 1, 1, %38; }"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
                   "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                   "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                   "+f"(d[30]), "+f"(d[31])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate)), "n"(kTransB));
}
// clang-format on

// ---- templates/ptx/wgmma_n128.cuh
/*
 * Products of a warpgroup, m64n128k16: D (+)= A B. Fragments and rules are in ptx/wgmma.cuh. Written by scripts/make-wgmma.py.
 */

// clang-format off
template <int kTransA, int kTransB>
__device__ inline void wgmma_m64k16_ss(float (&d)[64], uint64_t a, uint64_t b, bool accumulate)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0; "
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, "
                 "%40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, "
                 "%56, %57, %58, %59, %60, %61, %62, %63 "
                 "}, %64, %65, p, 1, 1, %67, %68; }"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
                   "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                   "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                   "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
                   "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
                   "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
                   "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]),
                   "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),
                   "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
                 : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)), "n"(kTransA), "n"(kTransB));
}

template <int kTransB>
__device__ inline void wgmma_m64k16_rs(float (&d)[64], const uint32_t (&a)[4], uint64_t b, bool accumulate)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %69, 0; "
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, "
                 "%40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, "
                 "%56, %57, %58, %59, %60, %61, %62, %63 "
                 "}, {%64, %65, %66, %67}, %68, p, 1, 1, %70; }"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
                   "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                   "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                   "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
                   "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
                   "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
                   "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]),
                   "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),
                   "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate)), "n"(kTransB));
}
// clang-format on

// ---- templates/fwd_sm90.cuh
/*
 * Forward kernel for Hopper (sm_90a): copies by TMA, products by wgmma, one feeding warpgroup and kConsumers consumer warpgroups.
 *
 * Blocks are persistent: each takes query tiles of kBlockM rows until there are no more. Tiles flow through rings of slots guarded by
 * pairs of barriers (full, empty), so that the loads of the next query tile run under the math of this one:
 *
 *     scout         Q | Q' | ...                               (finds work, asks for queries; a tile ahead)
 *     producer      K0 K1 V0 K2 V1 ... | K0' ...               (asks for the rest; both wait for empty slots only)
 *     consumer w    S = Q K0^T; P = f(S); O += P V0 | S = Q K1^T; ... | store O       on rows 64 w .. 64 w + 63
 *
 * A consumer overlaps the activation of a slice of P with the product of the slice before; for the rest, the other consumers' products fill
 * the tensor cores (docs/kernels.md has the measurements). Which tiles there are is decided by the scout alone and told in messages.
 */

constexpr int kDepthSteps = (kHeadDim + 15) / 16;

/* A thread's share of the scores of 64 rows and so many keys. */
template <int kKeys> using Scores = float[kKeys / 2];

/* P of so many keys: the A fragments of 16 at a time. */
template <int kKeys> using Weights = uint32_t[kKeys / 16][4];

struct Consumer {
    Shared shared;
    const gdpa_fwd_params *params;
    uint32_t number; // of the warpgroup, from 0
    RingPlace<kQueryStages> query_place;
    RingPlace<kStages> tile_place; // keys and values run side by side
    bool releases; // whether this thread gives key tiles back, for its warpgroup
    uint32_t queries[kDepthSteps][4]; // fragments of this warpgroup's rows

    __device__ uint32_t lane() const
    {
        return tid_x() % 32;
    }

    /*
     * Which 64 rows of the tile are this warpgroup's. Under a causal mask the lower ones see more keys: they are another one's each time, and
     * nobody waits for the others at the end of every tile.
     */
    __device__ uint32_t part() const
    {
        return query_place.uses % 2 == 0 ? number : kConsumers - 1 - number;
    }

    /* A tile that only products read: once they are waited for, they have ended for the whole warpgroup. */
    __device__ void release_tile(uint32_t empty_barrier) const
    {
        if (releases) {
            mbarrier_arrive(empty_barrier);
        }
    }

    /* By whole warps: 16 rows each. */
    __device__ void load_queries()
    {
        const uint32_t row = lane() % 16; // of the warp's; the rows above it are a multiple of 8, and do not change the swizzle
        const uint32_t first_place = shared.queries(query_place.slot()) +
                                     (part() * 64 + tid_x() % kWarpgroupThreads / 32 * 16 + row) * 128 +
                                     ((lane() / 16 ^ row % 8) << 4);
#pragma unroll
        for (int step = 0; step < kDepthSteps; ++step) {
            ldmatrix_x4(queries[step], (first_place ^ step % 4 << 5) + step / 4 * kQueryChunkBytes);
        }
    }

    /* S = Q K^T of the tile, or of its first keys. */
    template <int kCount> __device__ void multiply_keys(float (&scores)[kCount]) const
    {
        const uint64_t keys = wgmma_descriptor_128b(shared.keys(tile_place.slot()), 16, 1024);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < kDepthSteps; ++step) {
            const int in_chunk = step % 4 * 32;
            wgmma_m64k16_rs<0>(scores, queries[step], keys + (step / 4 * kKeyChunkBytes + in_chunk) / 16, step > 0);
        }
        wgmma_commit_group();
        wgmma_wait_group<0>();
        tie(scores);
    }

    /*
     * O += f(S) V, kSliceN keys at a time: the products of a slice run under the activation of the next one. There is no row maximum
     * to wait for, so a slice is final as soon as it is activated. The mask has a copy of this code of its own: its mere presence
     * costs tiles that need none 5 %.
     */
    template <bool kHide, int kKeys>
    __device__ void activate_and_multiply(float (&output)[kOutputs], Scores<kKeys> &scores, uint32_t work, int32_t tile,
                                          const ActivationConstants &constants) const
    {
        constexpr int kSliceSteps = (kSliceN < kKeys ? kSliceN : kKeys) / 16;
        const uint64_t values = wgmma_descriptor_128b(shared.values(tile_place.slot()), kKeyChunkBytes, 1024);
        if (kHide) {
#pragma unroll
            for (int i = 0; i < kKeys / 2; ++i) {
                scores[i] *= activation_turn(constants);
            }
        }
        Weights<kKeys> weights;
#pragma unroll
        for (int first_step = 0; first_step < kKeys / 16; first_step += kSliceSteps) {
#pragma unroll
            for (int step = first_step; step < first_step + kSliceSteps; ++step) {
                activate(weights[step], &scores[8 * step], constants);
            }
            if (kHide) {
                hide_slice<kSliceSteps>(&weights[first_step], first_step * 16, work, tile);
            }
            if (first_step == 0) {
                mbarrier_wait_parity(shared.values_full(tile_place.slot()), tile_place.phase());
            }
            wgmma_fence();
#pragma unroll
            for (int step = first_step; step < first_step + kSliceSteps; ++step) {
                wgmma_m64k16_rs<1>(output, weights[step], values + step * (16 * 128) / 16, true);
            }
            wgmma_commit_group();
        }
        wgmma_wait_group<0>();
        tie(output);
    }

    /* f of the scores of 16 keys -> packed A fragments of P. */
    __device__ static void activate(uint32_t (&weights)[4], const float *scores, const ActivationConstants &constants)
    {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            weights[i] = activation_pack(scores[2 * i], scores[2 * i + 1], constants);
        }
        tie(weights);
    }

    /* Whether this warpgroup's rows see nothing of a tile: there are no such rows, or all of it is hidden. */
    __device__ bool sees_nothing(uint32_t work, int32_t tile) const
    {
        const int32_t first_row = static_cast<int32_t>(part()) * 64;
        bool nothing = first_row >= read_uniform_word(work + kWorkValidRows);
        const int64_t aligned_row = first_aligned_row(work);
        const int32_t key = tile * kBlockN;
        nothing = nothing || key > aligned_row + 63 + kWindowRight;
        return nothing;
    }

    /* Whether a tile is the last of its sequence, and at most half of it exists. */
    __device__ bool first_half_is_enough(uint32_t work, int32_t tile) const
    {
        // Or the second half is to the right of all that this warpgroup's rows see: a diagonal ends in each half every other time.
        if (static_cast<int64_t>(tile) * kBlockN + kBlockN / 2 > first_aligned_row(work) + 63 + kWindowRight) {
            return true;
        }
        return static_cast<int64_t>(tile) * kBlockN + kBlockN / 2 >= read_uniform_word(work + kWorkLengthK);
    }

    /*
     * Behind the last of the tiles from `tile` on of which this warpgroup's rows see every key; `tile` itself when there is none. Scores
     * that have to be turned, by a negative scale, take the slower way, too.
     */
    __device__ int32_t plain_end(uint32_t work, int32_t tile, const ActivationConstants &constants) const
    {
        if (activation_turn(constants) != 1.0f ||
            static_cast<int32_t>(part()) * 64 >= read_uniform_word(work + kWorkValidRows)) {
            return tile;
        }
        int64_t end_key = read_uniform_word(work + kWorkLengthK);
        const int64_t aligned_row = first_aligned_row(work);
        const int64_t behind_rightmost = aligned_row + kWindowRight + 1;
        end_key = behind_rightmost < end_key ? behind_rightmost : end_key;
        const int32_t end = static_cast<int32_t>(end_key < 0 ? 0 : end_key) / kBlockN;
        const int32_t end_tile = read_uniform_word(work + kWorkEndTile);
        return end < tile ? tile : end < end_tile ? end : end_tile;
    }

    /* Where this warpgroup's first row stands among the keys. */
    __device__ int64_t first_aligned_row(uint32_t work) const
    {
        return read_uniform_word(work + kWorkFirstRow) + static_cast<int64_t>(part() * 64) +
               key_offset(read_uniform_word(work + kWorkLengthQ), read_uniform_word(work + kWorkLengthK));
    }

    /* Zeroes the hidden pairs of a slice. Bounds are columns of the slice, relative to the thread's first one. */
    template <int kSliceSteps>
    __device__ void hide_slice(uint32_t (*weights)[4], int first_column, uint32_t work, int32_t tile) const
    {
        const int64_t key = static_cast<int64_t>(tile) * kBlockN + first_column + lane() % 4 * 2;
        const int64_t last = read_uniform_word(work + kWorkLengthK) - 1 - key;
#pragma unroll
        for (int half = 0; half < 2; ++half) { // the upper and the lower 8 rows of the warp's 16
            int64_t highest = last;
            const int64_t aligned_row =
                first_aligned_row(work) + tid_x() % kWarpgroupThreads / 32 * 16 + lane() / 4 + half * 8;
            const int64_t rightmost = aligned_row + kWindowRight - key;
            highest = rightmost < highest ? rightmost : highest;
            const int32_t high = clamp_to_tile(highest);
#pragma unroll
            for (int pair = 0; pair < kSliceSteps * 2; ++pair) {
                const int32_t column = pair * 8;
                bool left = column <= high;
                bool right = column + 1 <= high;
                weights[pair / 2][pair % 2 * 2 + half] &=
                    (left ? 0x0000ffffu : 0) | (right ? 0xffff0000u : 0);
            }
        }
    }

    __device__ static int32_t clamp_to_tile(int64_t key)
    {
        return static_cast<int32_t>(key < -1 ? -1 : key > kBlockN ? kBlockN : key);
    }

    /* Both products, once the keys are there. */
    template <bool kHide, int kKeys>
    __device__ void multiply_tile(float (&output)[kOutputs], uint32_t work, int32_t tile, const ActivationConstants &constants) const
    {
        Scores<kKeys> scores;
        multiply_keys(scores);
        release_tile(shared.keys_empty(tile_place.slot()));
        activate_and_multiply<kHide, kKeys>(output, scores, work, tile, constants);
    }

    /* A tile of which every row sees every key. */
    __device__ void plain_tile(float (&output)[kOutputs], const ActivationConstants &constants)
    {
        mbarrier_wait_parity(shared.keys_full(tile_place.slot()), tile_place.phase());
        multiply_tile<false, kBlockN>(output, 0, 0, constants);
        release_tile(shared.values_empty(tile_place.slot()));
        ++tile_place.uses;
    }

    /* A tile with something to hide. */
    __device__ void other_tile(float (&output)[kOutputs], uint32_t work, int32_t tile, const ActivationConstants &constants)
    {
        const bool visible = !sees_nothing(work, tile);
        const bool half = visible && first_half_is_enough(work, tile);
        mbarrier_wait_parity(shared.keys_full(tile_place.slot()), tile_place.phase());
        if (half) {
            multiply_tile<true, kBlockN / 2>(output, work, tile, constants);
        } else
        if (visible) {
            multiply_tile<true, kBlockN>(output, work, tile, constants);
        } else {
            // Products keep the warps of a warpgroup together; without any, one could be left behind by a whole turn of the ring.
            mbarrier_wait_parity(shared.values_full(tile_place.slot()), tile_place.phase());
            bar_sync(1 + number, kWarpgroupThreads);
            release_tile(shared.keys_empty(tile_place.slot()));
        }
        release_tile(shared.values_empty(tile_place.slot()));
        ++tile_place.uses;
    }

    __device__ void run()
    {
        const ActivationConstants constants =
            activation_constants(params->scale, params->out_scale, params->activation_param);
        while (true) {
            mbarrier_wait_parity(shared.queries_full(query_place.slot()), query_place.phase());
            const uint32_t work = shared.work(query_place.slot());
            if (read_uniform_word(work + kWorkValidRows) == 0) {
                return;
            }
            load_queries();
            // Sums from 0, always: were the first product to begin them anew, their registers would count as taken from the beginning of
            // the message before, and the epilogue would have to do without them.
            float output[kOutputs];
#pragma unroll
            for (int i = 0; i < kOutputs; ++i) {
                output[i] = 0.0f;
            }
            int32_t tile = read_uniform_word(work + kWorkFirstTile);
            releases = tid_x() % kWarpgroupThreads == 0;
            while (true) {
                // What decides about a tile stays out of the loop over those that need no decision.
                for (const int32_t end = plain_end(work, tile, constants); tile < end; ++tile) {
                    plain_tile(output, constants);
                }
                if (tile >= read_uniform_word(work + kWorkEndTile)) {
                    break;
                }
                other_tile(output, work, tile, constants);
                ++tile;
            }
            const Epilogue epilogue = {shared, params, part(), query_place.slot()};
            epilogue.store(output, work, constants.epilogue);
            ++query_place.uses;
        }
    }
};

extern "C" __global__ __launch_bounds__(kThreads, 1) void gdpa_fwd_sm90_d64_bf16_relu_causal_jqjk_dynamic_f906d2ab(
    const __grid_constant__ gdpa_fwd_sm90_params params)
{
    const Shared shared = {dynamic_shared_base()};
    if (tid_x() == 0) {
        init_barriers(shared);
        prefetch_tensormap(&params.q_map);
        prefetch_tensormap(&params.k_map);
        prefetch_tensormap(&params.v_map);
        prefetch_tensormap(&params.o_map);
    }
    bar_sync_0();
    const uint32_t warpgroup = shfl_sync_idx(tid_x() / kWarpgroupThreads, 0);
    if (warpgroup == 0) {
        setmaxnreg_dec<kProducerRegisters>();
        if (tid_x() < 32) {
            Producer producer = {shared, &params};
            producer.run();
        } else if (tid_x() < 64) {
            Repairer repairer = {shared, &params.common};
            repairer.run();
        } else if (tid_x() < 96) {
            Scout scout = {shared, &params};
            scout.run();
        }
        else {
            Storer storer = {shared, &params};
            storer.run();
        }
    } else {
        setmaxnreg_inc<kConsumerRegisters>();
        Consumer consumer;
        consumer.shared = shared;
        consumer.params = &params.common;
        consumer.number = warpgroup - 1;
        consumer.run();
    }
}

// ---- templates/mask_queries.cuh
/*
 * Visibility as the backward asks for it: which queries see a key. See templates/mask.cuh.
 */

/* The queries that see any key of a key tile, [begin, end); begin >= end: none. */
struct QueryRange {
    int32_t begin;
    int32_t end;
};

/* first_key, last_key: of the key tile, in its sequence. */
__device__ inline QueryRange visible_queries(int64_t first_key, int64_t last_key, int32_t length_q, int32_t length_k)
{
    int64_t begin = 0;
    int64_t end = length_q;
    const int64_t offset = key_offset(length_q, length_k);
    const int64_t first_seeing = first_key - offset - kWindowRight;
    begin = first_seeing > 0 ? first_seeing : 0;
    if (end <= begin || last_key < first_key) {
        return {0, 0};
    }
    return {static_cast<int32_t>(begin), static_cast<int32_t>(end)};
}

/*
 * distance: from a key to where a query stands among the keys, i + offset - j. Between rows and keys that exist it lies within +-(2^31 - 2^16),
 * and a tile does not add 2^16: 32 bits do.
 */
__device__ inline bool is_visible_at(int32_t distance)
{
    bool visible = true;
    visible = visible && distance >= -kWindowRight;
    return visible;
}

/* Zeroes the hidden ones of two packed elements of P^T at one key: those of a query at `distance` and of the next one. */
__device__ inline uint32_t hide_queries(uint32_t packed, int32_t distance)
{
    const uint32_t low = is_visible_at(distance) ? 0x0000ffffu : 0;
    const uint32_t high = is_visible_at(distance + 1) ? 0xffff0000u : 0;
    return packed & (low | high);
}

/* The same of P: those of a query at a key at `distance` and at the next key. */
__device__ inline uint32_t hide_next_key(uint32_t packed, int32_t distance)
{
    const uint32_t low = is_visible_at(distance) ? 0x0000ffffu : 0;
    const uint32_t high = is_visible_at(distance - 1) ? 0xffff0000u : 0;
    return packed & (low | high);
}

// ---- templates/ptx/global_load_b32.cuh
/*
 * Loads of words from global memory that this launch has written, behind a barrier. PTX ISA, "ld".
 */

__device__ inline uint32_t ld_global_b32(const uint32_t *address)
{
    uint32_t value;
    asm volatile("ld.global.b32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
}

// ---- templates/ptx/match.cuh
/*
 * Which lanes of a full warp hold the same value. PTX ISA, "match.sync".
 */

/* Bit l: lane l has the value of this lane. */
__device__ inline uint32_t match_sync_any(uint32_t value)
{
    uint32_t lanes;
    asm volatile("match.any.sync.b32 %0, %1, 0xffffffff;" : "=r"(lanes) : "r"(value));
    return lanes;
}

// ---- templates/list_build.cuh
/*
 * Makes a schedule (schedule_format.h) from the offsets and lengths on the device: block 0 the list of queries, block 1 that of keys.
 *
 * A counting sort by classes of cost, stable, without atomics: each warp owns a run of sequences and counts them by class; classes in
 * falling order, and in each of them the warps in order, then begin where all before them end; each warp goes through its run again and
 * puts every sequence in its place. Behind it tiles are summed up along the order, kRanksAThread sequences a thread at a time.
 */

constexpr uint32_t kListWarps = kScheduleThreads / 32;
constexpr uint32_t kListTile = 128; // rows of the tiles whose costs are compared
constexpr uint32_t kRanksAThread = 4;

struct ListLengths {
    int32_t q, k;
};

__device__ inline ListLengths find_lengths(const gdpa_fwd_params &params, uint32_t batch)
{
    const int32_t number = static_cast<int32_t>(batch);
    return {find_sequence(params.cu_seqlens_q, params.seqused_q, params.rows_q, number).length,
            find_sequence(params.cu_seqlens_k, params.seqused_k, params.rows_k, number).length};
}

/* The keys that a query tile sees, or the queries that see a key tile, with row number `row` in it. */
__device__ inline int32_t tile_cost(const ListLengths &lengths, bool of_keys, int64_t row)
{
    const int64_t first = row / kListTile * kListTile;
    const int64_t length = of_keys ? lengths.k : lengths.q;
    const int64_t last = first + kListTile < length ? first + kListTile - 1 : length - 1;
    if (of_keys) {
        const QueryRange range = visible_queries(first, last, lengths.q, lengths.k);
        return range.end - range.begin;
    }
    const KeyRange range = visible_keys(first, last, lengths.q, lengths.k);
    return range.end - range.begin;
}

/* Of the costliest tile of a sequence, near enough: the first, the middle or the last one. */
__device__ inline int32_t sequence_cost_most(const ListLengths &lengths, bool of_keys)
{
    const int64_t length = of_keys ? lengths.k : lengths.q;
    int32_t most = 0;
    if (length > 0) {
        for (int32_t i = 0; i < 3; ++i) {
            const int32_t cost = tile_cost(lengths, of_keys, (length - 1) * i / 2);
            most = cost > most ? cost : most;
        }
    }
    return most;
}

/* Rising with the cost, eight each time it doubles; 0 for a sequence without tiles, or whose tiles see nothing. */
__device__ inline uint32_t cost_class(int32_t cost)
{
    const uint32_t exponent_and_eighths = float_as_bits(static_cast<float>(cost)) >> 20;
    return cost > 0 ? exponent_and_eighths - 127 * 8 + 1 : 0;
}
static_assert(31 * 8 + 1 < kScheduleClasses, "every cost has a class");

/* Shared memory of a block, as kScheduleSmemBytes says: counts of each class by warp, places where classes begin, sums by warp. */
struct ListShared {
    uint32_t base;

    __device__ uint32_t count(uint32_t warp, uint32_t number) const
    {
        return base + (warp * kScheduleClasses + number) * 4;
    }
    __device__ uint32_t begin(uint32_t number) const
    {
        return base + (kListWarps * kScheduleClasses + number) * 4;
    }
    __device__ uint32_t sum(uint32_t warp, uint32_t height) const
    {
        return base + (kListWarps * kScheduleClasses + kScheduleClasses + warp * kScheduleHeights + height) * 4;
    }
};

/* The sequences that a warp owns, 32 at a time. */
struct ListRun {
    uint32_t begin, end;
};

__device__ inline ListRun find_run(const gdpa_fwd_params &params, uint32_t warp)
{
    const uint32_t batch = static_cast<uint32_t>(params.batch);
    const uint32_t chunks = (batch + 31) / 32;
    const uint32_t begin = static_cast<uint32_t>(static_cast<uint64_t>(chunks) * warp / kListWarps * 32);
    const uint32_t end = static_cast<uint32_t>(static_cast<uint64_t>(chunks) * (warp + 1) / kListWarps * 32);
    return {begin, end < batch ? end : batch};
}

/*
 * Goes through a warp's run. Of the lanes that have the same class the first one adds to its count. With kPlace counts are places already, and
 * each sequence goes to its own; how many rows it has waits in `rows`, by rank, for sum_tiles_up.
 */
template <bool kPlace>
__device__ inline void go_through_run(const gdpa_fwd_params &params, const ListShared &shared, bool of_keys, uint32_t *order,
                                      uint32_t *rows)
{
    const uint32_t lane = tid_x() % 32;
    const uint32_t warp = tid_x() / 32;
    const ListRun run = find_run(params, warp);
    ListLengths next = run.begin + lane < run.end ? find_lengths(params, run.begin + lane) : ListLengths{0, 0};
    for (uint32_t start = run.begin; start < run.end; start += 32) {
        const uint32_t batch = start + lane;
        const ListLengths lengths = next;
        if (batch + 32 < run.end) { // on its way while this one is counted
            next = find_lengths(params, batch + 32);
        }
        const bool exists = batch < run.end;
        const uint32_t number = exists ? cost_class(sequence_cost_most(lengths, of_keys)) : kScheduleClasses;
        const uint32_t same = match_sync_any(number);
        const uint32_t before = popc_b32(same & ((1u << lane) - 1));
        const uint32_t count = exists ? ld_shared_b32(shared.count(warp, number)) : 0;
        bar_warp_sync();
        if (exists && before == 0) {
            st_shared_b32(shared.count(warp, number), count + popc_b32(same));
        }
        bar_warp_sync();
        if (kPlace && exists) {
            const uint32_t place = ld_shared_b32(shared.begin(number)) + count + before;
            st_global_b32(order + place, batch);
            st_global_b32(rows + place, static_cast<uint32_t>(of_keys ? lengths.k : lengths.q));
        }
    }
}

/* Of numbers up to 2^31. */
__device__ inline uint32_t add_at_most(uint32_t a, uint32_t b, uint32_t most)
{
    return a + b < most ? a + b : most;
}

/* The sum over the lanes before this one; *all: over all lanes. Both no more than `most`. */
__device__ inline uint32_t sum_lanes_before(uint32_t value, uint32_t most, uint32_t *all)
{
    const uint32_t lane = tid_x() % 32;
    uint32_t sum = value;
    for (uint32_t distance = 1; distance < 32; distance *= 2) {
        const uint32_t other = shfl_sync_idx(sum, (lane - distance) % 32);
        sum = lane >= distance ? add_at_most(sum, other, most) : sum;
    }
    *all = shfl_sync_idx(sum, 31);
    const uint32_t before = shfl_sync_idx(sum, (lane - 1) % 32);
    return lane > 0 ? before : 0;
}

/* Counts become the number of sequences of the class in the warps before; the classes begin where those of higher cost end. */
__device__ inline void find_class_begins(const ListShared &shared)
{
    const uint32_t thread = tid_x();
    const uint32_t number = kScheduleClasses - 1 - thread; // of the first threads
    uint32_t all = 0;
    if (thread < kScheduleClasses) {
#pragma unroll 8
        for (uint32_t warp = 0; warp < kListWarps; ++warp) {
            const uint32_t count = ld_shared_b32(shared.count(warp, number));
            st_shared_b32(shared.count(warp, number), all);
            all += count;
        }
    }
    uint32_t of_warp;
    const uint32_t before = sum_lanes_before(all, 0x7fffffff, &of_warp);
    if (thread % 32 == 0) {
        st_shared_b32(shared.sum(thread / 32, 0), of_warp);
    }
    bar_sync_0();
    if (thread < kScheduleClasses) {
        uint32_t begin = before;
        for (uint32_t warp = 0; warp < thread / 32; ++warp) {
            begin += ld_shared_b32(shared.sum(warp, 0));
        }
        st_shared_b32(shared.begin(number), begin);
    }
    bar_sync_0();
}

/* More tiles than these are in no schedule, whatever the offsets say. */
__device__ inline uint32_t most_tiles(const gdpa_fwd_params &params, bool of_keys, uint32_t height)
{
    const int64_t rows = of_keys ? params.rows_k : params.rows_q;
    const bool jagged = (of_keys ? params.cu_seqlens_k : params.cu_seqlens_q) != nullptr;
    const int64_t most = jagged ? rows / height + params.batch : (rows + height - 1) / height * params.batch;
    return static_cast<uint32_t>(most < 0x3fffffff ? most : 0x3fffffff);
}

/*
 * The tiles before each rank, and behind the last one, of every height. The rows of the ranks are in the first of the three arrays, which
 * is written over behind them.
 */
__device__ inline void sum_tiles_up(const gdpa_fwd_params &params, const ListShared &shared, bool of_keys)
{
    const uint32_t batch = static_cast<uint32_t>(params.batch);
    const int32_t list = of_keys ? kScheduleKeys : kScheduleQueries;
    const uint32_t *rows = schedule_array(params, list, 1);
    const uint32_t warp = tid_x() / 32;
    uint32_t begin[kScheduleHeights] = {}; // of the ranks that are looked at
    for (uint32_t start = 0; start <= batch; start += kScheduleThreads * kRanksAThread) {
        const uint32_t rank = start + tid_x() * kRanksAThread;
        uint32_t length[kRanksAThread];
#pragma unroll
        for (uint32_t i = 0; i < kRanksAThread; ++i) {
            length[i] = rank + i < batch ? ld_global_b32(rows + rank + i) : 0;
        }
        uint32_t before[kScheduleHeights];
#pragma unroll
        for (uint32_t height = 0; height < kScheduleHeights; ++height) {
            const uint32_t step = (height + 1) * kScheduleTileStep;
            const uint32_t most = most_tiles(params, of_keys, step);
            uint32_t own = 0;
#pragma unroll
            for (uint32_t i = 0; i < kRanksAThread; ++i) {
                own = add_at_most(own, (length[i] + step - 1) / step, most);
            }
            uint32_t of_warp;
            before[height] = sum_lanes_before(own, most, &of_warp);
            if (tid_x() % 32 == 0) {
                st_shared_b32(shared.sum(warp, height), of_warp);
            }
        }
        bar_sync_0();
#pragma unroll
        for (uint32_t height = 0; height < kScheduleHeights; ++height) {
            const uint32_t step = (height + 1) * kScheduleTileStep;
            const uint32_t most = most_tiles(params, of_keys, step);
            uint32_t all;
            const uint32_t of_warps = sum_lanes_before(ld_shared_b32(shared.sum(tid_x() % 32, height)), most, &all);
            const uint32_t of_warps_before = shfl_sync_idx(of_warps, warp);
            uint32_t sum = add_at_most(begin[height], add_at_most(of_warps_before, before[height], most), most);
            uint32_t sums[kRanksAThread];
#pragma unroll
            for (uint32_t i = 0; i < kRanksAThread; ++i) {
                sums[i] = sum;
                sum = add_at_most(sum, (length[i] + step - 1) / step, most);
            }
            if (rank <= batch) { // arrays have room for whole groups
                st_global_v4_b32(schedule_array(params, list, static_cast<int32_t>(height) + 1) + rank, sums);
            }
            begin[height] = add_at_most(begin[height], all, most);
        }
        bar_sync_0();
    }
}

extern "C" __global__ __launch_bounds__(kScheduleThreads, 1) void gdpa_fwd_sm90_d64_bf16_relu_causal_jqjk_dynamic_f906d2ab_schedule(
    const __grid_constant__ gdpa_fwd_params params)
{
    const bool of_keys = ctaid_x() == kScheduleKeys;
    const ListShared shared = {dynamic_shared_base()};
    uint32_t *order = schedule_array(params, of_keys ? kScheduleKeys : kScheduleQueries, 0);
    uint32_t *rows = schedule_array(params, of_keys ? kScheduleKeys : kScheduleQueries, 1);
    for (uint32_t i = tid_x(); i < kListWarps * kScheduleClasses; i += kScheduleThreads) {
        st_shared_b32(shared.base + i * 4, 0);
    }
    if (!of_keys && tid_x() < kScheduleHeaderWords) {
        st_global_b32(params.schedule + tid_x(), 0);
    }
    bar_sync_0();
    go_through_run<false>(params, shared, of_keys, order, rows);
    bar_sync_0();
    find_class_begins(shared);
    go_through_run<true>(params, shared, of_keys, order, rows);
    bar_sync_0();
    sum_tiles_up(params, shared, of_keys);
}

