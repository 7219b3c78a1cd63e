/*
 * The rules of cuTensorMapEncodeTiled; see tensor_map.hpp.
 */
#include "tensor_map.hpp"
#include "text.hpp"

#include <cstring>

namespace emu
{

static constexpr uint64_t kUnit = 16;

static std::string check_dimensions(const TensorMapRequest &request)
{
    for (uint32_t i = 0; i < request.rank; ++i) {
        if (request.sizes[i] == 0 || request.sizes[i] > uint64_t{1} << 32) {
            return text("size %llu of dimension %u is not in 1 to 2^32",
                        static_cast<unsigned long long>(request.sizes[i]), i);
        }
        if (request.box[i] == 0 || request.box[i] > 256) {
            return text("box size %u of dimension %u is not in 1 to 256", request.box[i], i);
        }
        if (i + 1 < request.rank && (request.strides[i] % kUnit != 0 || request.strides[i] >= uint64_t{1} << 40)) {
            return text("stride %llu of dimension %u is not a multiple of 16 below 2^40",
                        static_cast<unsigned long long>(request.strides[i]), i + 1);
        }
    }
    return "";
}

std::string tensor_map_encode(void *map, const TensorMapRequest &request)
{
    if (request.rank == 0 || request.rank > kMostDimensions) {
        return text("rank %u is not in 1 to %u", request.rank, kMostDimensions);
    }
    const auto base = reinterpret_cast<uintptr_t>(request.base);
    if (base == 0 || base % kUnit != 0) {
        return text("address 0x%zx is not a multiple of 16", static_cast<size_t>(base));
    }
    const std::string wrong = check_dimensions(request);
    if (!wrong.empty()) {
        return wrong;
    }
    const uint64_t row = uint64_t{request.box[0]} * request.element_bytes;
    const uint64_t span = request.swizzle == Swizzle::None ? UINT64_MAX : kUnit << static_cast<int>(request.swizzle);
    if (row % kUnit != 0 || row > span) {
        return text("%llu bytes of the box in dimension 0 are not a multiple of 16 up to the span of the swizzle",
                    static_cast<unsigned long long>(row));
    }
    TensorMap result = {};
    result.magic = kTensorMapMagic;
    result.base = base;
    result.rank = static_cast<uint8_t>(request.rank);
    result.element_bytes = static_cast<uint8_t>(request.element_bytes);
    result.swizzle = request.swizzle;
    result.fills_nan = request.fills_nan ? 1 : 0;
    for (uint32_t i = 0; i < kMostDimensions; ++i) {
        result.sizes[i] = i < request.rank ? request.sizes[i] : 1;
        result.box[i] = i < request.rank ? request.box[i] : 1;
    }
    memcpy(result.strides, request.strides, (request.rank - 1) * sizeof(uint64_t));
    memset(map, 0, 128);
    memcpy(map, &result, sizeof result);
    return "";
}

} // namespace emu
