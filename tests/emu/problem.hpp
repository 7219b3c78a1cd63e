/*
 * One attention problem in emulated global memory: tensors with NaN wherever no sequence is, the arguments of a call, the run through
 * the library's own launch_shape_fill, and the comparison with the float64 reference.
 */
#ifndef GDPA_EMU_PROBLEM_HPP
#define GDPA_EMU_PROBLEM_HPP

#include "engine.hpp"
#include "kernel.hpp"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "include/gdpajit.h"
extern "C" {
#include "gen/plan.h"
}

namespace emu
{

/* Where the rows of a tensor lie. */
enum class Strides {
    Packed,
    Gaps,       // between heads, rows and sequences
    HeadsFirst, // [batch, heads, rows, dim]
    Expanded,   // k and v have one head that serves all (stride 0); q and o packed
    Odd         // data and strides aligned to elements only; needs a spec with `unaligned`
};

/* As text: "heads=4/2 q=0,65,130 k=17,64,1 used_k=9,64,0 strides=gaps ..."; see shape_help. */
struct Shape {
    std::vector<int32_t> q = {64}; // lengths; dense: all have the longest one, and these are the used ones
    std::vector<int32_t> k = {64};
    std::vector<int32_t> used_q; // seqused, when given
    std::vector<int32_t> used_k;
    int64_t batch = -1; // -1: as many as there are lengths; else the lengths are repeated
    int64_t heads_q = 2, heads_k = 2;
    int64_t before = 0; // jagged: rows in front of the first sequence
    int64_t behind = 0; // jagged: rows behind the last one
    Strides strides = Strides::Packed;
    double scale = NAN; // NaN: 1/sqrt(head_dim)
    double out_scale = 1;
    double sigma = 1;              // of the elements
    double param = 0;              // activation_param, 0: the activation's own
    std::string gradients = "qkv"; // backward: which are wanted
    bool accumulate = false;       // backward: add to what is there
    bool know_max = true;
    bool wrong_offsets = false; // any numbers at all: nothing is compared
    Placement placement = Placement::AtEnd;
    uint64_t seed = 1;
    Completion completion = Completion::Latest;
    uint32_t resident = 1;
    uint32_t blocks = 3; // of a persistent kernel, at most
};

extern const char shape_help[];
/* False, with the reason in *why, for a text that is none. Keys not named keep the value that *shape has. */
bool shape_parse(const std::string &text, Shape *shape, std::string *why);
std::string shape_print(const Shape &shape);

/* A spec that was made into a kernel. */
struct Program {
    gdpa_spec spec;
    kernel_plan plan;
    std::string text;   // of the spec
    std::string source; // generated
    Kernel kernel;
};

/* Generates the source only. */
bool program_generate(const std::string &spec, Program *program, std::string *why);
/* Compiles and loads program->source. */
bool program_load(Program *program, const std::string &folder, std::string *why);

struct ProblemResult {
    bool passed = false;
    bool launched = false; // false: nothing to do, and nothing was done
    double worst = 0;      // error as a share of what is allowed
    std::string message;
};

ProblemResult problem_run(const Program &program, const Shape &shape);

} // namespace emu

#endif
