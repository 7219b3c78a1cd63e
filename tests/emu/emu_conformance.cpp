/*
 * conformance: every wrapper on the GPU and in the emulator, on the same random inputs.
 *
 *     conformance                      the emulator against the PTX manual
 *     conformance --gpu                the GPU too, against the manual and against the emulator
 *     conformance --gpu --record FILE  and writes what was found
 *
 * Words that the manual defines exactly must be the same bits on both. Sums of products and approximate functions must be within their
 * bounds; how far off they were, and how many are the same bits, is told.
 */
#include "conformance_gpu.hpp"
#include "include/gdpajit.h"
#include "text.hpp"

#include <cstdio>
#include <cstring>
#include <unistd.h>

extern "C" {
#include "gen/assemble.h"
}

namespace
{

constexpr unsigned kSeconds = 300;
constexpr uint64_t kSeed = 2024;

struct Options {
    bool gpu = false;
    const char *record = nullptr;
};

/* What one section came to. */
struct Tally {
    size_t compared = 0, wrong = 0, differ = 0;
    double worst = 0, worst_emulated = 0; // shares of what is allowed
};

Tally tally(const emu::Section &section, const std::vector<emu::Expected> &expected, const std::vector<uint32_t> &found,
            const std::vector<uint32_t> &emulated)
{
    Tally result;
    for (size_t i = section.first; i < section.first + section.count; ++i) {
        if (expected[i].kind == emu::Expected::Any) {
            continue;
        }
        ++result.compared;
        const double error = emu::conformance_error(expected[i], found[i]);
        result.wrong += error > 1 ? 1 : 0;
        result.differ += found[i] != emulated[i] ? 1 : 0;
        if (error > 1 && result.wrong <= 3) {
            printf("#   word %zu: 0x%08x, expected 0x%08x or %.9g +- %.3g; the emulator has 0x%08x\n",
                   i - section.first, found[i], expected[i].bits, expected[i].value, expected[i].tolerance,
                   emulated[i]);
        }
        result.worst = std::max(result.worst, error);
        result.worst_emulated = std::max(result.worst_emulated, emu::conformance_error(expected[i], emulated[i]));
    }
    return result;
}

bool compare(const emu::ConformanceCase &one, const std::vector<uint32_t> &input, const std::vector<uint32_t> &found,
             const std::vector<uint32_t> &emulated, std::string *record)
{
    const std::vector<emu::Expected> expected = one.expect(input);
    bool passed = true;
    for (const emu::Section &section : one.sections()) {
        const Tally found_here = tally(section, expected, found, emulated);
        const bool right = found_here.wrong == 0;
        const std::string line =
            emu::text("  %-6s %-40s %6zu words, %6zu wrong, %6zu not the emulator's bits; worst %.3f, emulator %.3f of "
                      "the bound\n",
                      right ? "ok" : "FAILED", section.name.c_str(), found_here.compared, found_here.wrong,
                      found_here.differ, found_here.worst, found_here.worst_emulated);
        fputs(line.c_str(), stdout);
        *record += line;
        passed = passed && right;
    }
    return passed;
}

bool run_case(const emu::ConformanceCase &one, emu::Gpu *gpu, const emu::Compiler *compiler, std::string *record)
{
    std::string why;
    const std::string source = emu::conformance_source(one, &why);
    char hash[33];
    source_hash(source.data(), source.size(), hash);
    const std::string head = emu::text("case %s, source %s\n", one.name, hash);
    fputs(head.c_str(), stdout);
    *record += head;
    const std::vector<uint32_t> input = one.make_input(kSeed);
    std::vector<uint32_t> emulated, found;
    why = emu::conformance_emulate(one, source, input, emu::Completion::Latest, 0, &emulated);
    if (why.empty() && gpu != nullptr) {
        std::vector<char> cubin;
        if (compiler->compile(source, gpu->target(), &cubin, &why)) {
            why = gpu->run(one, cubin, input, &found);
        }
    }
    if (!why.empty()) {
        printf("  FAILED %s\n", why.c_str());
        *record += "  FAILED " + why + "\n";
        return false;
    }
    return compare(one, input, gpu != nullptr ? found : emulated, emulated, record);
}

/* wgmma exists on Hopper alone. */
bool can_run(const emu::ConformanceCase &one, int arch)
{
    return strncmp(one.name, "wgmma", 5) == 0 ? arch == 90 : arch >= one.arch;
}

int run(const Options &options, emu::Gpu *gpu, const emu::Compiler *compiler)
{
    std::string record =
        "# Every wrapper of templates/ptx/ on a GPU; written by `conformance --gpu --record`. See docs/emulator.md.\n";
    if (gpu != nullptr) {
        record += emu::text("gpu %s\ntarget %s\ndriver %s\nnvrtc %s\nseed %llu\n", gpu->name().c_str(), gpu->target(),
                            gpu->driver_version().c_str(), compiler->version().c_str(),
                            static_cast<unsigned long long>(kSeed));
    }
    bool passed = true;
    for (const emu::ConformanceCase &one : emu::conformance_cases()) {
        if (gpu == nullptr || can_run(one, gpu->arch())) {
            passed = run_case(one, gpu, compiler, &record) && passed;
        }
    }
    record += passed ? "passed\n" : "FAILED\n";
    puts(passed ? "passed" : "FAILED");
    if (options.record != nullptr) {
        FILE *file = fopen(options.record, "w");
        if (file == nullptr || fputs(record.c_str(), file) == EOF || fclose(file) != 0) {
            perror(options.record);
            return 2;
        }
    }
    return passed ? 0 : 1;
}

} // namespace

int main(int count, char **words)
{
    Options options;
    for (int i = 1; i < count; ++i) {
        if (strcmp(words[i], "--gpu") == 0) {
            options.gpu = true;
        } else if (strcmp(words[i], "--record") == 0 && i + 1 < count) {
            options.record = words[++i];
        } else {
            fprintf(stderr, "usage: conformance [--gpu [--record FILE]]\n");
            return 2;
        }
    }
    alarm(kSeconds); // a kernel that hangs does so for good
    if (!options.gpu) {
        return run(options, nullptr, nullptr);
    }
    const emu::Compiler compiler;
    emu::Gpu gpu;
    if (!compiler.usable() || !gpu.usable()) {
        fprintf(stderr, "conformance: %s%s\n", compiler.why().c_str(), gpu.why().c_str());
        return 3;
    }
    return run(options, &gpu, &compiler);
}
