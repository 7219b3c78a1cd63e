/*
 * Specs: check, normalise, parse, print. Pure C; no CUDA, no files.
 *
 * `why` buffers get the reason of a failure, in the words that gdpa_last_error shows.
 */
#ifndef GDPA_GEN_SPEC_H
#define GDPA_GEN_SPEC_H

#include "gen/sbuf.h"
#include "include/gdpajit.h"

/*
 * Copies a caller's struct of any known size, checks every field, fills the defaults in and removes what has no effect
 * (a window side of -1, causal's window_right, align when nothing depends on it, a schedule that changes nothing, deterministic
 * of a forward, the family that auto takes on the arch), so that equal kernels have equal bytes. arch 0 stays 0 when arch_optional, else is
 * refused. *out is untouched on failure.
 */
gdpa_status spec_normalise(const gdpa_spec *spec, bool arch_optional, gdpa_spec *out, struct sbuf *why);

/* Text of a normalised spec and back; spec_parse does not normalise. */
void spec_print(const gdpa_spec *normalised, struct sbuf *text);
gdpa_status spec_parse(const char *text, gdpa_spec *out, struct sbuf *why);
gdpa_status spec_bounds(const char *option, int32_t *lowest, int32_t *highest, int32_t *step, struct sbuf *why);

/* Rows of the tables. NULL for a number that is none. */
struct activation_row {
    const char *suffix, *name, *aliases, *file, *formula, *derivative;
    int number;
    bool exact;
    double rel, abs, param_default;
};
struct dtype_row {
    const char *suffix, *name, *aliases;
    int number, bytes;
    bool is_input;
};
struct arch_row {
    const char *target, *aliases, *description;
    int number, smem_block, smem_sm, regs_sm, warps_sm;
};
const struct activation_row *activation_find(int number);
const struct dtype_row *dtype_find(int number);
const struct arch_row *arch_find(int number);

/* The visible band of a normalised spec: true when a side is bounded. */
bool spec_bounds_left(const gdpa_spec *spec);
bool spec_bounds_right(const gdpa_spec *spec);

/* Whether blocks find their tiles in a schedule on the device (gdpa_schedule_build). */
bool spec_is_listed(const gdpa_spec *spec);

#endif
