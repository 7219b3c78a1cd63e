/*
 * Conformance: kernels that run every wrapper (tests/emu/conformance/), their inputs, and what the PTX manual says must come out.
 *
 * Expectations are written from the manual and share no code with the engine. The emulator must meet them (test_conformance), and so
 * must a GPU (conformance --gpu); on a GPU the words that are exact are compared with the emulator's as well.
 */
#ifndef GDPA_EMU_CONFORMANCE_HPP
#define GDPA_EMU_CONFORMANCE_HPP

#include "engine.hpp"
#include "tensor_map.hpp"

#include <cmath>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace emu
{

/* One word of the output. */
struct Expected {
    enum Kind : uint8_t {
        Any,   // not written, or not said
        Exact, // `bits`
        Near   // fp32 within `tolerance` of `value`; NaN when value is NaN
    };
    Kind kind = Any;
    uint32_t bits = 0;
    double value = 0;
    double tolerance = 0;
    /* Packed: two 16-bit floats near value and value2, as tanh.approx.bf16x2 gives. 0: no; 1: bf16; 2: fp16. */
    uint8_t packed = 0;
    double value2 = 0;
};

inline Expected exactly(uint32_t bits)
{
    Expected word;
    word.kind = Expected::Exact;
    word.bits = bits;
    return word;
}

inline Expected near(double value, double tolerance)
{
    Expected word;
    word.kind = Expected::Near;
    word.value = value;
    word.tolerance = tolerance;
    return word;
}

/* A piece of the output with a name for reports. */
struct Section {
    std::string name;
    size_t first, count; // words
};

/* Encodes a tensor map for the machine at hand; false when that fails. */
using EncodeMap = std::function<bool(void *map, const TensorMapRequest &request, bool fp32)>;

struct ConformanceCase {
    const char *name;
    const char *file; // in tests/emu/conformance/
    std::set<std::string> options;
    int arch; // lowest that has the instructions, as in archs.def
    uint32_t blocks;
    uint32_t shared_bytes;
    uint32_t cluster;
    uint32_t threads;
    size_t input_words, output_words;
    std::vector<uint32_t> (*make_input)(uint64_t seed);
    std::vector<Expected> (*expect)(const std::vector<uint32_t> &input);
    std::vector<Section> (*sections)();
    /* The kernel's parameters, given device addresses: bytes, and where in them each parameter starts. */
    bool (*parameters)(uint64_t input, uint64_t output, const EncodeMap &encode, std::vector<unsigned char> *bytes,
                       std::vector<size_t> *starts);
};

/* All of them. */
const std::vector<ConformanceCase> &conformance_cases();

/* Whether GPUs of an architecture (a number as in archs.def) have the instructions of a case. */
bool conformance_runs_on(const ConformanceCase &what, int arch);

/* The flat CUDA source of a case. */
std::string conformance_source(const ConformanceCase &what, std::string *why);

/* Runs a source of a case (its own, or one with a fault in it) in the emulator; "" and the output, or the fault. */
std::string conformance_emulate(const ConformanceCase &what, const std::string &source,
                                const std::vector<uint32_t> &input, Completion completion, uint64_t seed,
                                std::vector<uint32_t> *output);

/* How far a word is from what is expected, as a share of what is allowed: 0 is exact, above 1 is wrong. */
double conformance_error(const Expected &expected, uint32_t found);

/* Parts, one a file. */
std::vector<ConformanceCase> conformance_portable();
std::vector<ConformanceCase> conformance_wgmma();
std::vector<ConformanceCase> conformance_copies();
std::vector<ConformanceCase> conformance_pipeline();
std::vector<ConformanceCase> conformance_copies_out();
std::vector<ConformanceCase> conformance_order();
std::vector<ConformanceCase> conformance_cluster_copy();

} // namespace emu

#endif
