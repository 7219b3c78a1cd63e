/*
 * Conformance cases through NVRTC and on a GPU.
 */
#ifndef GDPA_EMU_CONFORMANCE_GPU_HPP
#define GDPA_EMU_CONFORMANCE_GPU_HPP

#include "conformance.hpp"

struct nvrtc; // of runtime/nvrtc.h

namespace emu
{

/* The compiler that GDPAJIT_NVRTC names, or that is found as in docs/install.md. */
class Compiler
{
  public:
    Compiler();
    ~Compiler();
    Compiler(const Compiler &) = delete;
    Compiler &operator=(const Compiler &) = delete;

    bool usable() const
    {
        return nvrtc_ != nullptr;
    }
    const std::string &why() const
    {
        return why_;
    }
    std::string version() const;
    /* Code for a target such as "sm_90a"; false with the compiler's log in *log. */
    bool compile(const std::string &source, const char *target, std::vector<char> *cubin, std::string *log) const;

  private:
    ::nvrtc *nvrtc_ = nullptr;
    std::string why_;
};

/* A GPU to run cases on. */
class Gpu
{
  public:
    Gpu();
    ~Gpu();
    Gpu(const Gpu &) = delete;
    Gpu &operator=(const Gpu &) = delete;

    bool usable() const;
    const std::string &why() const
    {
        return why_;
    }
    std::string name() const;
    std::string driver_version() const;
    int arch() const;
    const char *target() const;

    /* "", or what went wrong. */
    std::string run(const ConformanceCase &what, const std::vector<char> &cubin, const std::vector<uint32_t> &input,
                    std::vector<uint32_t> *output);

  private:
    struct Parts;
    Parts *parts_;
    std::string why_;
};

} // namespace emu

#endif
