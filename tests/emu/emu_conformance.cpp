/*
 * conformance: every wrapper on the GPU and in the emulator, on the same random inputs.
 *
 *     conformance                      the emulator against the PTX manual
 *     conformance --gpu                the GPU too, against the manual and against the emulator
 *     conformance --gpu --record FILE  and writes what was found
 *
 * Words that the manual defines exactly must be the same bits on both. Sums of products and approximate functions must be within their
 * bounds; how far off they were, and how many are the same bits, is told. Each case runs in a process of its own, so that one that stops
 * the GPU hides no other. Exit status: 0 when all passed, 1 when one did not, 3 without a GPU or a compiler.
 */
#include "conformance_gpu.hpp"
#include "conformance_record.hpp"
#include "text.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>

namespace
{

constexpr unsigned kSeconds = 60; // a case

/* Exit statuses; 2 is for wrong words and files that cannot be written. */
enum : int { kPassed = 0, kFailed = 1, kUnusable = 3, kDied = 4 };

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
    const std::string head = emu::record_head(one, source);
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

/* What a process found out: text for the record, and how it ended. */
struct Finding {
    std::string text;
    int status = kDied;
    std::string death; // why it gave no status
};

std::string read_all(int from)
{
    std::string content;
    char piece[4096];
    for (;;) {
        const ssize_t length = read(from, piece, sizeof piece);
        if (length > 0) {
            content.append(piece, static_cast<size_t>(length));
        } else if (length == 0 || errno != EINTR) {
            return content;
        }
    }
}

bool write_all(int to, const std::string &content)
{
    for (size_t done = 0; done < content.size();) {
        const ssize_t length = write(to, content.data() + done, content.size() - done);
        if (length < 0 && errno != EINTR) {
            return false;
        }
        done += length > 0 ? static_cast<size_t>(length) : 0;
    }
    return true;
}

/*
 * Runs `work`, which gives text and a status, in a process of its own: a kernel that fails takes the GPU's context of its process with it.
 * This process never touches the GPU.
 */
template <typename Work> Finding in_a_process(Work work)
{
    Finding finding;
    int ends[2];
    fflush(nullptr);
    if (pipe(ends) != 0) {
        finding.death = emu::text("no pipe: %s", strerror(errno));
        return finding;
    }
    const pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        alarm(kSeconds); // a kernel that hangs does so for good
        std::string content;
        const int status = work(&content);
        const bool written = write_all(ends[1], content);
        fflush(nullptr);
        _exit(written ? status : kDied);
    }
    close(ends[1]);
    if (child < 0) {
        finding.death = emu::text("no process: %s", strerror(errno));
    } else {
        finding.text = read_all(ends[0]);
        int status = 0;
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
        }
        if (WIFEXITED(status)) {
            finding.status = WEXITSTATUS(status);
        } else {
            finding.death = WTERMSIG(status) == SIGALRM ? emu::text("nothing came within %u seconds", kSeconds)
                                                        : emu::text("its process died by signal %d", WTERMSIG(status));
        }
    }
    close(ends[0]);
    return finding;
}

/* The first lines of a record; its last one is the number of the architecture, which is not for the record. */
int describe_gpu(std::string *content)
{
    const emu::Compiler compiler;
    const emu::Gpu gpu;
    if (!compiler.usable() || !gpu.usable()) {
        fprintf(stderr, "conformance: %s%s\n", compiler.why().c_str(), gpu.why().c_str());
        return kUnusable;
    }
    *content = emu::text("gpu %s\ntarget %s\ndriver %s\nnvrtc %s\nseed %llu\n%d", gpu.name().c_str(), gpu.target(),
                         gpu.driver_version().c_str(), compiler.version().c_str(),
                         static_cast<unsigned long long>(kSeed), gpu.arch());
    return kPassed;
}

int run_case_alone(const emu::ConformanceCase &one, bool on_gpu, std::string *record)
{
    if (!on_gpu) {
        return run_case(one, nullptr, nullptr, record) ? kPassed : kFailed;
    }
    const emu::Compiler compiler;
    emu::Gpu gpu;
    if (!compiler.usable() || !gpu.usable()) {
        const std::string line = "  FAILED " + compiler.why() + gpu.why() + "\n";
        fputs(line.c_str(), stdout);
        *record += line;
        return kFailed;
    }
    return run_case(one, &gpu, &compiler, record) ? kPassed : kFailed;
}

/* The text of a case in a record, with its result; *passed says which. */
std::string case_record(const emu::ConformanceCase &one, bool on_gpu, bool *passed)
{
    const Finding finding =
        in_a_process([&one, on_gpu](std::string *record) { return run_case_alone(one, on_gpu, record); });
    std::string record = finding.text;
    *passed = finding.status == kPassed;
    std::string end;
    if (!finding.death.empty()) {
        std::string why;
        record = record.empty() ? emu::record_head(one, emu::conformance_source(one, &why)) : record;
        end = "  FAILED " + finding.death + "\n";
    }
    end += emu::record_result(one, *passed);
    fputs(end.c_str(), stdout);
    return record + end;
}

bool write_record(const char *path, const std::string &record)
{
    FILE *file = fopen(path, "w");
    if (file == nullptr) {
        return false;
    }
    const bool written = fputs(record.c_str(), file) != EOF;
    return fclose(file) == 0 && written;
}

int run(const Options &options)
{
    std::string record =
        "# Every wrapper of templates/ptx/ on a GPU; written by `conformance --gpu --record`. See docs/emulator.md.\n";
    int arch = 0;
    if (options.gpu) {
        const Finding gpu = in_a_process(describe_gpu);
        if (gpu.status != kPassed) {
            fprintf(stderr, "%s%s", gpu.death.c_str(), gpu.death.empty() ? "" : "\n");
            return kUnusable;
        }
        const size_t last = gpu.text.rfind('\n') + 1;
        arch = atoi(gpu.text.c_str() + last);
        record += gpu.text.substr(0, last);
    }
    bool all_passed = true;
    for (const emu::ConformanceCase &one : emu::conformance_cases()) {
        if (!options.gpu || emu::conformance_runs_on(one, arch)) {
            bool passed = false;
            record += case_record(one, options.gpu, &passed);
            all_passed = all_passed && passed;
        }
    }
    record += all_passed ? "passed\n" : "FAILED\n";
    puts(all_passed ? "passed" : "FAILED");
    if (options.record != nullptr && !write_record(options.record, record)) {
        perror(options.record);
        return 2;
    }
    return all_passed ? kPassed : kFailed;
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
    return run(options);
}
