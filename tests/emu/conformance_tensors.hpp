/*
 * Tensors of conformance cases for the copy engine, and their boxes: which byte of shared memory is which element, from the PTX manual's figures.
 */
#ifndef GDPA_EMU_CONFORMANCE_TENSORS_HPP
#define GDPA_EMU_CONFORMANCE_TENSORS_HPP

#include "conformance.hpp"

#include <cstring>

namespace emu
{

/* A tensor, its box, and where the kernel places the box. Elements have 16 bits, or 32 (fp32). */
struct Geometry {
    uint32_t rank;
    uint64_t sizes[5];
    uint64_t strides[4]; // bytes
    uint32_t box[5];
    int32_t place[5];
    Swizzle swizzle;
    uint32_t element_bytes;
};

/* Byte of unit `unit` of 16 bytes in a row of the box that starts at `row` bytes: the swizzle exchanges units inside 8 rows of 128 bytes. */
inline uint32_t box_byte(const Geometry &g, uint32_t row, uint32_t byte)
{
    const uint32_t place = row + byte;
    const uint32_t pattern = place / 128 % 8;
    const uint32_t units = 1u << static_cast<uint32_t>(g.swizzle); // that change places: 1, 2, 4, 8
    return place ^ (pattern % units) << 4;
}

/* visit(byte in shared memory, byte in the tensor or -1 when the element is outside) for every element of a box. */
template <typename Visit> void for_elements(const Geometry &g, const int32_t *place, Visit visit)
{
    uint32_t rows = 1;
    for (uint32_t i = 1; i < g.rank; ++i) {
        rows *= g.box[i];
    }
    const uint32_t row_bytes = g.box[0] * g.element_bytes;
    for (uint32_t row = 0; row < rows; ++row) {
        for (uint32_t element = 0; element < g.box[0]; ++element) {
            const int64_t first = place[0] + static_cast<int64_t>(element);
            bool inside = first >= 0 && first < static_cast<int64_t>(g.sizes[0]);
            int64_t offset = first * g.element_bytes;
            uint32_t rest = row;
            for (uint32_t i = 1; i < g.rank; ++i) {
                const int64_t coordinate = place[i] + static_cast<int64_t>(rest % g.box[i]);
                rest /= g.box[i];
                inside = inside && coordinate >= 0 && coordinate < static_cast<int64_t>(g.sizes[i]);
                offset += coordinate * static_cast<int64_t>(g.strides[i - 1]);
            }
            visit(box_byte(g, row * row_bytes, element * g.element_bytes), inside ? offset : -1);
        }
    }
}

inline uint32_t box_bytes(const Geometry &g)
{
    uint32_t bytes = g.element_bytes;
    for (uint32_t i = 0; i < g.rank; ++i) {
        bytes *= g.box[i];
    }
    return bytes;
}

inline void expect_bytes(const std::vector<unsigned char> &bytes, Expected *out)
{
    for (size_t i = 0; i < bytes.size() / 4; ++i) {
        uint32_t word;
        memcpy(&word, bytes.data() + 4 * i, 4);
        out[i] = exactly(word);
    }
}

inline bool encode_geometry(const Geometry &g, uint64_t base, const EncodeMap &encode, unsigned char *map)
{
    TensorMapRequest request;
    request.element_bytes = g.element_bytes;
    request.rank = g.rank;
    request.base = reinterpret_cast<const void *>(static_cast<uintptr_t>(base));
    request.sizes = g.sizes;
    request.strides = g.strides;
    request.box = g.box;
    request.swizzle = g.swizzle;
    return encode(map, request, g.element_bytes == 4);
}

} // namespace emu

#endif
