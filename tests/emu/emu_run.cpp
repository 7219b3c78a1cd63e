/*
 * emu_run: one kernel on one or more shapes in the emulator, compared with the float64 reference. `emu_run --help` says how.
 */
#include "problem.hpp"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#ifndef EMU_KERNELS
#define EMU_KERNELS "build/emu/kernels"
#endif

static const char usage[] = "usage: emu_run --spec SPEC [--source FILE] [--shape SHAPE]... [--NAME VALUE]...\n"
                            "  --spec SPEC      as in gdpa-jit: \"fwd head_dim=64 activation=relu causal arch=sm_80\"\n"
                            "  --source FILE    run this (edited) source instead of the one generated for the spec\n"
                            "  --print          print the translated source and end\n"
                            "  --shape SHAPE    words of the list below; may be repeated\n"
                            "  --NAME VALUE     one word of a shape: --q 0,65 is the same as q=0,65 in every shape\n";

struct Options {
    std::string spec, source_path, common;
    std::vector<std::string> shapes;
    bool print = false;
};

static bool parse_options(int count, char **words, Options *options)
{
    for (int i = 1; i < count; ++i) {
        const std::string word = words[i];
        if (word == "--print") {
            options->print = true;
            continue;
        }
        if (word.compare(0, 2, "--") != 0 || word == "--help" || i + 1 == count) {
            return false;
        }
        const std::string value = words[++i];
        if (word == "--spec") {
            options->spec = value;
        } else if (word == "--source") {
            options->source_path = value;
        } else if (word == "--shape") {
            options->shapes.push_back(value);
        } else {
            options->common += word.substr(2) + "=" + value + " ";
        }
    }
    if (options->shapes.empty()) {
        options->shapes.emplace_back();
    }
    return !options->spec.empty();
}

static int run_shapes(const emu::Program &program, const Options &options)
{
    int failures = 0;
    for (const std::string &line : options.shapes) {
        emu::Shape shape;
        std::string why;
        if (!emu::shape_parse(options.common + line, &shape, &why)) {
            fprintf(stderr, "emu_run: %s\n", why.c_str());
            return 2;
        }
        const emu::ProblemResult result = emu::problem_run(program, shape);
        if (result.passed) {
            printf("ok      %.3f of the bound  %s\n", result.worst, emu::shape_print(shape).c_str());
        } else {
            printf("FAILED  %s\n%s\n", emu::shape_print(shape).c_str(), result.message.c_str());
            ++failures;
        }
    }
    return failures == 0 ? 0 : 1;
}

int main(int count, char **words)
{
    Options options;
    if (!parse_options(count, words, &options)) {
        fprintf(stderr, "%s%s", usage, emu::shape_help);
        return 2;
    }
    emu::Program program;
    std::string why;
    if (!emu::program_generate(options.spec, &program, &why)) {
        fprintf(stderr, "emu_run: %s\n", why.c_str());
        return 2;
    }
    if (!options.source_path.empty()) {
        std::ifstream file(options.source_path);
        std::ostringstream content;
        content << file.rdbuf();
        program.source = content.str();
    }
    if (options.print) {
        fputs(emu::kernel_translate(program.source, "kernel.cu").c_str(), stdout);
        return 0;
    }
    if (!emu::program_load(&program, EMU_KERNELS, &why)) {
        fprintf(stderr, "emu_run: %s\n", why.c_str());
        return 2;
    }
    printf("%s\n", program.text.c_str());
    return run_shapes(program, options);
}
