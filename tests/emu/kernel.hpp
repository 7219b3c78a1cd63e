/*
 * From a generated CUDA source to a function that the emulator can run: translate, compile with the host's C++ compiler, load.
 */
#ifndef GDPA_EMU_KERNEL_HPP
#define GDPA_EMU_KERNEL_HPP

#include <string>

namespace emu
{

/* A loaded kernel. */
struct Kernel {
    std::string name;
    void (*entry)(void **parameters) = nullptr;
    void (*second)(void **parameters) = nullptr; // of a backward pass: dQ; what makes a schedule
};

/*
 * The C++ text of a generated source: the sections of templates/ptx/ and templates/types.cuh give way to the host bodies, the rest
 * stays as it is, on the line numbers of `path`.
 */
std::string kernel_translate(const std::string &source, const std::string &path);

/*
 * Compiles (unless a file of the same content was compiled before) and loads a generated source. Files go to `folder`. On failure the
 * name is empty and *why says what the compiler said.
 */
Kernel kernel_load(const std::string &source, const std::string &folder, std::string *why);

} // namespace emu

#endif
