/*
 * The emulator does what the PTX manual says, instruction by instruction, whenever asynchronous operations take place.
 */
#include "conformance_gpu.hpp"
#include "conformance_record.hpp"

#include <cstring>
#include <fstream>
#include <glob.h>
#include <sstream>

#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
extern "C" {
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

static void the_records_are_of_these_kernels(void **)
{
    const std::string folder = std::string(EMU_ROOT) + "/tests/hardware";
    const std::string pending = read_file(folder + "/conformance.pending");
    const std::string wrong = emu::pending_fault(pending);
    if (!wrong.empty()) {
        fail_msg("tests/hardware/conformance.pending: %s", wrong.c_str());
    }
    glob_t found = {};
    glob((folder + "/conformance-*.txt").c_str(), 0, nullptr, &found);
    for (size_t i = 0; i < found.gl_pathc; ++i) {
        const std::string fault = emu::record_fault(read_file(found.gl_pathv[i]), pending);
        if (!fault.empty()) {
            fail_msg("%s: %s. Run `conformance --gpu --record` on that GPU, or name the case and give a reason in "
                     "tests/hardware/conformance.pending",
                     found.gl_pathv[i], fault.c_str());
        }
    }
    const size_t records = found.gl_pathc;
    globfree(&found);
    if (records == 0) {
        print_message("# no record to check\n");
        skip();
    }
}

/* A record in which every case that `target` has passed, but for one. */
static std::string made_record(const char *target, int arch, const char *failed)
{
    std::string record = std::string("# conformance\ngpu some\ntarget ") + target + "\n";
    for (const emu::ConformanceCase &one : emu::conformance_cases()) {
        if (emu::conformance_runs_on(one, arch)) {
            std::string why;
            record += emu::record_head(one, emu::conformance_source(one, &why));
            record += emu::record_result(one, failed == nullptr || strcmp(one.name, failed) != 0);
        }
    }
    return record + (failed == nullptr ? "passed\n" : "FAILED\n");
}

static std::string without_line(std::string record, const char *start)
{
    const size_t first = record.find(start);
    assert_true(first != std::string::npos);
    return record.erase(first, record.find('\n', first) + 1 - first);
}

static void a_record_is_checked_case_by_case(void **)
{
    const std::string whole = made_record("sm_90a", 90, nullptr);
    const std::string failed = made_record("sm_90a", 90, "copies out");
    std::string stale = whole;
    const size_t hash = stale.find("case cluster, source ") + strlen("case cluster, source ");
    stale[hash] = stale[hash] == '0' ? '1' : '0';
    const struct {
        std::string record, pending, expected;
    } cases[] = {
        {whole, "", ""},
        {made_record("sm_80", 80, nullptr), "", ""},
        {made_record("sm_100a", 100, nullptr), "", ""},
        {made_record("sm_90a", 80, nullptr), "", "was not run as it is now"},
        {failed, "", "the case copies out did not pass"},
        {failed, "copies: another one\n", "the case copies out did not pass"},
        {failed, "# a comment\ncopies out: the next session\n", ""},
        {stale, "", "the kernel of cluster was not run as it is now"},
        {stale, "cluster: the next session\n", ""},
        {without_line(whole, "case copies out, source"), "", "the kernel of copies out was not run as it is now"},
        {without_line(whole, "case copies out: "), "", "the case copies out did not pass"},
        {without_line(whole, "target "), "", "for which target"},
        {whole.substr(0, whole.size() - strlen("passed\n")), "", "ends before the result"},
    };
    for (const auto &one : cases) {
        const std::string fault = emu::record_fault(one.record, one.pending);
        if (one.expected.empty() ? !fault.empty() : fault.find(one.expected) == std::string::npos) {
            fail_msg("expected \"%s\", found \"%s\"", one.expected.c_str(), fault.c_str());
        }
    }
    assert_true(emu::pending_fault("# why\n\ncopies out: the next session\n").empty());
    assert_false(emu::pending_fault("copies out:  \n").empty());
    assert_false(emu::pending_fault("unknown: the next session\n").empty());
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
    tests.push_back({"a_record_is_checked_case_by_case", a_record_is_checked_case_by_case, nullptr, nullptr, nullptr});
    tests.push_back({"the_records_are_of_these_kernels", the_records_are_of_these_kernels, nullptr, nullptr, nullptr});
    return _cmocka_run_group_tests("conformance of the emulator", tests.data(), tests.size(), nullptr, nullptr);
}
