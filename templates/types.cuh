/*
 * Fixed-width integer names, those of a 64-bit Linux host: NVRTC compiles the generated source with no header at all.
 */
#ifndef GDPA_TYPES_CUH
#define GDPA_TYPES_CUH

using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long;
using uint64_t = unsigned long;

#endif
