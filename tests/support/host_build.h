/*
 * Parts of a generated source as a shared object for the host: what C++ and CUDA share (arithmetic of masks, sequences, schedules, tiles,
 * activations) is run by tests as the generator writes it, not as a copy. Instructions get the host bodies that the test names.
 *
 *     FILE *text = host_build_begin(&build);
 *     fputs("#include \"tests/templates/host_....hpp\"\nnamespace one {\n", text);
 *     host_build_add(&build, "d=64 act=relu causal arch=80", NULL, files);      sections of these templates, as that spec has them
 *     fputs("}\nextern \"C\" int f(int x) { return one::f(x); }\n", text);
 *     host_build_finish(&build);
 *     host_build_function(&build, "f", &function);
 *     host_build_end(&build);
 */
#ifndef GDPA_TESTS_SUPPORT_HOST_BUILD_H
#define GDPA_TESTS_SUPPORT_HOST_BUILD_H

#include <stdio.h>

#include "gen/plan.h"

struct host_build {
    char *folder; /* scratch */
    FILE *text;
    void *library;
};

/* All of these fail the test when something goes wrong; what the compiler said is printed. */
FILE *host_build_begin(struct host_build *build);

/*
 * Appends the sections of a generated source that stem from the files, in their order in it. A name that ends in '/' stands for a folder. The
 * list ends with NULL. plan NULL: that of the spec.
 */
void host_build_add(struct host_build *build, const char *spec, const struct kernel_plan *plan,
                    const char *const *files);

void host_build_finish(struct host_build *build);

/* The address of an extern "C" object. */
void *host_build_symbol(const struct host_build *build, const char *name);

/* Writes the address of an extern "C" function to *function, which is a pointer to one. */
void host_build_function(const struct host_build *build, const char *name, void *function);

void host_build_end(struct host_build *build);

#endif
