/*
 * The emulator matrix: every kernel of the matrices default, short, whole and pairs runs on small shapes full of edges and is compared with the float64 reference.
 *
 * One process a kernel, EMU_JOBS of them at a time, so that a crash or a hang is the failure of one kernel. Prints TAP. A word as argument
 * runs only the kernels whose spec contains it.
 */
#include "problem.hpp"
#include "text.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include "tools/matrix.h"
}

namespace
{

constexpr unsigned kSecondsOfKernel = 200;

/* What every kernel runs: lengths around the sizes of fragments and tiles, empty sequences, every layout of strides and every mode. */
const char *const every_kernel[] = {
    "heads=2/1 q=0,1,15,16,17 k=129,1,0,64,65",
    "heads=3/3 q=63,64,65 k=127,128,129 strides=gaps before=3 behind=5 max=unknown seed=2",
    "heads=4/1 q=127,129,1 k=17,63,130 strides=heads_first complete=earliest out_scale=-0.5 seed=3",
    "heads=6/2 q=128 k=300 strides=expanded complete=random resident=2 seed=4",
    "heads=2/2 q=70,33,5 k=90,200,64 used_q=64,0,5 used_k=77,1,0 behind=2 place=start complete=random seed=5",
    "heads=1/1 q=5,0,70 k=0,7,0 behind=1 max=unknown",
    "heads=5/1 q=0,0 k=3,0",
    "batch=0 heads=2/2 behind=4",
    "heads=2/1 q=30,70,5,200 k=90,20,64,7 used_q=20 before=2 behind=9 offsets=wrong seed=26",
    "heads=3/1 q=30,70,5 k=90,20,6 batch=7 offsets=wrong max=unknown resident=2 seed=27",
};
/* And one of these, in turn. */
const char *const in_turn[] = {
    "heads=2/2 q=257 k=65 complete=random seed=6",
    "heads=2/1 q=33 k=513 complete=earliest seed=7 strides=gaps",
    "heads=7/1 q=1,2,3,4,5,6,7,8,9,10,11,12,13 k=40,30,20,10,1 before=1 max=unknown seed=8",
    "heads=3/1 q=190 k=190 used_k=100 used_q=150 scale=-0.1 seed=9",
    "heads=2/2 q=64,64 k=64,64 batch=5 scale=0.02 out_scale=0.001 resident=3 seed=10",
};
/* Kernels whose warps have roles get more orders to go wrong in. */
const char *const orders[] = {
    "heads=2/1 q=129,64,1 k=200,0,65 complete=random seed=21 blocks=1",
    "heads=2/1 q=129,64,1 k=200,0,65 complete=earliest seed=22 blocks=2",
    "heads=2/1 q=300,0,20 k=10,400,65 complete=random seed=23 blocks=2 resident=2",
    "heads=2/1 q=300,0,20 k=310,7,65 complete=latest seed=24 blocks=1",
    // Diagonals in either half of a key tile, and several key tiles for one warpgroup.
    "heads=1/1 q=320,64,5 k=384,385,256 complete=random seed=32 blocks=2 resident=2",
};
/* Queries in several tiles whose keys stay in shared memory, and some beside them whose keys do not fit; jagged, without a mask. */
const char *const keys_that_stay[] = {
    "heads=1/1 q=400,0,450,40 k=200,7,129,300 complete=random seed=33 blocks=2 resident=2",
    "heads=1/1 q=580,590 k=130,1 complete=earliest max=known seed=34 blocks=2",
};
/* And those that follow a schedule: many sequences, many heads, more blocks than tiles. */
const char *const scheduled[] = {
    "heads=18/3 q=200,0,3 k=90,20,300 batch=8 complete=random seed=28 blocks=3 resident=3",
    "heads=1/1 q=3,0,9 k=20,1 batch=150 max=unknown seed=29 blocks=5 resident=2",
    "heads=1/1 q=0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,3 k=20 batch=4200 seed=30 blocks=2 complete=earliest",
    "heads=2/1 q=300 k=20 batch=1 seed=31 blocks=7",
    "heads=8/8 q=200,0,300,5 k=30,20 batch=5 offsets=wrong seed=201 blocks=9 resident=2 max=unknown", // lists of any numbers
};
/* And kernels of gradients: keys that fit one tile, no keys at all, every subset of the results. */
const char *const every_backward[] = {
    "heads=4/2 q=260,3 k=16,9 seed=12",
    "heads=2/1 q=5,140 k=0,0 seed=13",
    "heads=4/1 q=33,70 k=150,20 grads=q seed=14",
    "heads=2/1 q=33,70 k=150,20 grads=v seed=15",
    "heads=2/1 q=400,70 k=20,700 grads=q complete=random blocks=2 seed=25",
    "heads=3/3 q=200 k=350 complete=random blocks=8 seed=26", // dense: the last tile is shared
};
const char *const backward_in_turn[] = {
    "heads=2/2 q=40,70 k=140,20 grads=k seed=16",
    "heads=2/1 q=40,70 k=20,60 grads=qv complete=random seed=17",
    "heads=2/1 q=40,70 k=140,60 grads=kv out_scale=0.01 seed=18",
    "heads=2/1 q=33 k=20 grads=",
};
const char accumulating[] = "heads=2/1 q=33,70,5 k=150,20,0 accumulate=1 seed=19"; /* where results are fp32 */
/* dP is beyond fp16, and would be without the small factors; for an activation that does not grow beyond it by itself. */
const char small_factors[] = "heads=2/1 q=70,20 k=150,20 sigma=60 scale=0.0001 out_scale=0.00001 seed=20";
/* Scores of 1e-5, where tanh is less than the bound says it may be off. */
const char tiny_scores[] = "heads=2/1 q=70,20 k=150,20 scale=0.000001 seed=21";
/* Many sequences of each kind a warp, more heads than warps and fewer, and as many warps as pairs. */
const char *const short_sequences[] = {
    "heads=4/2 q=1,0,16,17,32,5,31,2,9,33 k=16,7,1,32,17,0,33,3,31,2 blocks=1 complete=random seed=26",
    "heads=5/1 q=3,32,0,0,20 k=32,0,4,0,20 blocks=1 strides=gaps before=2 behind=3 max=unknown seed=27",
    "heads=1/1 q=17,16,1,64,0,30,8 k=17,20,1,33,0,16,8 blocks=2 resident=2 complete=random used_q=17,3,1,40,0,30,8 "
    "seed=28",
};
/* More queries than a block has, and several turns of a warp. */
const char *const few_keys[] = {
    "heads=2/1 q=1030,5 k=33,64 complete=random seed=29",
    "heads=1/1 q=0,700,129 k=64,0,7 complete=earliest max=unknown seed=30",
    "heads=1/1 q=500 k=70 used_k=31 complete=random strides=gaps seed=31",
};
/* Families that have all keys of a sequence run these alone: at most 128 of them. */
const char *const all_keys[] = {
    "heads=2/1 q=65,0,1,63,64,130 k=127,128,1,0,64,65 complete=random seed=41 blocks=4 resident=2",
    "heads=4/2 q=200,3 k=128,70 strides=gaps before=3 behind=5 complete=earliest seed=42 blocks=2",
    "heads=2/2 q=70,33,5 k=90,128,64 used_q=64,0,5 used_k=77,1,0 behind=2 place=start complete=random seed=43",
    "heads=1/1 q=5,0,70 k=0,7,0 behind=1 max=unknown",
    "batch=0 heads=2/2 behind=4",
    "heads=2/1 q=30,70,5,200 k=90,20,64,7 used_q=20 before=2 behind=9 offsets=wrong seed=44",
};
/* Of pairs, at most 256. */
const char *const keys_of_pairs[] = {
    "heads=2/1 q=64,0,1,63,200 k=255,129,1,0,128 complete=random seed=45 blocks=4 resident=2",
    "heads=2/2 q=129,65 k=256,200 strides=heads_first complete=earliest seed=46 blocks=3",
    "heads=3/1 q=190,20 k=240,129 used_k=130,5 used_q=150,20 strides=expanded seed=47 blocks=2",
    "heads=2/1 q=30,70,5 k=200,20,256 batch=4 offsets=wrong resident=2 seed=48 blocks=4",
};
const char *const all_keys_in_turn[] = {
    "heads=2/1 q=33,70 k=120,20 grads=q seed=49",
    "heads=2/1 q=40,70 k=100,60 grads=kv out_scale=0.01 seed=50",
    "heads=2/2 q=1000 k=128 complete=random seed=51",
    "heads=2/1 q=33,70 k=128,20 grads=qv complete=random seed=52",
    "heads=1/1 q=3,0,9,70 k=20,1,100 batch=30 seed=53 blocks=4 resident=2 max=known complete=random",
    "heads=2/2 q=40,70 k=120,20 grads=k seed=54",
};
const char *const keys_of_pairs_in_turn[] = {
    "heads=2/1 q=33,70 k=256,20 grads=q complete=random seed=55 blocks=2",
    "heads=2/2 q=1000 k=256 complete=random seed=56 blocks=2",
    "heads=2/1 q=40,70 k=300,60 grads=kv seed=57 blocks=4", // more than two blocks have: without dq
    "heads=1/1 q=3,0,9,70 k=200,1,130 batch=20 seed=58 blocks=4 resident=2 complete=latest",
};
const char accumulating_all[] = "heads=2/1 q=33,70,5 k=128,20,0 accumulate=1 seed=59";
/* The smallest head dims, which the matrices leave out: a load or a store of a warp is more rows than there are. */
const char *const narrowest[] = {
    "fwd head_dim=8 activation=fast_silu layout_q=jagged layout_k=jagged family=short",
    "fwd head_dim=8 dtype=fp16 activation=gelu causal layout_q=jagged family=stream",
    "fwd head_dim=96 head_dim_v=8 activation=identity window_left=31 layout_k=jagged family=stream",
    "fwd head_dim=128 head_dim_v=8 activation=relu layout_q=jagged layout_k=jagged family=short",
    "fwd head_dim=16 head_dim_v=8 activation=relu layout_q=jagged layout_k=jagged",
    "bwd head_dim=8 activation=gelu causal layout_q=jagged layout_k=jagged",
    "bwd head_dim=24 head_dim_v=96 activation=silu layout_q=jagged layout_k=jagged family=whole",
    "bwd head_dim=72 head_dim_v=8 activation=relu layout_q=jagged layout_k=jagged family=pairs",
};
const char unaligned_shape[] = "heads=4/2 q=31,0,66 k=129,5,47 strides=odd before=1 behind=2 seed=11";

struct Case {
    std::string spec;
    std::vector<std::string> shapes;
};

bool collect(const char *spec, void *user)
{
    static_cast<std::vector<std::string> *>(user)->emplace_back(spec);
    return true;
}

template <size_t kCount> const char *turn(const char *const (&list)[kCount], size_t number)
{
    return list[number % kCount];
}

/* Families that lengths or tensors choose, not the architecture. */
bool of_any_architecture(const std::string &spec)
{
    return spec.find("family=short") != std::string::npos || spec.find("family=stream") != std::string::npos ||
           spec.find(" unaligned") != std::string::npos;
}

bool has_all_keys(const std::string &spec)
{
    return spec.find("family=whole") != std::string::npos || spec.find("family=pairs") != std::string::npos;
}

std::vector<std::string> shapes_of_all_keys(const std::string &spec, size_t number)
{
    std::vector<std::string> shapes(std::begin(all_keys), std::end(all_keys));
    shapes.emplace_back(turn(all_keys_in_turn, number));
    if (spec.find("family=pairs") != std::string::npos) {
        shapes.insert(shapes.end(), std::begin(keys_of_pairs), std::end(keys_of_pairs));
        shapes.emplace_back(turn(keys_of_pairs_in_turn, number));
    }
    if (spec.find("out_dtype=fp32") != std::string::npos) {
        shapes.emplace_back(accumulating_all);
    }
    return shapes;
}

/* Forward kernels whose blocks may take pieces of the work. */
bool keeps_keys(const std::string &spec)
{
    const auto has = [&spec](const char *word) { return spec.find(word) != std::string::npos; };
    return has("fwd ") && has("layout_q=jagged") && !has("causal") && !has("window") && !has("family=") &&
           !has("unaligned");
}

void add_hopper_shapes(Case *one)
{
    one->shapes.insert(one->shapes.end(), std::begin(orders), std::end(orders));
    if (keeps_keys(one->spec)) {
        one->shapes.insert(one->shapes.end(), std::begin(keys_that_stay), std::end(keys_that_stay));
    }
}

std::vector<Case> all_cases(const char *only)
{
    static const char *const archs[] = {"sm_80", "sm_86", "sm_89", "sm_100a", "sm_120a", "sm_87", "sm_103a", "sm_121a"};
    std::vector<std::string> specs;
    for (const char *name : {"default", "short", "whole", "pairs"}) {
        if (!matrix_specs(name, nullptr, collect, &specs)) {
            return {};
        }
    }
    specs.insert(specs.end(), std::begin(narrowest), std::end(narrowest));
    std::vector<Case> cases;
    for (size_t i = 0; i < specs.size(); ++i) {
        for (const std::string &arch : {std::string(turn(archs, i / 3)), std::string("sm_90a")}) {
            if (of_any_architecture(specs[i]) && (arch == "sm_90a") != (i % 2 == 0)) {
                continue; // mostly the same text everywhere: one of the two is enough
            }
            Case one;
            one.spec = specs[i] + " arch=" + arch;
            if (has_all_keys(specs[i])) {
                one.shapes = shapes_of_all_keys(specs[i], i);
                if (arch == "sm_90a" && (only == nullptr || one.spec.find(only) != std::string::npos)) {
                    cases.push_back(one);
                }
                continue;
            }
            one.shapes.assign(std::begin(every_kernel), std::end(every_kernel));
            one.shapes.emplace_back(turn(in_turn, i));
            if (arch == "sm_90a") {
                add_hopper_shapes(&one);
            }
            if (specs[i].find("schedule=") != std::string::npos) {
                one.shapes.insert(one.shapes.end(), std::begin(scheduled), std::end(scheduled));
            }
            if (specs[i].compare(0, 3, "bwd") == 0) {
                one.shapes.insert(one.shapes.end(), std::begin(every_backward), std::end(every_backward));
                one.shapes.emplace_back(turn(backward_in_turn, i));
                if (specs[i].find("activation=relu ") != std::string::npos) {
                    one.shapes.emplace_back(small_factors);
                }
                if (specs[i].find("out_dtype=fp32") != std::string::npos) {
                    one.shapes.emplace_back(accumulating);
                }
            }
            if (specs[i].find("family=short") != std::string::npos) {
                one.shapes.insert(one.shapes.end(), std::begin(short_sequences), std::end(short_sequences));
            }
            if (specs[i].find("family=stream") != std::string::npos) {
                one.shapes.emplace_back(turn(few_keys, i));
            }
            if (specs[i].find("activation=tanh ") != std::string::npos) {
                one.shapes.emplace_back(tiny_scores);
            }
            if (specs[i].find("unaligned") != std::string::npos) {
                one.shapes.emplace_back(unaligned_shape);
            }
            if (only == nullptr || one.spec.find(only) != std::string::npos) {
                cases.push_back(one);
            }
        }
    }
    return cases;
}

/* Every Hopper spec that its own family can do runs on it; the rest on the portable one. */
bool generate(const std::string &spec, emu::Program *program, std::string *why)
{
    const bool hopper = spec.find("arch=sm_90a") != std::string::npos;
    return (hopper && emu::program_generate(spec + " family=sm90", program, why)) ||
           emu::program_generate(spec, program, why);
}

/* Runs in a process of its own: prints the line that says how it went. */
int run_case(const Case &one, FILE *out)
{
    emu::Program program;
    std::string why;
    if (!generate(one.spec, &program, &why) || !emu::program_load(&program, EMU_KERNELS, &why)) {
        fprintf(out, "%s\n", why.c_str());
        return 1;
    }
    double worst = 0;
    for (const std::string &line : one.shapes) {
        emu::Shape shape;
        if (!emu::shape_parse(line, &shape, &why)) {
            fprintf(out, "%s\n", why.c_str());
            return 1;
        }
        const emu::ProblemResult result = emu::problem_run(program, shape);
        if (!result.passed) {
            fprintf(out, "%s\nagain: make emu KERNEL=\"%s\" SHAPE=\"%s\"\n", result.message.c_str(),
                    program.text.c_str(), line.c_str());
            return 1;
        }
        worst = std::max(worst, result.worst);
    }
    fprintf(out, "%s, %zu shapes, at most %.2f of the error that is allowed\n", program.kernel.name.c_str(),
            one.shapes.size(), worst);
    return 0;
}

struct Running {
    size_t number;
    FILE *output;
};

pid_t start_case(const Case &one, FILE *output)
{
    fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        alarm(kSecondsOfKernel);
        const int code = run_case(one, output);
        fflush(output);
        _exit(code);
    }
    return child;
}

