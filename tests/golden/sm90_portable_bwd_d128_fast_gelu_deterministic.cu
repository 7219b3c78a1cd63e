/*
 * Made by libgdpajit 0.1.0. The kernel is at the end, what it calls before it.
 *
 * spec       bwd head_dim=128 dtype=bf16 activation=fast_gelu window_left=512 layout_q=jagged layout_k=jagged family=portable deterministic arch=sm_90a
 * kernel     gdpa_bwd_sm90_d128_bf16_fast_gelu_wl512_jqjk_deterministic_portable_f6f13a70
 * generator  (this version)
 * plan       portable block_m=64 block_n=128 slice_n=64 warps=8 threads=256 stages=2 q_in_registers=0 min_blocks=1 smem_bytes=147456 query_stages=0 value_columns=0 producer_registers=0 consumer_registers=0 slice_m=32 column_parts=1 dq_threads=128 dq_smem_bytes=98304
 * again      gdpa-jit show source "bwd head_dim=128 dtype=bf16 activation=fast_gelu window_left=512 layout_q=jagged layout_k=jagged family=portable deterministic arch=sm_90a"
 */

// ---- templates/config_default.cuh, with the values of this kernel
constexpr int kArch = 90;               // compute capability * 10
constexpr int kHeadDim = 128;           // columns of q and k
constexpr int kHeadDimV = 128;          // columns of v and o
constexpr int kWindowLeft = 512;        // keys to the left of the aligned one; -1: unbounded
constexpr int kWindowRight = -1;        // keys to the right of it; -1: unbounded
constexpr int kBlockM = 64;             // query rows a step; of a block of the second kernel
constexpr int kBlockN = 128;            // keys a block
constexpr int kSliceN = 64;             // keys that are activated and multiplied at a time
constexpr int kWarps = 8;               // warps a block
constexpr int kThreads = 256;           // threads a block
constexpr int kStages = 2;              // query tiles in shared memory at a time
constexpr int kMinBlocks = 1;           // blocks an SM
constexpr int kSliceM = 32;             // query rows whose scores a warp holds at a time
constexpr int kColumnParts = 1;         // warps that share keys and divide columns among them
constexpr int kDqThreads = 128;         // threads a block of the second kernel
constexpr int kDqSmemBytes = 98304;     // dynamic shared memory of the same
constexpr int kSmemBytes = 147456;      // dynamic shared memory of a block

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

// ---- templates/activation/gelu_argument.cuh
/*
 * The argument of the tanh in the tanh form of gelu: u(x) = sqrt(2/pi) (x + 0.044715 x^3) = x (k0 + k1 x^2), and u'(x) of x^2.
 */

constexpr float kGeluK0 = 0.7978845608028654f;  // sqrt(2/pi)
constexpr float kGeluK1 = 0.03567740813636141f; // 0.044715 sqrt(2/pi)

__device__ inline float gelu_argument(float x)
{
    return x * fma_rn_f32(kGeluK1, x * x, kGeluK0);
}

__device__ inline float gelu_argument_slope(float square)
{
    return fma_rn_f32(3.0f * kGeluK1, square, kGeluK0);
}

// ---- templates/activation/fast_gelu_derivative.cuh
/*
 * The derivative of gelu_tanh through the hardware tanh t: (1 + t)/2 + x/2 (1 - t^2) u'(x). Approx: |error| <= 2^-10 max(1, |x|). 8 operations and
 * 1 special function.
 */

/* u'(x) has come to 2 there. Beyond it 1 - t^2 is small, but t may be wrong by 2^-11, and a greater slope would carry that too far. */
constexpr float kSquareOfSlope2 = 11.23f;

__device__ inline float activation_derivative(float x, float param)
{
    const float t = tanh_approx_f32(gelu_argument(x));
    const float slope = gelu_argument_slope(min_nan_f32(x * x, kSquareOfSlope2));
    const float bend = fma_rn_f32(-t, t, 1.0f);
    return fma_rn_f32(0.5f * x * bend, slope, fma_rn_f32(0.5f, t, 0.5f));
}

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

// ---- templates/activation/fast_gelu.cuh
/*
 * gelu_tanh through the hardware tanh: f(x) = x/2 (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3). Approx: the tanh has a relative
 * error of 2^-11, so |error| <= 2^-12 |x|, and the small negative tail beyond -3 is lost. 4 operations and 1 special function.
 */

__device__ inline float activation_value(float x, float param)
{
    const float half = 0.5f * x;
    return fma_rn_f32(half, tanh_approx_f32(gelu_argument(x)), half);
}

/* Scales beyond it give the same result, and their cube would overflow. */
constexpr float kLargestFoldedScale = 1099511627776.0f; // 2^40

/*
 * For a raw score r and x = s r: u = r (k0 s + k1 s^3 r^2), and f = (s/2) r (1 + tanh u), whose factor s/2 moves to the output.
 * fp16 keeps the factor, or P would overflow where f does not.
 */
struct ActivationConstants {
    float linear;
    float cubic;
    float half_scale;
    float epilogue;
};

__device__ inline ActivationConstants activation_constants(float scale, float out_scale, float param)
{
    const float half_scale = 0.5f * scale;
    const float size = min_nan_f32(max_nan_f32(scale, -kLargestFoldedScale), kLargestFoldedScale);
    const float epilogue = out_scale * half_scale;
    return {kGeluK0 * size, kGeluK1 * size * size * size, half_scale, epilogue};
}

__device__ inline float activation_turn(const ActivationConstants &constants)
{
    return 1.0f;
}

__device__ inline float activation_of_score(float score, const ActivationConstants &constants)
{
    // Not cubic * score^2, which is 0 * infinity where the scale is 0 and the score large.
    const float u = score * fma_rn_f32(constants.cubic * score, score, constants.linear);
    return fma_rn_f32(score, tanh_approx_f32(u), score);
}

__device__ inline uint32_t activation_pack(float score0, float score1, const ActivationConstants &constants)
{
    return pack_input(activation_of_score(score0, constants), activation_of_score(score1, constants));
}

// ---- templates/activation/pair.cuh
/*
 * Value and derivative of one score together, for the backward: P = value, dS = slope dP.
 *
 * Here as the activation's file has them, where the compiler shares what both need. Where they would not share enough (two special
 * functions instead of one), activation/pair/<file>.cuh takes the place of this file.
 */

struct ActivationPair {
    float value;
    float slope;
};

/* x: the scaled score. */
__device__ inline ActivationPair activation_pair(float x, float param)
{
    return {activation_value(x, param), activation_derivative(x, param)};
}

// ---- templates/ptx/cp_async.cuh
/*
 * Asynchronous copies global -> shared by the thread that asks. PTX ISA, "cp.async" (sm_80 and later).
 *
 * A copy has arrived for its own thread after the wait_group that covers it, and for the block after a barrier on top.
 */

