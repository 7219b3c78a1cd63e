/*
 * Running conformance cases; see conformance.hpp.
 */
#include "conformance.hpp"
#include "flatten.hpp"
#include "kernel.hpp"
#include "text.hpp"

#include <cstring>

extern "C" {
#include "tests/support/half.h"
}

namespace emu
{

const std::vector<ConformanceCase> &conformance_cases()
{
    static std::vector<ConformanceCase> cases;
    if (cases.empty()) {
        for (const auto &part :
             {conformance_portable(), conformance_wgmma(), conformance_copies(), conformance_pipeline(),
              conformance_copies_out(), conformance_order(), conformance_cluster_copy()}) {
            cases.insert(cases.end(), part.begin(), part.end());
        }
    }
    return cases;
}

bool conformance_runs_on(const ConformanceCase &what, int arch)
{
    return strncmp(what.name, "wgmma", 5) == 0 ? arch == 90 : arch >= what.arch; // wgmma is Hopper's alone
}

std::string conformance_source(const ConformanceCase &what, std::string *why)
{
    return flatten(std::string(EMU_ROOT) + "/tests/emu/conformance/" + what.file, what.options, why);
}

static bool encode_emulated(void *map, const TensorMapRequest &request, bool)
{
    const std::string wrong = tensor_map_encode(map, request);
    if (!wrong.empty()) {
        fprintf(stderr, "tensor map: %s\n", wrong.c_str());
    }
    return wrong.empty();
}

std::string conformance_emulate(const ConformanceCase &what, const std::string &source,
                                const std::vector<uint32_t> &input, Completion completion, uint64_t seed,
                                std::vector<uint32_t> *output)
{
    std::string why;
    const Kernel kernel = kernel_load(source, EMU_KERNELS, &why);
    if (kernel.entry == nullptr) {
        return why;
    }
    GlobalMemory memory;
    GlobalBuffer &in = memory.add("input", input.size() * sizeof(uint32_t), 256, Placement::AtStart);
    GlobalBuffer &out = memory.add("output", what.output_words * sizeof(uint32_t), 256, Placement::AtStart);
    memcpy(in.data(), input.data(), in.bytes());
    in.make_read_only();
    std::vector<unsigned char> bytes;
    std::vector<size_t> starts;
    if (!what.parameters(reinterpret_cast<uintptr_t>(in.data()), reinterpret_cast<uintptr_t>(out.data()),
                         encode_emulated, &bytes, &starts)) {
        return "cannot make the parameters";
    }
    std::vector<void *> parameters;
    for (const size_t start : starts) {
        parameters.push_back(bytes.data() + start);
    }
    Launch launched;
    launched.kernel = what.name;
    launched.entry = kernel.entry;
    launched.parameters = parameters.data();
    launched.grid = what.blocks;
    launched.block = what.threads;
    launched.shared_bytes = what.shared_bytes;
    launched.cluster = what.cluster;
    launched.completion = completion;
    launched.seed = seed;
    launched.memory = &memory;
    const LaunchResult result = launch(launched);
    output->resize(what.output_words);
    memcpy(output->data(), out.data(), out.bytes());
    return result.message;
}

static double distance(double value, double found, double tolerance)
{
    if (std::isnan(value) || std::isnan(found)) {
        return std::isnan(value) && std::isnan(found) ? 0 : INFINITY;
    }
    if (value == found) {
        return 0;
    }
    return tolerance > 0 ? std::fabs(value - found) / tolerance : INFINITY;
}

double conformance_error(const Expected &expected, uint32_t found)
{
    if (expected.kind == Expected::Any) {
        return 0;
    }
    if (expected.kind == Expected::Exact) {
        return expected.bits == found ? 0 : INFINITY;
    }
    if (expected.packed != 0) {
        const auto widen = expected.packed == 1 ? bf16_to_double : fp16_to_double;
        return std::fmax(distance(expected.value, widen(static_cast<uint16_t>(found)), expected.tolerance),
                         distance(expected.value2, widen(static_cast<uint16_t>(found >> 16)), expected.tolerance));
    }
    float number;
    memcpy(&number, &found, sizeof number);
    return distance(expected.value, static_cast<double>(number), expected.tolerance);
}

} // namespace emu
