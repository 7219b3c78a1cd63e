/*
 * The emulator does what the PTX manual says, instruction by instruction, whenever asynchronous operations take place.
 */
#include "conformance.hpp"

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
        const std::string fault = emu::conformance_emulate(one, input, mode.completion, mode.seed, &output);
        if (!fault.empty()) {
            fail_msg("%s", fault.c_str());
        }
        compare(one, input, output);
    }
}

int main(void)
{
    std::vector<CMUnitTest> tests;
    for (const emu::ConformanceCase &one : emu::conformance_cases()) {
        tests.push_back({one.name, the_emulator_does_what_the_manual_says, nullptr, nullptr,
                         const_cast<emu::ConformanceCase *>(&one)});
    }
    return _cmocka_run_group_tests("conformance of the emulator", tests.data(), tests.size(), nullptr, nullptr);
}