/* 16 bytes past L1; the last 16 - source_bytes are filled with zeros. source_bytes 0 reads nothing. */
__device__ inline void cp_async_cg_16(uint32_t shared, const void *global, uint32_t source_bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(source_bytes)
                 : "memory");
}

__device__ inline void cp_async_commit_group()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until at most kPending of this thread's latest groups are under way. */
template <int kPending> __device__ inline void cp_async_wait_group()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
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

// ---- templates/load_tile.cuh
/*
 * Copies of a tile's rows from global to shared memory, by all threads of the block.
 *
 * Rows from `valid_rows` on, and columns beyond the head dim up to the next multiple of 16, become zeros: what lies there in global memory
 * (another sequence, NaN) is never read.
 */

/* 16 bytes, or zeros. Asynchronous, unless the source may be unaligned. */
__device__ inline void load_unit(uint32_t address, const uint16_t *source, bool valid)
{
    cp_async_cg_16(address, source, valid ? 16 : 0);
}

/* source: row 0 of the tile. kHeadColumns: its columns in global memory. */
template <int kHeadColumns, typename Tile>
__device__ inline void load_tile(const Tile &tile, const uint16_t *source, int64_t row_stride, int32_t valid_rows)
{
    if constexpr (kThreads % Tile::kUnits == 0 && Tile::kRows % (kThreads / Tile::kUnits) == 0) {
        // A thread keeps its column and goes down the rows: one pointer that moves on, instead of an address for each load.
        constexpr int kRowStep = kThreads / Tile::kUnits;
        const uint32_t first_row = tid_x() / Tile::kUnits;
        const uint32_t unit = tid_x() % Tile::kUnits;
        const uint16_t *place = source + first_row * row_stride + unit * 8;
#pragma unroll
        for (int row = 0; row < Tile::kRows; row += kRowStep) {
            const bool valid = static_cast<int32_t>(first_row) < valid_rows - row && unit < kHeadColumns / 8;
            load_unit(tile.unit_address(first_row + row, unit), place, valid);
            place += kRowStep * row_stride;
        }
    } else {
#pragma unroll
        for (int first = 0; first < Tile::kRows * Tile::kUnits; first += kThreads) {
            const uint32_t index = first + tid_x();
            const uint32_t row = index / Tile::kUnits;
            const uint32_t unit = index % Tile::kUnits;
            if (row < Tile::kRows) {
                const bool valid = static_cast<int32_t>(row) < valid_rows && unit < kHeadColumns / 8;
                load_unit(tile.unit_address(row, unit), source + row * row_stride + unit * 8, valid);
            }
        }
    }
}

// ---- templates/copy_rows.cuh
/*
 * As templates/load_tile.cuh, by a number of threads of the caller's choice: the two kernels of a backward pass have different blocks.
 */

/* source: row 0 of the tile. kHeadColumns: its columns in global memory. Rows from valid_rows on become zeros. */
template <int kCopiers, int kHeadColumns, typename Tile>
__device__ inline void copy_rows(const Tile &tile, const uint16_t *source, int64_t row_stride, int32_t valid_rows)
{
    if constexpr (kCopiers % Tile::kUnits == 0 && Tile::kRows % (kCopiers / Tile::kUnits) == 0) {
        // A thread keeps its column and goes down the rows: one pointer that moves on, instead of an address for each load.
        constexpr int kRowStep = kCopiers / Tile::kUnits;
        const uint32_t first_row = tid_x() / Tile::kUnits;
        const uint32_t unit = tid_x() % Tile::kUnits;
        const uint16_t *place = source + first_row * row_stride + unit * 8;
#pragma unroll
        for (int row = 0; row < Tile::kRows; row += kRowStep) {
            const bool valid = static_cast<int32_t>(first_row) < valid_rows - row && unit < kHeadColumns / 8;
            load_unit(tile.unit_address(first_row + row, unit), place, valid);
            place += kRowStep * row_stride;
        }
    } else {
        // Not unrolled: the addresses, which are the same for every tile, would stay in registers.
#pragma unroll 1
        for (int first = 0; first < Tile::kRows * Tile::kUnits; first += kCopiers) {
            const uint32_t index = first + tid_x();
            const uint32_t row = index / Tile::kUnits;
            const uint32_t unit = index % Tile::kUnits;
            if (row < Tile::kRows) {
                const bool valid = static_cast<int32_t>(row) < valid_rows && unit < kHeadColumns / 8;
                load_unit(tile.unit_address(row, unit), source + row * row_stride + unit * 8, valid);
            }
        }
    }
}

// ---- templates/params.h
/*
 * The kernel arguments, shared by host C and generated CUDA: one struct, passed by value as the only parameter.
 *
 * The host fills it in runtime/launch_params.c; the generator pastes this file into the source without the include
 * guards and the host-only part. Strides are in elements. Fixed-width fields, widest first, no padding anywhere.
 */

/*
 * Of both kernels of a backward pass. The key tiles are those of the main kernel: kBlockN keys of one (sequence, kv head). The query
 * tiles are those of the second one: kBlockM rows of one (sequence, q head).
 */
struct gdpa_bwd_params {
    const void *q;
    const void *k;
    const void *v;
    const void *dout;
    void *dq; /* null: not wanted; dk and dv likewise */
    void *dk;
    void *dv;
    float *dq_sum; /* workspace of the dQ sums; null: a block has all keys and writes dq itself, or nobody sums up dQ */
    const int32_t *cu_seqlens_q; /* [batch + 1] or null: dense */
    const int32_t *cu_seqlens_k;
    const int32_t *seqused_q; /* [batch] or null */
    const int32_t *seqused_k;
    int64_t q_stride_batch, q_stride_row, q_stride_head;
    int64_t k_stride_batch, k_stride_row, k_stride_head;
    int64_t v_stride_batch, v_stride_row, v_stride_head;
    int64_t dout_stride_batch, dout_stride_row, dout_stride_head;
    int64_t dq_stride_batch, dq_stride_row, dq_stride_head;
    int64_t dk_stride_batch, dk_stride_row, dk_stride_head;
    int64_t dv_stride_batch, dv_stride_row, dv_stride_head;
    int64_t rows_q; /* dense: seqlen_q; jagged: total_q, the bound every offset is clamped to */
    int64_t rows_k;
    int64_t num_tiles;       /* key tiles of the whole launch; see templates/gradient_tiles.cuh */
    int64_t num_query_tiles; /* of the second kernel's launch */
    int32_t batch;
    int32_t heads_q;
    int32_t heads_k;
    int32_t heads_per_group;     /* heads_q / heads_k */
    int32_t tiles_per_seq;       /* key tiles a sequence may have; 0: find the sequence by search in cu_seqlens_k */
    int32_t query_tiles_per_seq; /* query tiles; 0: by search in cu_seqlens_q */
    float scale;                 /* inside the activation */
    float out_scale;             /* outside */
    float activation_param;
    int32_t accumulate; /* add to dq, dk and dv; fp32 gradients only */
};

