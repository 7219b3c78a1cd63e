/*
 * Made by libgdpajit 0.1.0. The kernel is at the end, what it calls before it.
 *
 * spec       fwd head_dim=64 dtype=bf16 activation=fast_gelu layout_q=jagged layout_k=jagged family=short arch=sm_90a
 * kernel     gdpa_fwd_sm90_d64_bf16_fast_gelu_jqjk_short_2520d364
 * generator  (this version)
 * plan       short block_m=32 block_n=32 slice_n=16 warps=4 threads=128 stages=1 q_in_registers=0 min_blocks=4 smem_bytes=49152 query_stages=0 value_columns=0 producer_registers=0 consumer_registers=0
 * again      gdpa-jit show source "fwd head_dim=64 dtype=bf16 activation=fast_gelu layout_q=jagged layout_k=jagged family=short arch=sm_90a"
 */

// ---- templates/config_default.cuh, with the values of this kernel
constexpr int kArch = 90;               // compute capability * 10
constexpr int kHeadDim = 64;            // columns of q and k
constexpr int kHeadDimV = 64;           // columns of v and o
constexpr int kWindowLeft = -1;         // keys to the left of the aligned one; -1: unbounded
constexpr int kWindowRight = -1;        // keys to the right of it; -1: unbounded
constexpr int kBlockM = 32;             // query rows a block
constexpr int kBlockN = 32;             // keys a tile
constexpr int kSliceN = 16;             // keys that are activated and multiplied at a time
constexpr int kWarps = 4;               // warps a block
constexpr int kThreads = 128;           // threads a block
constexpr int kStages = 1;              // key and value tiles in shared memory at a time
constexpr int kMinBlocks = 4;           // blocks an SM
constexpr int kSmemBytes = 49152;       // dynamic shared memory of a block

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
    if (end <= begin) {
        return {0, 0};
    }
    return {static_cast<int32_t>(begin), static_cast<int32_t>(end)};
}

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

// ---- templates/short_steps.cuh
/*
 * What a warp of a kernel for short sequences works on: pairs of a sequence and a head, each cut into steps of kBlockM queries and kBlockN
 * keys. A short sequence is one step; longer ones are several, with the same results as anywhere else.
 *
 * Each block has a piece of the line of all pairs, the head running fastest, and its warps take them in turn: then neighbours read rows
 * that lie side by side. Offsets and lengths are loaded a pair ahead.
 */

/* What the device says of a sequence, as it came: nobody waits for the loads before the words are used. */
struct SequenceWords {
    int32_t first;
    int32_t end;
    int32_t used;
};

/* cu_seqlens, seqused: as of find_sequence in sequence.cuh. Numbers of rows fit 32 bits. */
__device__ inline SequenceWords load_sequence_words(const int32_t *cu_seqlens, const int32_t *seqused, int64_t rows,
                                                    int32_t batch)
{
    SequenceWords words = {0, static_cast<int32_t>(rows), static_cast<int32_t>(rows)};
    if (cu_seqlens != nullptr) {
        words.first = ld_global_nc_s32(cu_seqlens + batch);
        words.end = ld_global_nc_s32(cu_seqlens + batch + 1);
    }
    if (seqused != nullptr) {
        words.used = ld_global_nc_s32(seqused + batch);
    }
    return words;
}

__device__ inline int32_t clamp_s32(int32_t value, int32_t lowest, int32_t highest)
{
    return value < lowest ? lowest : value > highest ? highest : value;
}

/* One side of a pair: nothing in the words is trusted, rows stay inside [0, rows). */
struct Rows {
    int32_t first;
    int32_t length;
};

__device__ inline Rows clamp_rows(const SequenceWords &words, int64_t rows)
{
    const int32_t first = clamp_s32(words.first, 0, static_cast<int32_t>(rows));
    const int32_t end = clamp_s32(words.end, first, static_cast<int32_t>(rows));
    return {first, clamp_s32(words.used, 0, end - first)};
}

struct Step {
    int32_t batch;
    int32_t head;
    Rows q;
    Rows k;
    int32_t row;     // first query of the step, in its sequence
    int32_t rows;    // kBlockM at most
    int32_t key;     // first key of the step, likewise
    int32_t end_key; // behind the last key that the queries see; not behind `key`: they see none
};

/* The way of a warp through its pairs. */
struct PairWalk {
    int32_t left;  // pairs ahead, in steps of kWarps
    int32_t batch; // of the pair ahead
    int32_t head;
    int32_t batch_step;
    int32_t head_step;
    SequenceWords q;
    SequenceWords k;
};

