/*
 * What tests/emu/conformance/pipeline.cu must give: O_b = A_b B_b in bf16.
 */
#include "conformance.hpp"
#include "include/gdpajit.h"

#include <cstring>

extern "C" {
#include "tests/support/half.h"
#include "tests/support/random.h"
}

namespace emu
{

static constexpr uint32_t kBlocks = 4;
static constexpr uint32_t kRows = 128;
static constexpr uint32_t kSide = 64; // of a tile: k, and columns
static constexpr int32_t kMostTiles = 5;
static const int32_t tiles_of_block[kBlocks] = {5, 0, 1, 4};
/* bf16 elements of A and B of a block; words in front of them. */
static constexpr size_t kElementsA = size_t{kRows} * kMostTiles * kSide;
static constexpr size_t kElementsB = size_t{kSide} * kMostTiles * kSide;
static constexpr size_t kHead = 64;
static constexpr size_t kInputWords = kHead + kBlocks * (kElementsA + kElementsB) / 2;
static constexpr size_t kOutputWords = size_t{kBlocks} * kRows * kSide / 2;

static std::vector<uint32_t> make_input(uint64_t seed)
{
    random_source source = {seed, 0};
    std::vector<uint32_t> input(kInputWords);
    memcpy(input.data(), tiles_of_block, sizeof tiles_of_block);
    for (size_t i = 0; i < kBlocks * (kElementsA + kElementsB); ++i) {
        dtype_store(GDPA_DTYPE_BF16, input.data() + kHead, static_cast<int64_t>(i), random_normal(&source));
    }
    return input;
}

static std::vector<Expected> expect(const std::vector<uint32_t> &input)
{
    std::vector<Expected> all(kOutputWords);
    const uint32_t *elements = input.data() + kHead;
    for (uint32_t i = 0; i < kBlocks * kRows * kSide; ++i) {
        const uint32_t block = i / (kRows * kSide);
        const uint32_t row = i / kSide % kRows;
        const uint32_t column = i % kSide;
        double sum = 0, magnitude = 0;
        for (int32_t k = 0; k < tiles_of_block[block] * static_cast<int32_t>(kSide); ++k) {
            const size_t a = block * kElementsA + size_t{row} * kMostTiles * kSide + static_cast<size_t>(k);
            const size_t b = kBlocks * kElementsA + block * kElementsB + static_cast<size_t>(k) * kSide + column;
            const double product = dtype_load(GDPA_DTYPE_BF16, elements, static_cast<int64_t>(a)) *
                                   dtype_load(GDPA_DTYPE_BF16, elements, static_cast<int64_t>(b));
            sum += product;
            magnitude += std::fabs(product);
        }
        Expected &word = all[i / 2];
        word.kind = Expected::Near;
        word.packed = 1;
        (i % 2 == 0 ? word.value : word.value2) = sum;
        word.tolerance = std::fmax(word.tolerance, std::fabs(sum) * 0x1p-8 + magnitude * 0x1p-17);
    }
    return all;
}

static bool encode(const EncodeMap &encode_map, uint64_t base, const uint64_t (&sizes)[3], uint32_t rows,
                   unsigned char *map)
{
    const uint64_t strides[2] = {sizes[0] * 2, sizes[0] * sizes[1] * 2};
    const uint32_t box[3] = {kSide, rows, 1};
    TensorMapRequest request;
    request.rank = 3;
    request.base = reinterpret_cast<const void *>(static_cast<uintptr_t>(base));
    request.sizes = sizes;
    request.strides = strides;
    request.box = box;
    request.swizzle = Swizzle::Bytes128;
    return encode_map(map, request, false);
}

static bool parameters(uint64_t input, uint64_t output, const EncodeMap &encode_map, std::vector<unsigned char> *bytes,
                       std::vector<size_t> *starts)
{
    bytes->assign(3 * 128 + 64, 0);
    *starts = {0};
    const uint64_t a = input + kHead * 4;
    const uint64_t b = a + kBlocks * kElementsA * 2;
    memcpy(bytes->data() + 3 * 128, &input, 8);
    return encode(encode_map, a, {kMostTiles * kSide, kRows, kBlocks}, kRows, bytes->data()) &&
           encode(encode_map, b, {kSide, kMostTiles * kSide, kBlocks}, kSide, bytes->data() + 128) &&
           encode(encode_map, output, {kSide, kRows, kBlocks}, kSide, bytes->data() + 256);
}

static std::vector<Section> sections()
{
    constexpr size_t kWords = size_t{kRows} * kSide / 2;
    return {{"5 tiles", 0, kWords},
            {"no tile", kWords, kWords},
            {"1 tile", 2 * kWords, kWords},
            {"4 tiles", 3 * kWords, kWords}};
}

std::vector<ConformanceCase> conformance_pipeline()
{
    ConformanceCase one = {};
    one.name = "wgmma pipeline";
    one.file = "pipeline.cu";
    one.options = {"bf16"};
    one.arch = 90;
    one.blocks = kBlocks;
    one.threads = 384;
    one.shared_bytes = 8 * 8192 + 64;
    one.cluster = 1;
    one.input_words = kInputWords;
    one.output_words = kOutputWords;
    one.make_input = make_input;
    one.expect = expect;
    one.sections = sections;
    one.parameters = parameters;
    return {one};
}

} // namespace emu