/* What cuTensorMapEncodeTiled writes: opaque. (NVRTC ignores an attribute behind the brace.) */
struct __attribute__((aligned(64))) gdpa_tensor_map {
    uint64_t words[16];
};

/* The same of the backward. */
struct gdpa_bwd_sm90_params {
    struct gdpa_tensor_map q_map;    /* box 64 x kBlockM */
    struct gdpa_tensor_map k_map;    /* box 64 x kBlockN */
    struct gdpa_tensor_map v_map;    /* box 64 x kBlockN */
    struct gdpa_tensor_map dout_map; /* box 64 x kBlockM */
    struct gdpa_tensor_map dq_map;   /* box 64 x 16; only where a block or cluster has all keys, and dq is not fp32 */
    struct gdpa_bwd_params common;
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

// ---- templates/ptx/global_load.cuh
/*
 * Loads from global memory that other threads have written in an earlier launch, or that this thread writes afterwards. PTX ISA, "ld".
 */

__device__ inline float ld_global_f32(const float *address)
{
    float value;
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(value) : "l"(address) : "memory");
    return value;
}

/* The address is aligned to 16 bytes. */
__device__ inline void ld_global_v4_f32(float (&value)[4], const float *address)
{
    asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(value[0]), "=f"(value[1]), "=f"(value[2]), "=f"(value[3])
                 : "l"(address)
                 : "memory");
}

// ---- templates/gradient.cuh
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

struct GradientFactors {
    float inner; // of dS', before it is rounded; 1 in bf16
    float outer; // of the sums dQ and dK
};

__device__ inline GradientFactors gradient_factors(const gdpa_bwd_params &params)
{
    const float factor = params.scale * params.out_scale;
    return {1.0f, factor};
}

__device__ inline uint32_t packed_multiply(uint32_t a, uint32_t b)
{
    return packed_fma(a, b, 0x80008000u); // -0, which leaves the sign of a product of 0
}

using Gradient = uint16_t;

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
    const uint32_t packed = pack_output(low, high);
    st_global_b32(place, packed);
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

// ---- templates/gradient_tiles.cuh
/*
 * Which tile a block of a backward kernel works on: tile number -> sequence, head, tile in the sequence. Key tiles of (sequence, kv head)
 * and query tiles of (sequence, q head) are counted alike.
 *
 * Direct (tiles_per_seq > 0): every sequence has the same number of tiles, some of them perhaps empty. The tile in the sequence runs
 * fastest, so that blocks which run together share what they read in L2, then the head, then the sequence.
 *
 * Search (tiles_per_seq = 0, jagged): as in templates/tile_schedule.cuh, sequence b starts at tile cu_seqlens[b] / rows + b, and is found
 * by a search with 32 probes a step. The head runs fastest.
 */

struct GradientTile {
    int32_t batch; // -1: no such sequence
    int32_t head;
    int64_t first_row; // of the tile, in its sequence; may lie beyond its end
};

constexpr int kTileKeys = kBlockN;

