/*
 * Faults of the host CPU in kernel code (a plain pointer outside every tensor, a stack that overflows, a trap of the compiler's
 * checks) become reports of the emulator.
 */
#ifndef GDPA_EMU_FAULTS_HPP
#define GDPA_EMU_FAULTS_HPP

#include <csignal>
#include <memory>

namespace emu
{

/* Catches SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGTRAP of kernel code while it exists. */
class FaultHandler
{
  public:
    FaultHandler();
    ~FaultHandler();
    FaultHandler(const FaultHandler &) = delete;
    FaultHandler &operator=(const FaultHandler &) = delete;

  private:
    static constexpr int kSignals = 5;
    struct sigaction before_[kSignals];
    stack_t stack_before_;
    std::unique_ptr<unsigned char[]> stack_;
};

} // namespace emu

#endif