__device__ inline void load_pair_ahead(PairWalk &walk, const gdpa_fwd_params &params)
{
    if (walk.left > 0) {
        walk.q = load_sequence_words(params.cu_seqlens_q, params.seqused_q, params.rows_q, walk.batch);
        walk.k = load_sequence_words(params.cu_seqlens_k, params.seqused_k, params.rows_k, walk.batch);
    }
}

__device__ inline PairWalk begin_walk(const gdpa_fwd_params &params, uint32_t warp)
{
    // A share fits 32 bits, whatever the number of pairs: a launch has at most 2^16 tiles for each block that it could have.
    const int64_t share = (params.num_tiles + nctaid_x() - 1) / nctaid_x();
    const int64_t first = ctaid_x() * share + warp;
    const int64_t pairs_left = params.num_tiles - ctaid_x() * share;
    PairWalk walk;
    walk.left = static_cast<int32_t>(pairs_left < share ? pairs_left : share) - static_cast<int32_t>(warp);
    walk.batch = static_cast<int32_t>(first / params.heads_q);
    walk.head = static_cast<int32_t>(first - static_cast<int64_t>(walk.batch) * params.heads_q);
    walk.batch_step = kWarps / params.heads_q;
    walk.head_step = kWarps - walk.batch_step * params.heads_q;
    load_pair_ahead(walk, params);
    return walk;
}

/* The pair ahead becomes that of the step; false when there is none. */
__device__ inline bool take_pair(Step &step, PairWalk &walk, const gdpa_fwd_params &params)
{
    if (walk.left <= 0) {
        return false;
    }
    step.batch = walk.batch;
    step.head = walk.head;
    step.q = clamp_rows(walk.q, params.rows_q);
    step.k = clamp_rows(walk.k, params.rows_k);
    step.row = 0;
    walk.left -= kWarps;
    walk.batch += walk.batch_step;
    walk.head += walk.head_step;
    if (walk.head >= params.heads_q) {
        walk.head -= params.heads_q;
        ++walk.batch;
    }
    load_pair_ahead(walk, params);
    return true;
}

__device__ inline int32_t keys_of(const Step &step)
{
    const int32_t left = step.end_key - step.key;
    return left < kBlockN ? left : kBlockN;
}

/* Whether the queries of the step see no keys behind its own. */
__device__ inline bool is_last_of_queries(const Step &step)
{
    return step.end_key - step.key <= kBlockN;
}

/* Queries that see more keys than those of one step come in steps of so many: their sums are carried on in registers. */
constexpr int32_t kCarriedRows = 16;