/* What tiles of one kind are counted over. */
struct TileCounts {
    const int32_t *cu_seqlens;
    int32_t batch;
    int32_t heads;
    int32_t tiles_per_seq;
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

/* First tile of a sequence in the numbering of the search. */
template <int kRows> __device__ inline int64_t first_tile(const TileCounts &counts, uint32_t batch)
{
    return static_cast<int64_t>(ld_global_nc_s32(counts.cu_seqlens + batch)) / kRows + batch;
}

/* The last sequence that starts at or before a tile, -1 when there is none. Called by whole warps. */
template <int kRows> __device__ inline int32_t search_sequence(const TileCounts &counts, int64_t tile)
{
    const uint32_t lane = tid_x() % 32;
    uint32_t lowest = 0;
    uint32_t count = static_cast<uint32_t>(counts.batch);
    while (true) {
        const uint32_t step = (count + 31) / 32;
        const uint32_t probe = lowest + lane * step;
        const bool starts_before = lane * step < count && first_tile<kRows>(counts, probe) <= tile;
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

template <int kRows> __device__ inline GradientTile find_tile(const TileCounts &counts, int64_t tile)
{
    if (counts.tiles_per_seq > 0) {
        const Division in_sequence = divide(tile, counts.tiles_per_seq);
        const Division in_batch = divide(in_sequence.quotient, counts.heads);
        return {static_cast<int32_t>(in_batch.quotient), in_batch.remainder,
                static_cast<int64_t>(in_sequence.remainder) * kRows};
    }
    const Division of_head = divide(tile, counts.heads);
    const int32_t batch = search_sequence<kRows>(counts, of_head.quotient);
    const int64_t place =
        batch < 0 ? -1 : of_head.quotient - first_tile<kRows>(counts, static_cast<uint32_t>(batch));
    // Offsets that do not increase may have led to a sequence that starts behind the tile.
    return {place < 0 ? -1 : batch, of_head.remainder, place * kRows};
}

/* The number of this block among all blocks of the launch. */
__device__ inline int64_t block_number()
{
    return static_cast<int64_t>(ctaid_y()) * nctaid_x() + ctaid_x();
}

/* The key tile of a block of the main kernel. */
__device__ inline GradientTile find_key_tile(const gdpa_bwd_params &params, int64_t tile)
{
    return find_tile<kTileKeys>({params.cu_seqlens_k, params.batch, params.heads_k, params.tiles_per_seq}, tile);
}

/* The query tile of a block of the second kernel. */
__device__ inline GradientTile find_query_tile(const gdpa_bwd_params &params, int64_t tile)
{
    return find_tile<kBlockM>({params.cu_seqlens_q, params.batch, params.heads_q, params.query_tiles_per_seq}, tile);
}

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
    const int64_t leftmost = first_row + offset - kWindowLeft;
    begin = leftmost > 0 ? leftmost : 0;
    if (end <= begin) {
        return {0, 0};
    }
    return {static_cast<int32_t>(begin), static_cast<int32_t>(end)};
}

/* Whether some pair of the query tile and the key tile at `key` is hidden. */
__device__ inline bool tile_needs_mask(int64_t first_row, int64_t last_row, int64_t offset, int32_t key)
{
    bool needs_mask = false;
    needs_mask = needs_mask || key < last_row + offset - kWindowLeft;
    return needs_mask;
}

/* aligned_row: position of the query among the keys, i + offset. */
__device__ inline bool is_visible(int64_t aligned_row, int64_t key)
{
    bool visible = true;
    visible = visible && key >= aligned_row - kWindowLeft;
    return visible;
}

/* Zeroes the hidden ones of two packed elements of P at keys `key` and `key + 1`. */
__device__ inline uint32_t hide(uint32_t packed, int64_t aligned_row, int64_t key)
{
    const uint32_t low = is_visible(aligned_row, key) ? 0x0000ffffu : 0;
    const uint32_t high = is_visible(aligned_row, key + 1) ? 0xffff0000u : 0;
    return packed & (low | high);
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
    const int64_t behind_last_seeing = last_key - offset + kWindowLeft + 1;
    end = behind_last_seeing < end ? behind_last_seeing : end;
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
    visible = visible && distance <= kWindowLeft;
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

// ---- templates/bwd_portable_tiles.cuh
/*
 * The tiles of the portable backward: where they lie, how warps divide them, which of them a block goes through.
 */

using KeyTile = SharedTile<kBlockN, kHeadDim>;
using ValueTile = SharedTile<kBlockN, kHeadDimV>;
using QueryTile = SharedTile<kBlockM, kHeadDim>;
using OutputTile = SharedTile<kBlockM, kHeadDimV>; // of output gradients
using ScoreTile = SharedTile<kBlockN, kBlockM>;

/* The map of dynamic shared memory: K, V, Q slots, dO slots, dS^T, P^T. */
constexpr int kValues = KeyTile::kBytes;
constexpr int kQuerySlots = kValues + ValueTile::kBytes;
constexpr int kOutputSlots = kQuerySlots + kStages * QueryTile::kBytes;
constexpr int kSlopes = kOutputSlots + kStages * OutputTile::kBytes;
constexpr int kWeights = kSlopes + ScoreTile::kBytes;
constexpr int kEnd = kColumnParts > 1 ? kWeights + ScoreTile::kBytes : kWeights;
static_assert(kEnd <= kSmemBytes, "the plan gave too little shared memory");
static_assert(kStages >= 2, "a tile is copied while another one is used");

/* Scores and sums of a warp, in 16 x 8 fragments. */
constexpr int kKeyWarps = kWarps / kColumnParts;
constexpr int kWarpKeys = kBlockN / kKeyWarps;
constexpr int kKeyTiles = kWarpKeys / 16;
constexpr int kPartRows = kBlockM / kColumnParts; // query rows whose scores a warp computes
constexpr int kSliceSteps = kSliceM / 16;
constexpr int kDepthGroups = QueryTile::kUnits / 2; // groups of 16 columns
constexpr int kValueGroups = OutputTile::kUnits / 2;
constexpr int kWarpDepthGroups = (kDepthGroups + kColumnParts - 1) / kColumnParts; // of dK in one warp
constexpr int kWarpValueGroups = (kValueGroups + kColumnParts - 1) / kColumnParts; // of dV
static_assert(kWarps % kColumnParts == 0 && kWarpKeys * kKeyWarps == kBlockN && kWarpKeys % 16 == 0 &&
                  kPartRows % kSliceM == 0 && kSliceM % 16 == 0,
              "tiles are made of 16 x 16 steps");

/* dQ of a tile of queries, divided among all warps. */
constexpr int kDqRowTiles = kBlockM % 32 == 0 && kWarps % (kBlockM / 32) == 0 ? 2 : 1;
constexpr int kDqRowWarps = kBlockM / (16 * kDqRowTiles);
constexpr int kDqColumnWarps = kWarps / kDqRowWarps;
constexpr int kDqGroups = (kDepthGroups + kDqColumnWarps - 1) / kDqColumnWarps;
constexpr int kDqChunk = kDqGroups * kDqRowTiles <= 6 ? kDqGroups : kDqGroups % 2 == 0 ? 2 : 1; // in registers at a time
static_assert(kDqRowWarps * kDqColumnWarps == kWarps, "each warp has its part of dQ");

using ScoreFragments = float[kKeyTiles][kSliceM / 8][4];
using PackedScores = uint32_t[kSliceSteps][kKeyTiles][4]; // A fragments
using DepthSums = float[kKeyTiles][2 * kWarpDepthGroups][4];
using ValueSums = float[kKeyTiles][2 * kWarpValueGroups][4];
using DqSums = float[kDqRowTiles][2 * kDqChunk][4];

/* Where a block works. Pointers to the sequence's row 0 and the first head of the group. */
struct Work {
    const uint16_t *q;
    const uint16_t *dout;
    int64_t sum_block; // of row 0, in dq_sum
    int64_t dq_offset; // elements
    int32_t first_head;
    int32_t first_key; // of the tile
    int32_t length_q;
    int32_t length_k;
    int32_t begin_tile; // of the queries that see the keys
    int32_t end_tile;
};

/* A tile of queries of a head of the group. */
struct Place {
    int32_t head;
    int32_t tile;
};

__device__ inline Place next_place(Place place, const Work &work)
{
    return place.tile + 1 < work.end_tile ? Place{place.head, place.tile + 1} : Place{place.head + 1, work.begin_tile};
}

__device__ inline Work find_work(const gdpa_bwd_params &params, const GradientTile &tile, const Sequence &q,
                                 const Sequence &k)
{
    Work work;
    work.first_head = tile.head * params.heads_per_group;
    work.q = static_cast<const uint16_t *>(params.q) + tile.batch * params.q_stride_batch +
             q.first_row * params.q_stride_row + work.first_head * params.q_stride_head;
    work.dout = static_cast<const uint16_t *>(params.dout) + tile.batch * params.dout_stride_batch +
                q.first_row * params.dout_stride_row + work.first_head * params.dout_stride_head;
    work.sum_block = first_sum_block(params, tile.batch, q.first_row);
    work.dq_offset = tile.batch * params.dq_stride_batch + q.first_row * params.dq_stride_row +
                     work.first_head * params.dq_stride_head;
    work.length_q = q.length;
    work.length_k = k.length;
    work.first_key = static_cast<int32_t>(tile.first_row);
    const int32_t keys_left = k.length - work.first_key;
    const QueryRange range = visible_queries(
        work.first_key, work.first_key + (keys_left < kBlockN ? keys_left : kBlockN) - 1, q.length, k.length);
    work.begin_tile = range.begin / kBlockM;
    work.end_tile = (range.end + kBlockM - 1) / kBlockM;
    return work;
}

/* Queries and output gradients of a place into the slots of a step, as one group; an empty group behind the last step. */
__device__ inline void copy_queries(uint32_t shared, const gdpa_bwd_params &params, const Work &work, Place place,
                                    uint32_t step)
{
    if (place.head < params.heads_per_group && work.begin_tile < work.end_tile) {
        const int32_t first_row = place.tile * kBlockM;
        const int32_t valid_rows = work.length_q - first_row;
        const uint32_t slot = step % kStages;
        const QueryTile queries = {shared + kQuerySlots + slot * QueryTile::kBytes};
        copy_rows<kThreads, kHeadDim>(queries,
                                      work.q + place.head * params.q_stride_head + first_row * params.q_stride_row,
                                      params.q_stride_row, valid_rows);
        const OutputTile outputs = {shared + kOutputSlots + slot * OutputTile::kBytes};
        copy_rows<kThreads, kHeadDimV>(
            outputs, work.dout + place.head * params.dout_stride_head + first_row * params.dout_stride_row,
            params.dout_stride_row, valid_rows);
    }
    cp_async_commit_group();
}

/* The keys and values of a block. first_key: among the rows of all sequences. */
__device__ inline void copy_key_tiles(uint32_t shared, const gdpa_bwd_params &params, const GradientTile &tile,
                                      int64_t first_key, int32_t valid_keys)
{
    const KeyTile keys = {shared};
    copy_rows<kThreads, kHeadDim>(keys,
                                  static_cast<const uint16_t *>(params.k) + tile.batch * params.k_stride_batch +
                                      first_key * params.k_stride_row + tile.head * params.k_stride_head,
                                  params.k_stride_row, valid_keys);
    const ValueTile values = {shared + kValues};
    copy_rows<kThreads, kHeadDimV>(values,
                                   static_cast<const uint16_t *>(params.v) + tile.batch * params.v_stride_batch +
                                       first_key * params.v_stride_row + tile.head * params.v_stride_head,
                                   params.v_stride_row, valid_keys);
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

// ---- templates/ptx/mma.cuh
/*
 * Warp-wide products of fragments in registers: D += A B with A 16x16, B 16x8, D 16x8. PTX ISA, "mma.sync.m16n8k16".
 *
 * With g = lane / 4 and t = lane % 4 a lane holds
 *     A  a[0] (row g, columns 2t, 2t+1), a[1] (row g+8, the same), a[2] (row g, columns 2t+8, 2t+9), a[3] (row g+8, those)
 *     B  b0 (rows 2t, 2t+1, column g), b1 (rows 2t+8, 2t+9, column g)
 *     D  d[0], d[1] (row g, columns 2t, 2t+1), d[2], d[3] (row g+8, the same)
 * where a register of 16-bit elements has the lower index in its lower half.
 */

__device__ inline void mma_m16n8k16_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline void mma_m16n8k16_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// ---- templates/fragment_mma.cuh
/*
 * Products of a warp on tiles in shared memory, of any number of fragments. Fragments are those of ptx/mma.cuh: A and accumulators in
 * tiles of 16 rows, accumulators in tiles of 8 columns. (The forward has its own in warp_mma.cuh, cut to its tiles.)
 */

__device__ inline void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    mma_m16n8k16_bf16(d, a, b0, b1);
}

/*
 * ldmatrix addresses of a lane: row first_row + row, 16-byte half `half` of the 16 columns of a step. `row` and `half` depend on the lane
 * alone, and first_row is a multiple of 8: the swizzle of every step differs only in the step.
 */
template <typename Tile>
__device__ inline uint32_t step_address(const Tile &tile, uint32_t row, uint32_t half, uint32_t first_row, uint32_t step)
{
    constexpr uint32_t kStepsInChunk = Tile::kChunkColumns / 16;
    const uint32_t place = step % kStepsInChunk * 2 ^ (half ^ Tile::swizzle(row));
    return tile.base + step / kStepsInChunk * Tile::kChunkBytes + (first_row + row) * Tile::kRowBytes + place * 16;
}

/* A fragments: rows of the tile from first_row on, the 16 columns of a step. */
template <int kTiles, typename Tile>
__device__ inline void load_rows(uint32_t (&a)[kTiles][4], const Tile &tile, uint32_t first_row, uint32_t step)
{
    const uint32_t lane = tid_x() % 32;
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
        ldmatrix_x4(a[m], step_address(tile, lane % 16, lane / 16, first_row + m * 16, step));
    }
}

/* A fragments of the transposed tile: its columns from those of first_step on as rows, its 16 rows from first_row on as columns. */
template <int kTiles, typename Tile>
__device__ inline void load_columns(uint32_t (&a)[kTiles][4], const Tile &tile, uint32_t first_row, uint32_t first_step)
{
    const uint32_t lane = tid_x() % 32;
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
        ldmatrix_x4_trans(a[m],
                          step_address(tile, lane % 8 + lane / 16 * 8, lane / 8 % 2, first_row, first_step + m));
    }
}

/* sums += a x (rows of the tile from first_row on)^T, over the 16 columns of a step. */
template <int kRowTiles, int kColumnTiles, typename Tile>
__device__ inline void multiply_rows(float (&sums)[kRowTiles][kColumnTiles][4], const uint32_t (&a)[kRowTiles][4],
                                     const Tile &tile, uint32_t first_row, uint32_t step)
{
    const uint32_t lane = tid_x() % 32;
#pragma unroll
    for (int n = 0; n < kColumnTiles / 2; ++n) {
        uint32_t b[4]; // matrices: (rows 0-7, 8-15) x (columns 0-7, 8-15), columns faster
        ldmatrix_x4(b, step_address(tile, lane % 8 + lane / 16 * 8, lane / 8 % 2, first_row + n * 16, step));
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
            mma_m16n8k16(sums[m][2 * n], a[m], b[0], b[1]);
            mma_m16n8k16(sums[m][2 * n + 1], a[m], b[2], b[3]);
        }
    }
}

