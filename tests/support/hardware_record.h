/*
 * The check of hardware records: whether every kernel of some matrices, as the generator writes it today, has run on a GPU
 * and was right.
 *
 *     FOLDER/<gpu>.jsonl    lines of `gdpa-jit verify --record`
 *     FOLDER/pending.txt    kernels that may lack a record: a glob on the spec text, a colon, the reason; # comments
 *
 * A kernel is proven by a line with its spec text, the hash of its source as generated now, "ok" and at least as many cases
 * as its matrix asks for. A fault is: a kernel that is neither proven nor pending; a line of no kernel of the matrices whose
 * source is no longer generated, or that says it failed; a line that cannot be read, or says something of a kernel again; a
 * line of pending.txt that is not needed.
 */
#ifndef GDPA_TESTS_SUPPORT_HARDWARE_RECORD_H
#define GDPA_TESTS_SUPPORT_HARDWARE_RECORD_H

#include <stdbool.h>
#include <stdio.h>

struct hardware_question {
    const char *folder;
    const char *const *matrices; /* names, NULL after the last */
    const char *const *archs; /* targets ("sm_90a") that need a record, whatever files there are; NULL after the last */
};

struct hardware_answer {
    int kernels; /* asked for: those of the matrices, for each file and architecture in it */
    int proven, pending;
    int faults; /* lines written to the report */
};

/* Writes a line for every fault. False when the check itself could not be made, with a line about that. */
bool hardware_check(const struct hardware_question *question, FILE *report, struct hardware_answer *answer);

#endif
