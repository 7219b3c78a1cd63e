/*
 * Fibers; see fiber.hpp. The switch saves what the calling convention says a function preserves, and nothing else.
 */
#include "fiber.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

namespace emu
{

static size_t page_bytes()
{
    static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return bytes;
}

FiberStacks::~FiberStacks()
{
    for (unsigned char *mapping : mappings_) {
        munmap(mapping, kBytes + page_bytes());
    }
}

void *FiberStacks::at(size_t index)
{
    while (mappings_.size() <= index) {
        void *mapping = mmap(nullptr, kBytes + page_bytes(), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (mapping == MAP_FAILED || mprotect(mapping, page_bytes(), PROT_NONE) != 0) {
            perror("emulator: no memory for the stack of a thread");
            abort();
        }
        mappings_.push_back(static_cast<unsigned char *>(mapping));
    }
    return mappings_[index] + page_bytes();
}

bool FiberStacks::is_guard(const void *address, size_t *index) const
{
    const auto place = reinterpret_cast<uintptr_t>(address);
    for (size_t i = 0; i < mappings_.size(); ++i) {
        const auto begin = reinterpret_cast<uintptr_t>(mappings_[i]);
        if (place >= begin && place < begin + page_bytes()) {
            *index = i;
            return true;
        }
    }
    return false;
}

#ifdef GDPA_EMU_UCONTEXT

void fiber_prepare(Fiber &fiber, void *stack, void (*entry)())
{
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = stack;
    fiber.context.uc_stack.ss_size = FiberStacks::kBytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, entry, 0);
}

void fiber_switch(Fiber &from, Fiber &to)
{
    swapcontext(&from.context, &to.context);
}

#else

extern "C" void emu_fiber_switch(void **from, void *to);

#if defined(__x86_64__)
asm(R"(
    .text
    .p2align 4
    .globl emu_fiber_switch
    .hidden emu_fiber_switch
    .type emu_fiber_switch, @function
emu_fiber_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size emu_fiber_switch, .-emu_fiber_switch
)");
static constexpr size_t kSavedWords = 6; // below the return address
static constexpr size_t kEntryWord = 6;
static constexpr size_t kFrameWords = 8; // the entry starts as if it had been called: 8 bytes off 16-byte alignment
#else
asm(R"(
    .text
    .p2align 4
    .globl emu_fiber_switch
    .hidden emu_fiber_switch
    .type emu_fiber_switch, %function
emu_fiber_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
    .size emu_fiber_switch, .-emu_fiber_switch
)");
static constexpr size_t kSavedWords = 20;
static constexpr size_t kEntryWord = 11; // x30
static constexpr size_t kFrameWords = 20;
#endif

void fiber_prepare(Fiber &fiber, void *stack, void (*entry)())
{
    auto *top = reinterpret_cast<uintptr_t *>(static_cast<unsigned char *>(stack) + FiberStacks::kBytes);
    uintptr_t *frame = top - kFrameWords;
    for (size_t i = 0; i < kFrameWords; ++i) {
        frame[i] = 0;
    }
    static_assert(kSavedWords <= kFrameWords, "the saved registers lie inside the frame");
    frame[kEntryWord] = reinterpret_cast<uintptr_t>(entry);
    fiber.stack_pointer = frame;
}

void fiber_switch(Fiber &from, Fiber &to)
{
    emu_fiber_switch(&from.stack_pointer, to.stack_pointer);
}

#endif

} // namespace emu
