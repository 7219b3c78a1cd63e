/*
 * Host bodies of templates/ptx/integer.cuh.
 */
#ifndef GDPA_EMU_PTX_INTEGER_HPP
#define GDPA_EMU_PTX_INTEGER_HPP

#include <cstdint>

inline uint32_t popc_b32(uint32_t bits)
{
    return static_cast<uint32_t>(__builtin_popcount(bits));
}

#endif