/* From a step to the next one of the warp; false when there is none. Before the first step all of it is 0. */
__device__ inline bool next_step(Step &step, PairWalk &walk, const gdpa_fwd_params &params)
{
    if (!is_last_of_queries(step)) {
        step.key += kBlockN;
        return true;
    }
    step.row += step.rows;
    while (step.row >= step.q.length) {
        if (!take_pair(step, walk, params)) {
            return false;
        }
    }
    const int32_t rows_left = step.q.length - step.row;
    step.rows = rows_left < kBlockM ? rows_left : kBlockM;
    KeyRange range = visible_keys(step.row, step.row + step.rows - 1, step.q.length, step.k.length);
    if (range.end - range.begin > kBlockN && step.rows > kCarriedRows) {
        step.rows = kCarriedRows;
        range = visible_keys(step.row, step.row + step.rows - 1, step.q.length, step.k.length);
    }
    step.key = range.begin;
    step.end_key = range.end;
    return true;
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

// ---- templates/warp_rows.cuh
/*
 * Rows of a tile that a warp copies and stores by itself, without the rest of its block.
 */

constexpr int kValueTiles = round_up(kHeadDimV, 16) / 8; // of 8 columns of the output

/* Sums of kTiles tiles of 16 rows. */
template <int kTiles> using Output = float[kTiles][kValueTiles][4];

/*
 * Where a lane finds its unit of each row when kLaneUnits lanes share a row, a power of 2: the lanes cover 32 / kLaneUnits rows, and from the
 * ones to the next ones only the swizzle and a constant differ.
 */
template <typename Tile, int kLaneUnits> struct LaneUnits {
    static constexpr int kRowStep = 32 / kLaneUnits;

    uint32_t row; // of the first rows
    uint32_t unit;
    uint32_t base;
    uint32_t place;

    __device__ explicit LaneUnits(const Tile &tile)
    {
        const uint32_t lane = tid_x() % 32;
        row = lane / kLaneUnits;
        unit = lane % kLaneUnits;
        base = tile.base + unit / Tile::kChunkUnits * Tile::kChunkBytes + row * Tile::kRowBytes;
        place = (unit % Tile::kChunkUnits ^ Tile::swizzle(row)) * 16;
    }

    /* The address of the lane's unit in row first_row + row; first_row is a multiple of kRowStep. */
    __device__ uint32_t address(uint32_t first_row) const
    {
        return base + (place ^ Tile::swizzle(first_row) * 16) + first_row * Tile::kRowBytes;
    }
};

template <int kHeadColumns, typename Tile>
__device__ inline void copy_16_rows(const Tile &tile, const uint16_t *source, int64_t row_stride, int32_t valid_rows,
                                    int first_row)
{
    if constexpr (32 % Tile::kUnits == 0) {
        const LaneUnits<Tile, Tile::kUnits> units(tile);
        const uint16_t *place = source + (first_row + units.row) * row_stride + units.unit * 8;
#pragma unroll
        for (int row = first_row; row < first_row + 16; row += units.kRowStep) {
            const bool valid =
                static_cast<int32_t>(units.row) < valid_rows - row && units.unit < kHeadColumns / 8;
            load_unit(units.address(row), place, valid);
            place += units.kRowStep * row_stride;
        }
    } else {
        // Not unrolled: the addresses would stay in registers.
#pragma unroll 1
        for (uint32_t index = tid_x() % 32; index < 16 * Tile::kUnits; index += 32) {
            const uint32_t row = first_row + index / Tile::kUnits;
            const uint32_t unit = index % Tile::kUnits;
            const bool valid = static_cast<int32_t>(row) < valid_rows && unit < kHeadColumns / 8;
            load_unit(tile.unit_address(row, unit), source + row * row_stride + unit * 8, valid);
        }
    }
}

/* Rows from valid_rows on are zeros up to the next multiple of 16, behind that they are not touched. */
template <int kHeadColumns, typename Tile>
__device__ inline void copy_warp_rows(const Tile &tile, const uint16_t *source, int64_t row_stride, int32_t valid_rows)
{
#pragma unroll
    for (int block = 0; block < Tile::kRows; block += 16) {
        if (block < valid_rows) {
            copy_16_rows<kHeadColumns>(tile, source, row_stride, valid_rows, block);
        }
    }
}

template <int kTiles, typename Tile>
__device__ inline void stage_fragments(const Output<kTiles> &output, float factor, const Tile &staging)
{
    const uint32_t lane = tid_x() % 32;
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
#pragma unroll
        for (int n = 0; n < kValueTiles; n += 2) {
            uint32_t packed[4]; // matrices: (rows 0-7, 8-15) x (columns 0-7, 8-15), rows faster
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float(&pair)[4] = output[m][n + i / 2];
                packed[i] = pack_output(scale_output(pair[i % 2 * 2], factor), scale_output(pair[i % 2 * 2 + 1], factor));
            }
            if constexpr (kArch >= 90) {
                stmatrix_x4(step_address(staging, lane % 16, lane / 16, m * 16, n / 2), packed[0], packed[1], packed[2],
                            packed[3]);
            } else {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    st_shared_b32(staging.unit_address(m * 16 + i % 2 * 8 + lane / 4, n + i / 2) + lane % 4 * 4,
                                  packed[i]);
                }
            }
        }
    }
}

/* The first `rows` rows of those that were staged. */
template <int kTiles, typename Tile>
__device__ inline void store_staged(const Tile &staging, uint16_t *target, int64_t row_stride, int32_t rows)
{
    constexpr int kUnits = kHeadDimV / 8;
    uint32_t words[4];
    if constexpr (32 % kUnits == 0) {
        const LaneUnits<Tile, kUnits> units(staging);
        uint16_t *place = target + units.row * row_stride + units.unit * 8;
        // Of 8 columns one load of the warp is more rows than a tile of 16 has: those behind are neither there nor this step's.
        const bool staged = units.kRowStep <= kTiles * 16 || units.row < kTiles * 16;
#pragma unroll
        for (int row = 0; row < kTiles * 16; row += units.kRowStep) {
            if (staged) { // whether there is such a row is asked later: under that condition each load would have its own address
                ld_shared_v4_b32(words, units.address(row));
            }
            if (staged && static_cast<int32_t>(units.row) < rows - row) {
                st_global_v4_b32(place, words);
            }
            place += units.kRowStep * row_stride;
        }
    } else {
#pragma unroll 1
        for (uint32_t index = tid_x() % 32; index < kTiles * 16 * kUnits; index += 32) {
            const uint32_t row = index / kUnits;
            const uint32_t unit = index % kUnits;
            if (static_cast<int32_t>(row) < rows) {
                ld_shared_v4_b32(words, staging.unit_address(row, unit));
                st_global_v4_b32(target + row * row_stride + unit * 8, words);
            }
        }
    }
}