/* sums += a x (16 rows of the tile from first_row on), over its columns from those of first_step on, as far as the tile has any. */
template <int kRowTiles, int kColumnTiles, typename Tile>
__device__ inline void multiply_columns(float (&sums)[kRowTiles][kColumnTiles][4], const uint32_t (&a)[kRowTiles][4],
                                        const Tile &tile, uint32_t first_row, uint32_t first_step)
{
    const uint32_t lane = tid_x() % 32;
#pragma unroll
    for (int n = 0; n < kColumnTiles / 2; ++n) {
        if (Tile::kUnits / 2 % (kColumnTiles / 2) == 0 || first_step + n < Tile::kUnits / 2) {
            uint32_t b[4]; // matrices: (rows 0-7, 8-15) x (columns 0-7, 8-15), rows faster
            ldmatrix_x4_trans(b, step_address(tile, lane % 16, lane / 16, first_row, first_step + n));
#pragma unroll
            for (int m = 0; m < kRowTiles; ++m) {
                mma_m16n8k16(sums[m][2 * n], a[m], b[0], b[1]);
                mma_m16n8k16(sums[m][2 * n + 1], a[m], b[2], b[3]);
            }
        }
    }
}

/* sums += rows of one tile x (rows of the other one)^T, over kSteps steps of 16 columns. */
template <int kSteps, int kRowTiles, int kColumnTiles, typename RowTile, typename ColumnTile>
__device__ inline void multiply_tiles(float (&sums)[kRowTiles][kColumnTiles][4], const RowTile &rows, uint32_t first_row,
                                      const ColumnTile &columns, uint32_t first_column)
{
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
        uint32_t a[kRowTiles][4];
        load_rows(a, rows, first_row, step);
        multiply_rows(sums, a, columns, first_column, step);
    }
}

