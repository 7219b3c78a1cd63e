/*
 * In front of every translated kernel: the words of CUDA that a host compiler does not know mean nothing here.
 */
#ifndef GDPA_EMU_KERNEL_PRELUDE_HPP
#define GDPA_EMU_KERNEL_PRELUDE_HPP

#include "tests/emu/device.hpp"

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#define __device__
#define __host__
#define __global__
#define __grid_constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

namespace emu
{

template <typename... Parameters, size_t... kIndex>
void call_kernel(void (*kernel)(Parameters...), void **parameters, std::index_sequence<kIndex...>)
{
    kernel(*static_cast<std::remove_cv_t<Parameters> *>(parameters[kIndex])...);
}

} // namespace emu

template <typename... Parameters> static void emu_call(void (*function)(Parameters...), void **parameters)
{
    emu::call_kernel(function, parameters, std::index_sequence_for<Parameters...>());
}

/* What the loader looks for: the kernel's name, and how to run it for one thread. */
#define EMU_EXPORT(kernel)                                                                                             \
    extern "C" const char emu_kernel_name[];                                                                           \
    const char emu_kernel_name[] = #kernel;                                                                            \
    extern "C" void emu_kernel_entry(void **parameters)                                                                \
    {                                                                                                                  \
        emu_call(kernel, parameters);                                                                                  \
    }

/* The second kernel of a source. */
#define EMU_EXPORT_SECOND(kernel)                                                                                      \
    extern "C" void emu_second_entry(void **parameters)                                                                \
    {                                                                                                                  \
        emu_call(kernel, parameters);                                                                                  \
    }

#endif