/*
 * Scales, rounds and stores the first `rows` rows. o_offset: elements, of row 0. 16-bit results go through `staging`, which no lane
 * reads any more, so that the warp stores whole rows; fp32 ones go straight from the fragments.
 */
template <int kTiles, typename Tile>
__device__ inline void store_warp_rows(const Output<kTiles> &output, float factor, const Tile &staging, void *o,
                                       int64_t o_offset, int64_t row_stride, int32_t rows)
{
    stage_fragments<kTiles>(output, factor, staging);
    bar_warp_sync();
    store_staged<kTiles>(staging, static_cast<uint16_t *>(o) + o_offset, row_stride, rows);
}

template <int kTiles> __device__ inline void clear(Output<kTiles> &output)
{
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
#pragma unroll
        for (int n = 0; n < kValueTiles; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                output[m][n][i] = 0.0f;
            }
        }
    }
}

// ---- templates/fwd_short.cuh
/*
 * Forward kernel for sequences far shorter than a tile of the other kernels, from sm_80 on: each warp works on its own.
 *
 * A warp takes one (sequence, head) after the other, in steps of kBlockM queries and kBlockN keys (short_steps.cuh): Q, K and V of a step
 * lie in its own part of shared memory, and it waits for nobody. What the next step needs is asked for as soon as the place is free:
 *
 *     copies   Q K | V          | Q' K'              | V'      | Q" K" ...
 *     math         | P = f(Q K) |    O = P V | store O         | P' = f(Q' K') ...
 *
 * Of 16 rows that a step does not have, nothing is copied or multiplied. Many warps an SM hide what this leaves open.
 */

using QueryTile = SharedTile<kBlockM, kHeadDim>;
using KeyTile = SharedTile<kBlockN, kHeadDim>;
using ValueTile = SharedTile<kBlockN, kHeadDimV>;
using OutputTile = SharedTile<kBlockM, kHeadDimV>; // staged in the place of the values

constexpr int kRowTiles = kBlockM / 16;
constexpr int kKeySteps = kBlockN / 16;
constexpr int kDepthSteps = QueryTile::kUnits / 2; // of 16 columns
constexpr int kWarpBytes = round_up(QueryTile::kBytes + KeyTile::kBytes + ValueTile::kBytes, 1024);
static_assert(kWarpBytes * kWarps <= kSmemBytes, "the plan gave too little shared memory");
static_assert(kBlockM <= kBlockN, "the output is staged where the values were");
static_assert(kRowTiles <= 2, "one tile of 16 rows, or all of them");

using Weights = uint32_t[kKeySteps][kRowTiles][4]; // A fragments of P

struct WarpTiles {
    QueryTile queries;
    KeyTile keys;
    ValueTile values;
};

/* Queries, where the step before had others, and keys of a step. */
__device__ inline void load_queries_and_keys(const WarpTiles &tiles, const gdpa_fwd_params &params, const Step &step,
                                             bool new_queries)
{
    if (new_queries) {
        const uint16_t *queries = static_cast<const uint16_t *>(params.q) + step.batch * params.q_stride_batch +
                                  (step.q.first + step.row) * params.q_stride_row + step.head * params.q_stride_head;
        copy_warp_rows<kHeadDim>(tiles.queries, queries, params.q_stride_row, step.rows);
    }
    const int32_t head_k = step.head / params.heads_per_group;
    const uint16_t *keys = static_cast<const uint16_t *>(params.k) + step.batch * params.k_stride_batch +
                           (step.k.first + step.key) * params.k_stride_row + head_k * params.k_stride_head;
    copy_warp_rows<kHeadDim>(tiles.keys, keys, params.k_stride_row, keys_of(step));
}

__device__ inline void load_values(const WarpTiles &tiles, const gdpa_fwd_params &params, const Step &step)
{
    const int32_t head_k = step.head / params.heads_per_group;
    const uint16_t *values = static_cast<const uint16_t *>(params.v) + step.batch * params.v_stride_batch +
                             (step.k.first + step.key) * params.v_stride_row + head_k * params.v_stride_head;
    copy_warp_rows<kHeadDimV>(tiles.values, values, params.v_stride_row, keys_of(step));
}