// ---- templates/bwd_portable_scores.cuh
/*
 * Scores of the portable backward, transposed: from accumulators to P^T and dS^T, and their products with rows of queries.
 */

/* P^T of the scores, packed, and f' in place of the scores. */
__device__ inline void activate(PackedScores &weights, ScoreFragments &scores, const gdpa_bwd_params &params)
{
#pragma unroll
    for (int m = 0; m < kKeyTiles; ++m) {
#pragma unroll
        for (int n = 0; n < kSliceM / 8; ++n) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float(&pair)[4] = scores[m][n];
                const ActivationPair low =
                    activation_pair(pair[2 * half] * params.scale, params.activation_param);
                const ActivationPair high =
                    activation_pair(pair[2 * half + 1] * params.scale, params.activation_param);
                weights[n / 2][m][n % 2 * 2 + half] = pack_input(low.value, high.value);
                pair[2 * half] = low.slope;
                pair[2 * half + 1] = high.slope;
            }
        }
    }
}

/* dS^T = f' dP^T, packed. */
__device__ inline void grade(PackedScores &gradients, const ScoreFragments &slopes, const ScoreFragments &products,
                             float inner)
{
#pragma unroll
    for (int m = 0; m < kKeyTiles; ++m) {
#pragma unroll
        for (int n = 0; n < kSliceM / 8; ++n) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float low = slopes[m][n][2 * half] * products[m][n][2 * half];
                float high = slopes[m][n][2 * half + 1] * products[m][n][2 * half + 1];
                gradients[n / 2][m][n % 2 * 2 + half] = pack_input(low, high);
            }
        }
    }
}

/* Zeroes the hidden pairs. distance: of the lane's first pair, see hide_queries. */
__device__ inline void hide_scores(PackedScores &packed, int32_t distance)
{
#pragma unroll
    for (int step = 0; step < kSliceSteps; ++step) {
#pragma unroll
        for (int m = 0; m < kKeyTiles; ++m) {
#pragma unroll
            for (int i = 0; i < 4; ++i) { // i % 2: upper or lower 8 keys; i / 2: lower or upper 8 queries
                packed[step][m][i] =
                    hide_queries(packed[step][m][i], distance + step * 16 + i / 2 * 8 - m * 16 - i % 2 * 8);
            }
        }
    }
}

/* Fragments -> [keys][queries] in shared memory. */
__device__ inline void stage_scores(const ScoreTile &tile, const PackedScores &packed, uint32_t first_key,
                                    uint32_t first_row)
{
    const uint32_t lane = tid_x() % 32;
#pragma unroll
    for (int step = 0; step < kSliceSteps; ++step) {
#pragma unroll
        for (int m = 0; m < kKeyTiles; ++m) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const uint32_t key = first_key + m * 16 + i % 2 * 8 + lane / 4;
                st_shared_b32(tile.unit_address(key, first_row / 8 + step * 2 + i / 2) + lane % 4 * 4,
                              packed[step][m][i]);
            }
        }
    }
}

/* sums += scores^T x rows, from registers. */
template <int kColumnTiles, typename Tile>
__device__ inline void multiply_packed(float (&sums)[kKeyTiles][kColumnTiles][4], const PackedScores &scores,
                                       const Tile &rows, uint32_t first_row)
{
#pragma unroll
    for (int step = 0; step < kSliceSteps; ++step) {
        multiply_columns(sums, scores[step], rows, first_row + step * 16, 0);
    }
}

// ---- templates/bwd_portable_store.cuh
/*
 * Results of the portable backward: dQ of each tile of queries, dK and dV at the end.
 */

/* Sums of keys -> a gradient. target: row 0 of the key tile. */
template <int kColumns, int kColumnTiles>
__device__ inline void store_keys(const float (&sums)[kKeyTiles][kColumnTiles][4], float factor, Gradient *target,
                                  int64_t row_stride, int32_t valid_keys, uint32_t first_key, uint32_t first_group,
                                  bool accumulate)
{
    const uint32_t lane = tid_x() % 32;
#pragma unroll
    for (int m = 0; m < kKeyTiles; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const uint32_t key = first_key + m * 16 + half * 8 + lane / 4;
            if (static_cast<int32_t>(key) >= valid_keys) {
                continue;
            }
#pragma unroll
            for (int n = 0; n < kColumnTiles; ++n) {
                const uint32_t column = first_group * 16 + n * 8;
                if (column < kColumns) {
                    store_gradients(target + key * row_stride + column + lane % 4 * 2, sums[m][n][2 * half],
                                    sums[m][n][2 * half + 1], factor, accumulate);
                }
            }
        }
    }
}

/* dK and dV, as far as they are wanted. first_key: of the block, among the rows of all sequences. */
__device__ inline void store_sums(const DepthSums &dk, const ValueSums &dv, const gdpa_bwd_params &params,
                                  const GradientTile &tile, int64_t first_key, int32_t valid_keys, uint32_t warp_key,
                                  uint32_t part)
{
    const bool accumulate = params.accumulate != 0;
    if (params.dk != nullptr) {
        Gradient *const target = static_cast<Gradient *>(params.dk) + tile.batch * params.dk_stride_batch +
                                 first_key * params.dk_stride_row + tile.head * params.dk_stride_head;
        store_keys<kHeadDim>(dk, gradient_factors(params).outer, target, params.dk_stride_row, valid_keys, warp_key,
                             part * kWarpDepthGroups, accumulate);
    }
    if (params.dv != nullptr) {
        Gradient *const target = static_cast<Gradient *>(params.dv) + tile.batch * params.dv_stride_batch +
                                 first_key * params.dv_stride_row + tile.head * params.dv_stride_head;
        store_keys<kHeadDimV>(dv, params.out_scale, target, params.dv_stride_row, valid_keys, warp_key,
                              part * kWarpValueGroups, accumulate);
    }
}

// ---- templates/ptx/barrier.cuh
/*
 * Block-wide barrier. PTX ISA, "bar.sync".
 */

/* All threads of the block; orders their shared and global accesses. */
__device__ inline void bar_sync_0()
{
    asm volatile("bar.sync 0;" ::: "memory");
}

