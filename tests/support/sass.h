/*
 * Machine code of a kernel, as NVIDIA's nvdisasm prints it: instructions in their order, and loops.
 */
#ifndef GDPA_TESTS_SUPPORT_SASS_H
#define GDPA_TESTS_SUPPORT_SASS_H

#include <stdbool.h>
#include <stddef.h>

struct sass_instruction {
    const char *text;   /* "@P0 BRA `(.L_x_1)", without the address */
    const char *opcode; /* in it, behind the predicate: "BRA `(.L_x_1)" */
};

/* Instructions begin to end, both included: the last one branches back to the first. */
struct sass_loop {
    size_t begin, end;
};

struct sass {
    struct sass_instruction *instructions;
    struct sass_loop *loops;
    size_t count, loop_count;
    char *listing; /* the texts lie in it */
};

/* NULL when there is no nvdisasm: on the PATH, in CUDA_HOME, in /usr/local/cuda, in the private folder of set-up. */
const char *sass_disassembler(void);

/* Fails the test when it cannot be done. Freed by sass_free. */
void sass_read(const void *cubin, size_t size, struct sass *sass);

/* The same of a listing, a malloced string that belongs to *sass from then on. */
void sass_parse(char *listing, struct sass *sass);
void sass_free(struct sass *sass);

/* Whether the opcode, up to its first '.' or blank, is one of the blank-separated words. */
bool sass_is(const struct sass_instruction *instruction, const char *words);

/* How many of the instructions [begin, end] are. */
size_t sass_count(const struct sass *sass, size_t begin, size_t end, const char *words);

#endif