/* P of kTiles tiles of 16 rows and of the keys that there are, in steps of 16. */
template <int kTiles>
__device__ inline void weigh_keys(Weights &weights, const WarpTiles &tiles, const Step &step,
                                  const ActivationConstants &constants)
{
#pragma unroll
    for (int part = 0; part < kKeySteps; ++part) {
        if (part * 16 < keys_of(step)) {
            float scores[kTiles][2][4] = {};
            multiply_tiles<kDepthSteps>(scores, tiles.queries, 0, tiles.keys, part * 16);
#pragma unroll
            for (int m = 0; m < kTiles; ++m) {
#pragma unroll
                for (int i = 0; i < 4; ++i) { // i % 2: upper or lower 8 rows; i / 2: lower or upper 8 keys
                    const float(&pair)[4] = scores[m][i / 2];
                    uint32_t packed = activation_pack(pair[i % 2 * 2] * activation_turn(constants),
                                                      pair[i % 2 * 2 + 1] * activation_turn(constants), constants);
                    weights[part][m][i] = packed;
                }
            }
        }
    }
}

template <int kTiles>
__device__ inline void add_values(Output<kTiles> &output, const Weights &weights, const ValueTile &values, int32_t keys)
{
    const uint32_t lane = tid_x() % 32;
#pragma unroll
    for (int part = 0; part < kKeySteps; ++part) {
        if (part * 16 < keys) {
#pragma unroll
            for (int n = 0; n < kValueTiles / 2; ++n) {
                uint32_t b[4]; // matrices: (keys 0-7, 8-15) x (columns 0-7, 8-15), keys faster
                ldmatrix_x4_trans(b, step_address(values, lane % 16, lane / 16, part * 16, n));
#pragma unroll
                for (int m = 0; m < kTiles; ++m) {
                    mma_m16n8k16(output[m][2 * n], weights[part][m], b[0], b[1]);
                    mma_m16n8k16(output[m][2 * n + 1], weights[part][m], b[2], b[3]);
                }
            }
        }
    }
}

/* The output of a step whose values nobody reads any more. */
template <int kTiles>
__device__ inline void store_output(const Output<kTiles> &output, float factor, const WarpTiles &tiles,
                                    const gdpa_fwd_params &params, const Step &step)
{
    const int64_t place = step.batch * params.o_stride_batch + (step.q.first + step.row) * params.o_stride_row +
                          step.head * params.o_stride_head;
    const OutputTile staging = {tiles.values.base};
    bar_warp_sync();
    store_warp_rows<kTiles>(output, factor, staging, params.o, place, params.o_stride_row, step.rows);
}

extern "C" __global__ __launch_bounds__(kThreads, kMinBlocks) void gdpa_fwd_sm90_d64_bf16_fast_gelu_jqjk_short_2520d364(
    const __grid_constant__ gdpa_fwd_params params)
{
    const uint32_t warp = tid_x() / 32;
    const uint32_t own = dynamic_shared_base() + warp * kWarpBytes;
    const WarpTiles tiles = {{own}, {own + QueryTile::kBytes}, {own + QueryTile::kBytes + KeyTile::kBytes}};
    const ActivationConstants constants =
        activation_constants(params.scale, params.out_scale, params.activation_param);
    PairWalk walk = begin_walk(params, warp);
    Step step = {};
    if (!next_step(step, walk, params)) {
        return;
    }
    load_queries_and_keys(tiles, params, step, true);
    cp_async_commit_group();
    load_values(tiles, params, step);
    cp_async_commit_group();
    Output<1> carried = {};
    while (true) {
        const bool many_rows = kRowTiles > 1 && step.rows > 16;
        Weights weights;
        cp_async_wait_group<1>(); // queries and keys are there,
        bar_warp_sync();          // for every lane
        if (many_rows) {
            weigh_keys<kRowTiles>(weights, tiles, step, constants);
        } else {
            weigh_keys<1>(weights, tiles, step, constants);
        }
        Step next = step;
        const bool more = next_step(next, walk, params);
        bar_warp_sync(); // nobody reads them any more
        if (more) {
            load_queries_and_keys(tiles, params, next, is_last_of_queries(step));
        }
        cp_async_commit_group();

        cp_async_wait_group<1>(); // the values are there
        bar_warp_sync();
        if (many_rows) {
            Output<kRowTiles> output = {};
            add_values<kRowTiles>(output, weights, tiles.values, keys_of(step));
            store_output<kRowTiles>(output, constants.epilogue, tiles, params, step);
            clear(carried);
        } else {
            add_values<1>(carried, weights, tiles.values, keys_of(step));
            if (is_last_of_queries(step)) {
                store_output<1>(carried, constants.epilogue, tiles, params, step);
                clear(carried);
            }
        }
        if (!more) {
            return;
        }
        bar_warp_sync(); // nor the values, nor what was staged in their place
        load_values(tiles, params, next);
        cp_async_commit_group();
        step = next;
    }
}