void report(const Case &one, size_t number, int status, FILE *output, int *failures)
{
    const bool passed = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    *failures += passed ? 0 : 1;
    printf("%s %zu - %s\n", passed ? "ok" : "not ok", number + 1, one.spec.c_str());
    if (WIFSIGNALED(status)) {
        printf("# ended by signal %d (%s)\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
    }
    rewind(output);
    char line[4096];
    while (fgets(line, sizeof line, output) != nullptr) {
        printf("# %s", line);
    }
    fclose(output);
    fflush(stdout);
}

} // namespace

int main(int count, char **words)
{
    const std::vector<Case> cases = all_cases(count > 1 ? words[1] : nullptr);
    const char *asked = getenv("EMU_JOBS");
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    const size_t jobs = asked != nullptr ? strtoul(asked, nullptr, 10) : static_cast<size_t>(std::max(processors, 1L));
    printf("1..%zu\n", cases.size());
    std::map<pid_t, Running> running;
    size_t next = 0;
    int failures = 0;
    while (next < cases.size() || !running.empty()) {
        if (next < cases.size() && running.size() < std::max<size_t>(jobs, 1)) {
            FILE *output = tmpfile();
            if (output == nullptr) {
                perror("Bail out! no temporary file");
                return 2;
            }
            const pid_t child = start_case(cases[next], output);
            running[child] = {next++, output};
            continue;
        }
        int status;
        const pid_t child = wait(&status);
        const auto found = running.find(child);
        if (found != running.end()) {
            report(cases[found->second.number], found->second.number, status, found->second.output, &failures);
            running.erase(found);
        }
    }
    return failures == 0 && !cases.empty() ? 0 : 1;
}
