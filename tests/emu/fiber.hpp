/*
 * Fibers: one a CUDA thread, each with a stack of its own, switched by hand. A switch costs a few nanoseconds on x86-64 and
 * aarch64; every other machine goes through ucontext.
 */
#ifndef GDPA_EMU_FIBER_HPP
#define GDPA_EMU_FIBER_HPP

#include <cstddef>
#include <vector>

#if !defined(__x86_64__) && !defined(__aarch64__)
#define GDPA_EMU_UCONTEXT 1
#include <ucontext.h>
#endif

namespace emu
{

/* A suspended flow of control. */
struct Fiber {
#ifdef GDPA_EMU_UCONTEXT
    ucontext_t context;
#else
    void *stack_pointer = nullptr;
#endif
};

/* Stacks with a page without access below each; all of one size. */
class FiberStacks
{
  public:
    FiberStacks() = default;
    FiberStacks(const FiberStacks &) = delete;
    FiberStacks &operator=(const FiberStacks &) = delete;
    ~FiberStacks();

    /* The lowest usable byte of stack number `index`; made on first use. */
    void *at(size_t index);
    /* Whether an address lies in a page below some stack; *index then says which. */
    bool is_guard(const void *address, size_t *index) const;

    static constexpr size_t kBytes = 128 * 1024;

  private:
    std::vector<unsigned char *> mappings_;
};

/* Lets `fiber` start in `entry`, which must never return, on a stack from FiberStacks. */
void fiber_prepare(Fiber &fiber, void *stack, void (*entry)());

/* Suspends the running flow into `from` and resumes `to`. */
void fiber_switch(Fiber &from, Fiber &to);

} // namespace emu

#endif
