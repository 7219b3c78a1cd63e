/*
 * Lists of specs from the command line, files and presets.
 *
 * Words without blanks form one spec together (`head_dim=64 activation=relu`); a word with blanks is a spec of its own, and
 * `fwd` or `bwd` begins a new one. Values separated by commas give every combination: head_dim=64,128 causal=0,1 is four;
 * `all` stands for every value of a choice: activation=all. In a file a spec is one line; # begins a comment.
 */
#ifndef GDPA_TOOLS_SPECS_H
#define GDPA_TOOLS_SPECS_H

#include "include/gdpajit.h"

#include <stdbool.h>
#include <stdio.h>

struct spec_list {
    gdpa_spec *specs;
    char **texts; /* canonical */
    size_t count, capacity;
    size_t *slots; /* hash table of the texts: index + 1, 0 is free */
    size_t slot_count;
    size_t refused;  /* combinations left out because gdpa_spec_check refuses them */
    size_t left_out; /* lines of traces that are no whole specs */
};

/* How the specs of a list are completed and what becomes of those that are refused. */
struct spec_rules {
    const int *archs; /* given to each spec without one; none: arch stays as it is */
    size_t arch_count;
    bool keep_going; /* count what is refused and go on; else stop there */
    void (*refused)(const char *origin, const char *text, const char *reason, void *user); /* may be NULL */
    void *user;
};

void spec_list_init(struct spec_list *list);
void spec_list_deinit(struct spec_list *list);

/* All three: false, with the reason in why, when something is refused and keep_going is off. Equal kernels are kept once. */
bool spec_list_add(struct spec_list *list, const char *text, const char *origin, const struct spec_rules *rules,
                   char *why, size_t why_size);
bool spec_list_add_words(struct spec_list *list, const char *const *words, size_t count, const struct spec_rules *rules,
                         char *why, size_t why_size);
/* path "-": standard input. */
bool spec_list_add_file(struct spec_list *list, const char *path, const struct spec_rules *rules, char *why,
                        size_t why_size);

/* A file of GDPAJIT_TRACE: other versions may have written into it, and a line may have been cut; such lines are left out. */
bool spec_list_add_trace(struct spec_list *list, const char *path, const struct spec_rules *rules, char *why,
                         size_t why_size);

/* Named sets. */
struct preset_row {
    const char *name; /* NULL ends the table */
    const char *doc;
    const char *texts; /* products, one a line */
};
extern const struct preset_row presets[];
bool spec_list_add_preset(struct spec_list *list, const char *name, const struct spec_rules *rules, char *why,
                          size_t why_size);

/* One spec of joined words, without products. */
bool spec_from_words(const char *const *words, size_t count, gdpa_spec *spec, char *why, size_t why_size);

/* The arch of --arch, one of which `command` takes, into a spec without; NULL: none was given. */
bool spec_arch_default(const char *command, const char *arch, gdpa_spec *spec, char *why, size_t why_size);

#endif