// ---- templates/bwd_portable.cuh
/*
 * Backward kernel for every architecture from sm_80 on: mma.sync on fragments, ldmatrix, a cp.async pipeline.
 *
 * A block owns kBlockN keys of one (sequence, kv head): K and V stay in shared memory, dK and dV in registers, summed up over all query heads of
 * the group, so that nothing but dQ needs more than one block. Queries and output gradients come in tiles of kBlockM rows. Scores stand
 * transposed, keys as rows: then P^T and dS^T leave the accumulators as the A operands of dV and dK.
 *
 *     for each head of the group, each tile of queries that sees the keys:
 *         S^T = K Q^T     P^T = f(S^T)           dV += P^T dO
 *         dP^T = V dO^T   dS^T = f'(S^T) dP^T    dK += dS^T Q
 *         dS^T -> shared memory, barrier         dQ  = dS K     -> added to dq_sum, or written when the block has all keys
 *
 * Each warp owns kWarpKeys keys. Scores of kSliceM queries are held at a time. With kColumnParts = 2, two warps share keys, for head dims whose
 * dK and dV do not fit the registers of one: each computes the scores of half of the queries, P goes through shared memory too, and each sums up
 * half of the columns.
 */

extern "C" __global__ __launch_bounds__(kThreads, kMinBlocks) void gdpa_bwd_sm90_d128_bf16_fast_gelu_wl512_jqjk_deterministic_portable_f6f13a70(
    const __grid_constant__ gdpa_bwd_params params)
{
    const uint32_t shared = dynamic_shared_base();
    const uint32_t warp = tid_x() / 32;
    const int64_t number = block_number();
    if (number >= params.num_tiles) {
        return;
    }
    const GradientTile tile = find_key_tile(params, number);
    if (tile.batch < 0) {
        return;
    }
    const Sequence q = find_sequence(params.cu_seqlens_q, params.seqused_q, params.rows_q, tile.batch);
    const Sequence k = find_sequence(params.cu_seqlens_k, params.seqused_k, params.rows_k, tile.batch);
    if (tile.first_row >= k.length) {
        return;
    }
    const Work work = find_work(params, tile, q, k);
    const bool wants_dq = false;
    const bool wants_dk = params.dk != nullptr;
    const bool wants_dv = params.dv != nullptr;
    const int32_t valid_keys = k.length - work.first_key;

    const KeyTile keys = {shared};
    const ValueTile values = {shared + kValues};
    const int64_t first_key = k.first_row + work.first_key;
    copy_key_tiles(shared, params, tile, first_key, valid_keys);
    // The key and value tiles share the first group.
    Place ahead = {0, work.begin_tile};
#pragma unroll
    for (int i = 0; i < kStages - 1; ++i) {
        copy_queries(shared, params, work, ahead, i);
        ahead = next_place(ahead, work);
    }

    const uint32_t warp_key = warp / kColumnParts * kWarpKeys;
    const uint32_t part = warp % kColumnParts;
    const uint32_t part_row = part * kPartRows;
    const ScoreTile staged_slopes = {shared + kSlopes};
    const float inner = 1.0f;
    const int64_t offset = key_offset(work.length_q, work.length_k);
    DepthSums dk = {};
    ValueSums dv = {};

    const int32_t heads = work.begin_tile < work.end_tile ? params.heads_per_group : 0;
    uint32_t step = 0;
    for (Place place = {0, work.begin_tile}; place.head < heads; place = next_place(place, work), ++step) {
        cp_async_wait_group<kStages - 2>(); // this tile is there,
        bar_sync_0();                       // for every thread, and nothing of the tile before is read any more
        copy_queries(shared, params, work, ahead, step + kStages - 1);
        ahead = next_place(ahead, work);
        const QueryTile queries = {shared + kQuerySlots + step % kStages * QueryTile::kBytes};
        const OutputTile outputs = {shared + kOutputSlots + step % kStages * OutputTile::kBytes};
        const int32_t first_row = place.tile * kBlockM;
        const int32_t rows_left = work.length_q - first_row;
        const bool needs_mask = tile_needs_mask(
            first_row, first_row + (rows_left < kBlockM ? rows_left : kBlockM) - 1, offset, work.first_key);
        const int32_t distance = static_cast<int32_t>(first_row + offset - work.first_key) +
                                 static_cast<int32_t>(part_row + tid_x() % 4 * 2 - warp_key - tid_x() % 32 / 4);

#pragma unroll
        for (int slice = 0; slice < kPartRows / kSliceM; ++slice) {
            const uint32_t slice_row = part_row + slice * kSliceM;
            ScoreFragments scores = {};
            multiply_tiles<kDepthGroups>(scores, keys, warp_key, queries, slice_row);
            PackedScores packed;
            activate(packed, scores, params);
            if (wants_dv) {
                if (needs_mask) {
                    hide_scores(packed, distance + slice * kSliceM);
                }
                multiply_packed(dv, packed, outputs, slice_row);
            }
            if (wants_dk || wants_dq) {
                ScoreFragments products = {};
                multiply_tiles<kValueGroups>(products, values, warp_key, outputs, slice_row);
                grade(packed, scores, products, inner);
                if (needs_mask) {
                    hide_scores(packed, distance + slice * kSliceM);
                }
                if (wants_dq) {
                    stage_scores(staged_slopes, packed, warp_key, slice_row);
                }
                if (wants_dk) {
                    multiply_packed(dk, packed, queries, slice_row);
                }
            }
        }
    }
    cp_async_wait_group<0>(); // what is still on its way must not outlive the block
    store_sums(dk, dv, params, tile, first_key, valid_keys, warp_key, part);
}

// ---- templates/bwd_queries.cuh
/*
 * The second kernel of a deterministic backward pass, for every architecture from sm_80 on: dQ from scratch, summed up in registers in one
 * order. A block owns kBlockM query rows of one (sequence, head), each warp 16 of them; keys and values come in tiles of kSliceN through
 * two slots.
 *
 *     for each tile of keys:  S = Q K^T,  dP = dO V^T,  dS = f'(S) dP,  dQ += dS K
 */

using DqQueryTile = SharedTile<kBlockM, kHeadDim>;
using DqGradientTile = SharedTile<kBlockM, kHeadDimV>;
using DqKeyTile = SharedTile<kSliceN, kHeadDim>;
using DqValueTile = SharedTile<kSliceN, kHeadDimV>;

/* The map of dynamic shared memory: Q, dO, K slots, V slots. */
constexpr int kDqStages = 2;
constexpr int kDqGradients = DqQueryTile::kBytes;
constexpr int kDqKeys = kDqGradients + DqGradientTile::kBytes;
constexpr int kDqValues = kDqKeys + kDqStages * DqKeyTile::kBytes;
static_assert(kDqValues + kDqStages * DqValueTile::kBytes <= kDqSmemBytes, "the plan gave too little shared memory");
static_assert(kDqThreads == kBlockM / 16 * 32, "a warp owns 16 rows");

/* Where a block reads. */
struct DqOperands {
    const uint16_t *k; // row 0 of the sequence
    const uint16_t *v;
    int32_t length_k;
};

