/*
 * The emulator does what the PTX manual says, instruction by instruction, whenever asynchronous operations take place.
 */
#include "conformance_gpu.hpp"
#include "include/gdpajit.h"

#include <cstring>
#include <fstream>
#include <glob.h>
#include <sstream>

#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
extern "C" {
#include "gen/assemble.h"
#include <cmocka.h>
}

static void compare(const emu::ConformanceCase &one, const std::vector<uint32_t> &input,
                    const std::vector<uint32_t> &output)
{
    const std::vector<emu::Expected> expected = one.expect(input);
    for (const emu::Section &section : one.sections()) {
        size_t wrong = 0;
        for (size_t i = section.first; i < section.first + section.count; ++i) {
            if (emu::conformance_error(expected[i], output[i]) > 1 && wrong++ < 5) {
                print_error("%s: word %zu (thread %zu) is 0x%08x, expected %s 0x%08x %.9g +- %.3g\n",
                            section.name.c_str(), i - section.first, (i - section.first) / 16, output[i],
                            expected[i].kind == emu::Expected::Exact ? "exactly" : "about", expected[i].bits,
                            expected[i].value, expected[i].tolerance);
            }
        }
        if (wrong != 0) {
            fail_msg("%s, %s: %zu words are wrong", one.name, section.name.c_str(), wrong);
        }
    }
}

static void the_emulator_does_what_the_manual_says(void **state)
{
    const auto &one = *static_cast<const emu::ConformanceCase *>(*state);
    const struct {
        emu::Completion completion;
        uint64_t seed;
    } modes[] = {{emu::Completion::Latest, 0}, {emu::Completion::Earliest, 7}, {emu::Completion::Random, 9}};
    for (const auto &mode : modes) {
        const std::vector<uint32_t> input = one.make_input(mode.seed + 1);
        assert_int_equal(input.size(), one.input_words);
        std::vector<uint32_t> output;
        std::string fault;
        const std::string source = emu::conformance_source(one, &fault);
        if (fault.empty()) {
            fault = emu::conformance_emulate(one, source, input, mode.completion, mode.seed, &output);
        }
        if (!fault.empty()) {
            fail_msg("%s", fault.c_str());
        }
        compare(one, input, output);
    }
}

/* The lowest architecture that has the instructions of the case, and Hopper. */
static void every_wrapper_compiles_with_nvrtc(void **)
{
    const emu::Compiler compiler;
    if (!compiler.usable()) {
        print_message("# no compiler: %s\n", compiler.why().c_str());
        skip();
    }
    for (const emu::ConformanceCase &one : emu::conformance_cases()) {
        std::string log;
        const std::string source = emu::conformance_source(one, &log);
        for (const char *target : {"sm_90a", one.arch == 80 ? "sm_80" : "sm_90a"}) {
            std::vector<char> cubin;
            if (!compiler.compile(source, target, &cubin, &log)) {
                fail_msg("%s for %s: %s", one.name, target, log.c_str());
            }
            assert_true(cubin.size() > 0);
        }
    }
}

/* The text of a file; "" when it cannot be read. */
static std::string read_file(const std::string &path)
{
    std::ifstream file(path);
    std::ostringstream content;
    content << file.rdbuf();
    return content.str();
}

/* Records of GPUs are of the kernels as they are now, and passed; a reason in tests/hardware/conformance.pending excuses them for a while. */
static void the_records_are_of_these_kernels(void **)
{
    const std::string folder = std::string(EMU_ROOT) + "/tests/hardware";
    size_t records = 0;
    glob_t found = {};
    glob((folder + "/conformance-*.txt").c_str(), 0, nullptr, &found);
    const std::string excuse = read_file(folder + "/conformance.pending");
    for (size_t i = 0; i < found.gl_pathc && excuse.empty(); ++i) {
        const std::string record = read_file(found.gl_pathv[i]);
        assert_true(record.size() > 7 && record.compare(record.size() - 7, 7, "passed\n") == 0);
        const bool hopper = record.find("\ntarget sm_90a\n") != std::string::npos;
        for (const emu::ConformanceCase &one : emu::conformance_cases()) {
            if (!hopper && strncmp(one.name, "wgmma", 5) == 0) {
                continue; // that instruction is Hopper's alone
            }
            std::string why;
            const std::string source = emu::conformance_source(one, &why);
            char hash[33];
            source_hash(source.data(), source.size(), hash);
            if (record.find(std::string("case ") + one.name + ", source " + hash + "\n") == std::string::npos) {
                fail_msg(
                    "%s was not made with the kernel of %s as it is now (source %s): run `conformance --gpu --record` "
                    "on that GPU, or give a reason in tests/hardware/conformance.pending",
                    found.gl_pathv[i], one.name, hash);
            }
        }
        ++records;
    }
    globfree(&found);
    if (records == 0) {
        print_message("# no record to check. %s\n", excuse.c_str());
        skip();
    }
}

int main(void)
{
    std::vector<CMUnitTest> tests;
    for (const emu::ConformanceCase &one : emu::conformance_cases()) {
        tests.push_back({one.name, the_emulator_does_what_the_manual_says, nullptr, nullptr,
                         const_cast<emu::ConformanceCase *>(&one)});
    }
    tests.push_back(
        {"every_wrapper_compiles_with_nvrtc", every_wrapper_compiles_with_nvrtc, nullptr, nullptr, nullptr});
    tests.push_back({"the_records_are_of_these_kernels", the_records_are_of_these_kernels, nullptr, nullptr, nullptr});
    return _cmocka_run_group_tests("conformance of the emulator", tests.data(), tests.size(), nullptr, nullptr);
}
