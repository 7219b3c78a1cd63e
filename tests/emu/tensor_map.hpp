/*
 * Tensor maps: what cuTensorMapEncodeTiled puts into its opaque 128 bytes, in the emulator's own layout.
 */
#ifndef GDPA_EMU_TENSOR_MAP_HPP
#define GDPA_EMU_TENSOR_MAP_HPP

#include <cstdint>
#include <string>

namespace emu
{

constexpr uint32_t kMostDimensions = 5;

/* The numbers of CUtensorMapSwizzle. */
enum class Swizzle : uint8_t { None = 0, Bytes32 = 1, Bytes64 = 2, Bytes128 = 3 };

struct TensorMap {
    uint64_t magic;
    uint64_t base;
    uint64_t sizes[kMostDimensions];       // elements, fastest dimension first
    uint64_t strides[kMostDimensions - 1]; // bytes, of dimensions 1 and up
    uint32_t box[kMostDimensions];         // elements
    uint8_t rank;
    uint8_t element_bytes;
    Swizzle swizzle;
    uint8_t fills_nan; // elements outside the tensor: 0: zeros, 1: NaN
};
static_assert(sizeof(TensorMap) <= 128, "fits the opaque bytes");

constexpr uint64_t kTensorMapMagic = 0x50414d524f534e45u;

/* What the caller of cuTensorMapEncodeTiled says; element strides are 1 and the layout is not interleaved. */
struct TensorMapRequest {
    uint32_t element_bytes = 2;
    uint32_t rank = 1;
    const void *base = nullptr;
    const uint64_t *sizes = nullptr;
    const uint64_t *strides = nullptr;
    const uint32_t *box = nullptr;
    Swizzle swizzle = Swizzle::None;
    bool fills_nan = false;
};

/* Fills 128 bytes. "", or which rule of the driver's manual the request breaks. */
std::string tensor_map_encode(void *map, const TensorMapRequest &request);

/* A shared address as the swizzle moves it: 16-byte units change places inside 8 rows of 128 bytes. */
inline uint32_t swizzled(uint32_t address, Swizzle swizzle)
{
    switch (swizzle) {
    case Swizzle::None:
        return address;
    case Swizzle::Bytes32:
        return address ^ (address >> 7 & 1) << 4;
    case Swizzle::Bytes64:
        return address ^ (address >> 7 & 3) << 4;
    case Swizzle::Bytes128:
        return address ^ (address >> 7 & 7) << 4;
    }
    return address;
}

} // namespace emu

#endif
