/*
 * Running a kernel on the CPU: what a test program calls. One launch at a time a process; see docs/emulator.md.
 */
#ifndef GDPA_EMU_ENGINE_HPP
#define GDPA_EMU_ENGINE_HPP

#include "global_memory.hpp"

#include <cstdint>
#include <string>

namespace emu
{

/* When asynchronous operations take place, within what the memory model allows. */
enum class Completion {
    Latest,   // when a wait asks for it
    Earliest, // when they are issued
    Random    // in between, by the seed
};

struct Launch {
    const char *kernel = "kernel";
    void (*entry)(void **parameters) = nullptr; // runs the kernel for the current thread
    void **parameters = nullptr;                // the address of each kernel parameter
    uint32_t grid = 1;                          // blocks in x
    uint32_t grid_y = 1;
    uint32_t block = 32;
    uint32_t shared_bytes = 0;
    uint32_t cluster = 1;   // blocks a cluster
    uint32_t resident = 1;  // clusters under way at a time
    uint32_t registers = 0; // a thread, at the start (setmaxnreg); 0: 65536 / block, rounded down to 8
    Completion completion = Completion::Latest;
    uint64_t seed = 0; // 0: blocks and warps in order; else shuffled
    const GlobalMemory *memory = nullptr;
};

struct LaunchResult {
    bool passed = false;
    std::string message; // of the first fault: kernel, block, thread, instruction, what is wrong, source lines
};

LaunchResult launch(const Launch &launch);

} // namespace emu

#endif
