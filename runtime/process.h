/*
 * The contexts of this process, and what a fork does to them.
 *
 * A child has one thread. What other threads of the parent were making is not made there; their locks are free again;
 * and nothing that the driver gave to the parent is used, because CUDA does not survive a fork.
 */
#ifndef GDPA_RUNTIME_PROCESS_H
#define GDPA_RUNTIME_PROCESS_H

#include "include/gdpajit.h"

/* A number that no context or kernel of this process has had. */
uint64_t process_number(void);

void process_add(gdpa_ctx *ctx);
void process_remove(gdpa_ctx *ctx);

/* From now on, the end of the process waits for workers that are in the middle of a kernel. */
void process_wait_at_exit(void);

/* To the context of that number, if it is still there. */
void process_counts_add(uint64_t ctx, uint64_t memory_hits, uint64_t launches);

#endif
