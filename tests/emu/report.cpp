/*
 * Reports: who, where, what; and faults of the host CPU turned into them.
 */
#include "block.hpp"
#include "faults.hpp"
#include "text.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <ucontext.h>

namespace emu
{

/* The chain of functions inlined at a call of the engine, innermost first, as addr2line knows it; "" when it does not. */
static std::string resolve(const void *where)
{
    Dl_info info;
    if (dladdr(where, &info) == 0 || info.dli_fname == nullptr) {
        return "";
    }
    const auto offset =
        static_cast<size_t>(static_cast<const char *>(where) - static_cast<const char *>(info.dli_fbase));
    const std::string command = text("addr2line -Cfpis -e '%s' 0x%zx 2>/dev/null", info.dli_fname, offset - 1);
    FILE *pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) {
        return "";
    }
    std::string lines;
    char line[512];
    for (int count = 0; count < 6 && fgets(line, sizeof line, pipe) != nullptr; ++count) {
        line[strcspn(line, "\n")] = '\0';
        char *discriminator = strstr(line, " (discriminator");
        if (discriminator != nullptr) {
            *discriminator = '\0';
        }
        if (strstr(line, "??") == nullptr) {
            lines += text("\n      %s", line);
        }
    }
    pclose(pipe);
    return lines;
}

std::string source_lines(const void *where)
{
    static std::map<const void *, std::string> known;
    if (where == nullptr) {
        return "";
    }
    const auto found = known.find(where);
    if (found != known.end()) {
        return found->second;
    }
    return known[where] = resolve(where);
}

std::string actor_name(const Cluster &cluster, uint16_t actor)
{
    for (const auto &block : cluster.blocks) {
        if (actor < block->first_actor || actor > block->bulk_actor) {
            continue;
        }
        const std::string of_block = cluster.blocks.size() > 1 ? text(" of block %u", block->index) : "";
        const size_t local = actor - block->first_actor;
        if (local < block->threads.size()) {
            return text("thread %zu (warp %zu)%s", local, local / kWarpLanes, of_block.c_str());
        }
        if (local < block->threads.size() + block->warps.size()) {
            return text("warp %zu%s", local - block->threads.size(), of_block.c_str());
        }
        if (actor != block->bulk_actor) {
            return text("warpgroup %zu%s", local - block->threads.size() - block->warps.size(), of_block.c_str());
        }
        return "the bulk copy engine" + of_block;
    }
    return "nobody";
}

void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const std::string what = vtext(format, arguments);
    va_end(arguments);
    if (current == nullptr) {
        engine->stop(text("emulator: kernel %s: %s", engine->launch().kernel, what.c_str()));
    }
    const Thread &self = *current;
    std::string message = text("emulator: kernel %s, block %u, warp %u, thread %u: ", engine->launch().kernel,
                               self.block->index, self.warp->index, self.index);
    if (what.compare(0, strlen(self.doing), self.doing) != 0) {
        message += std::string(self.doing) + ": ";
    }
    message += what + source_lines(self.where);
    const MbarrierWait &wait = self.mbarrier_wait;
    if (wait.address != 0) {
        message +=
            text("\n  the thread's latest wait: parity %u of the mbarrier at 0x%x, when phase %u was under way%s",
                 wait.parity, wait.address, wait.phase, wait.passed_at_once ? "; it passed at once" : "");
    }
    engine->stop(message);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Faults of the CPU
 * ------------------------------------------------------------------------------------------------------------- */

static const int fault_signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};

static struct {
    int signal;
    uintptr_t address;
    const void *place; // of the instruction
} fault;

/* Runs as if the faulting instruction had called it, on a stack of its own. */
static void report_fault()
{
    current->where = static_cast<const char *>(fault.place) + 1;
    current->doing = "kernel code";
    size_t stack;
    if (fault.signal == SIGILL || fault.signal == SIGTRAP) {
        fail("undefined behaviour: an index outside an array, a shift that is too wide or a division by zero");
    }
    if (fault.signal == SIGFPE) {
        fail("integer division by zero");
    }
    if (engine->stacks.is_guard(reinterpret_cast<const void *>(fault.address), &stack)) {
        fail("the emulated thread needs more than the %zu KiB of stack it has", FiberStacks::kBytes / 1024);
    }
    const GlobalMemory *memory = engine->launch().memory;
    fail("access of address 0x%zx: %s", static_cast<size_t>(fault.address),
         memory == nullptr ? "no global memory was given" : memory->locate(fault.address).c_str());
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
    if (current == nullptr) {
        ::signal(signal, SIG_DFL);
        return;
    }
    static unsigned char spare_stack[256 * 1024] __attribute__((aligned(64)));
    auto *machine = static_cast<ucontext_t *>(context);
    fault.signal = signal;
    fault.address = reinterpret_cast<uintptr_t>(info->si_addr);
    unsigned char *top = spare_stack + sizeof spare_stack - 64;
#if defined(__x86_64__)
    fault.place = reinterpret_cast<const void *>(machine->uc_mcontext.gregs[REG_RIP]);
    machine->uc_mcontext.gregs[REG_RSP] = reinterpret_cast<greg_t>(top - 8);
    machine->uc_mcontext.gregs[REG_RIP] = reinterpret_cast<greg_t>(report_fault);
#elif defined(__aarch64__)
    fault.place = reinterpret_cast<const void *>(machine->uc_mcontext.pc);
    machine->uc_mcontext.sp = reinterpret_cast<uintptr_t>(top);
    machine->uc_mcontext.pc = reinterpret_cast<uintptr_t>(report_fault);
#else
    (void)machine;
    (void)top;
    fault.place = nullptr;
    ::signal(signal, SIG_DFL);
#endif
}

FaultHandler::FaultHandler() : stack_(new unsigned char[64 * 1024])
{
    stack_t stack = {};
    stack.ss_sp = stack_.get();
    stack.ss_size = 64 * 1024;
    sigaltstack(&stack, &stack_before_);
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (int i = 0; i < kSignals; ++i) {
        sigaction(fault_signals[i], &action, &before_[i]);
    }
}

FaultHandler::~FaultHandler()
{
    for (int i = 0; i < kSignals; ++i) {
        sigaction(fault_signals[i], &before_[i], nullptr);
    }
    sigaltstack(&stack_before_, nullptr);
}

} // namespace emu