/* Keys and values of a tile into their slots, as one group; an empty group behind the last tile. */
__device__ inline void copy_keys(uint32_t shared, const gdpa_bwd_params &params, const DqOperands &operands, int32_t tile,
                                 int32_t end_tile)
{
    if (tile < end_tile) {
        const int32_t first_key = tile * kSliceN;
        const int32_t valid_keys = operands.length_k - first_key;
        const DqKeyTile keys = {shared + kDqKeys + tile % kDqStages * DqKeyTile::kBytes};
        copy_rows<kDqThreads, kHeadDim>(keys, operands.k + first_key * params.k_stride_row, params.k_stride_row, valid_keys);
        const DqValueTile values = {shared + kDqValues + tile % kDqStages * DqValueTile::kBytes};
        copy_rows<kDqThreads, kHeadDimV>(values, operands.v + first_key * params.v_stride_row, params.v_stride_row,
                                         valid_keys);
    }
    cp_async_commit_group();
}

/* Packed A fragments of dS of 16 keys. */
__device__ inline void grade_keys(uint32_t (&slopes)[1][4], const float (&scores)[1][kSliceN / 8][4],
                                  const float (&products)[1][kSliceN / 8][4], int step, const gdpa_bwd_params &params,
                                  float inner)
{
#pragma unroll
    for (int i = 0; i < 4; ++i) { // i % 2: upper or lower 8 rows; i / 2: lower or upper 8 keys
        float results[2];
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            const float score = scores[0][2 * step + i / 2][i % 2 * 2 + j] * params.scale;
            const float slope = activation_pair(score, params.activation_param).slope;
            results[j] = slope * products[0][2 * step + i / 2][i % 2 * 2 + j];
        }
        slopes[0][i] = pack_input(results[0], results[1]);
    }
}

__device__ inline void hide_keys(uint32_t (&slopes)[1][4], int32_t distance)
{
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        slopes[0][i] = hide_next_key(slopes[0][i], distance + i % 2 * 8 - i / 2 * 8);
    }
}

extern "C" __global__ __launch_bounds__(kDqThreads) void gdpa_bwd_sm90_d128_bf16_fast_gelu_wl512_jqjk_deterministic_portable_f6f13a70_dq(
    const __grid_constant__ gdpa_bwd_params params)
{
    const uint32_t shared = dynamic_shared_base();
    const uint32_t warp = tid_x() / 32;
    const uint32_t lane = tid_x() % 32;
    const int64_t tile = block_number();
    if (tile >= params.num_query_tiles) {
        return;
    }
    const GradientTile work = find_query_tile(params, tile);
    if (work.batch < 0) {
        return;
    }
    const Sequence q = find_sequence(params.cu_seqlens_q, params.seqused_q, params.rows_q, work.batch);
    const Sequence k = find_sequence(params.cu_seqlens_k, params.seqused_k, params.rows_k, work.batch);
    if (work.first_row >= q.length) {
        return;
    }
    const int32_t first_row = static_cast<int32_t>(work.first_row);
    const int32_t valid_rows = q.length - first_row < kBlockM ? q.length - first_row : kBlockM;
    const KeyRange range = visible_keys(first_row, first_row + valid_rows - 1, q.length, k.length);
    const int32_t begin_tile = range.begin / kSliceN;
    const int32_t end_tile = (range.end + kSliceN - 1) / kSliceN;

    const int64_t row = q.first_row + first_row;
    const int32_t head_k = work.head / params.heads_per_group;
    const DqQueryTile queries = {shared};
    const DqGradientTile gradients = {shared + kDqGradients};
    copy_rows<kDqThreads, kHeadDim>(queries,
                                    static_cast<const uint16_t *>(params.q) + work.batch * params.q_stride_batch +
                                        row * params.q_stride_row + work.head * params.q_stride_head,
                                    params.q_stride_row, valid_rows);
    copy_rows<kDqThreads, kHeadDimV>(gradients,
                                     static_cast<const uint16_t *>(params.dout) + work.batch * params.dout_stride_batch +
                                         row * params.dout_stride_row + work.head * params.dout_stride_head,
                                     params.dout_stride_row, valid_rows);
    const DqOperands operands = {static_cast<const uint16_t *>(params.k) + work.batch * params.k_stride_batch +
                                     k.first_row * params.k_stride_row + head_k * params.k_stride_head,
                                 static_cast<const uint16_t *>(params.v) + work.batch * params.v_stride_batch +
                                     k.first_row * params.v_stride_row + head_k * params.v_stride_head,
                                 k.length};
    copy_keys(shared, params, operands, begin_tile, end_tile); // the query tiles share the first group
    const GradientFactors factors = gradient_factors(params);
    const int64_t offset = key_offset(q.length, k.length);
    const int32_t lane_place = static_cast<int32_t>(warp * 16 + lane / 4 - lane % 4 * 2);

    float sums[1][kSumColumns / 8][4] = {};
    for (int32_t tile_k = begin_tile; tile_k < end_tile; ++tile_k) {
        cp_async_wait_group<0>(); // this tile is there,
        bar_sync_0();             // for every thread, and the tile before is no longer read
        copy_keys(shared, params, operands, tile_k + 1, end_tile);
        const DqKeyTile keys = {shared + kDqKeys + tile_k % kDqStages * DqKeyTile::kBytes};
        const DqValueTile values = {shared + kDqValues + tile_k % kDqStages * DqValueTile::kBytes};
        float scores[1][kSliceN / 8][4] = {};
        multiply_tiles<DqQueryTile::kUnits / 2>(scores, queries, warp * 16, keys, 0);
        float products[1][kSliceN / 8][4] = {};
        multiply_tiles<DqGradientTile::kUnits / 2>(products, gradients, warp * 16, values, 0);
        const bool needs_mask = tile_needs_mask(first_row, first_row + valid_rows - 1, offset, tile_k * kSliceN);
#pragma unroll
        for (int step = 0; step < kSliceN / 16; ++step) {
            uint32_t slopes[1][4];
            grade_keys(slopes, scores, products, step, params, factors.inner);
            if (needs_mask) {
                hide_keys(slopes, static_cast<int32_t>(first_row + offset - tile_k * kSliceN) + lane_place - step * 16);
            }
            multiply_columns(sums, slopes, keys, step * 16, 0);
        }
    }
    cp_async_wait_group<0>(); // what is still on its way must not outlive the block

    Gradient *const dq = static_cast<Gradient *>(params.dq) + work.batch * params.dq_stride_batch +
                         row * params.dq_stride_row + work.head * params.dq_stride_head;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const uint32_t place = warp * 16 + half * 8 + lane / 4;
        if (static_cast<int32_t>(place) < valid_rows) {
#pragma unroll
            for (int n = 0; n < kHeadDim / 8; ++n) {
                store_gradients(dq + place * params.dq_stride_row + n * 8 + lane % 4 * 2, sums[0][n][2 * half],
                                sums[0][n][2 * half + 1], factors.outer, params.accumulate != 0);
            }
        }
    }
}

