/*
 * Shapes and data that verify runs a kernel with: one row of a table each, made concrete by a random seed.
 */
#ifndef GDPA_TOOLS_SHAPES_H
#define GDPA_TOOLS_SHAPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lengths of the sequences of a jagged side. A dense side takes the row's fixed length. */
enum shape_lengths {
    LENGTHS_EDGES, /* each drawn from 0, 1, 15, 63, 64, 65, 127, 128, 129, 1000 */
    LENGTHS_UP_TO, /* each drawn from 0, 1, 63, 64, 65, 127, 128, 129, 191, 192, 255, 256, as far as they are at most the fixed length */
    LENGTHS_FIXED,   /* the fixed length */
    LENGTHS_UNIFORM, /* 1 to the fixed length */
    LENGTHS_SHORT,   /* 0 to the fixed length */
    LENGTHS_EMPTY,   /* 0 */
    LENGTHS_SAME     /* keys: as the queries */
};

enum shape_strides {
    STRIDES_PACKED,         /* as the layout says */
    STRIDES_JOINED,         /* q, k, v are views of one tensor where their rows agree, else k and v are */
    STRIDES_HEAD_MAJOR,     /* [batch, heads, rows, dim] and [heads, total, dim] */
    STRIDES_EXPANDED_HEADS, /* k and v: stride 0 between heads */
    STRIDES_EXPANDED_BATCH, /* dense k and v: stride 0 between sequences */
    STRIDES_GAPS            /* unused elements after every head, row and sequence */
};

enum shape_maximum {
    MAXIMUM_EXACT,
    MAXIMUM_LOOSE, /* larger than any length */
    MAXIMUM_UNKNOWN
};

enum shape_scale {
    SCALE_ROOT,          /* 1 / sqrt(head_dim): S is about N(0, 1) */
    SCALE_ONE,           /* 1: sigma of S is sqrt(head_dim) */
    SCALE_NEGATIVE_ROOT, /* -1 / sqrt(head_dim) */
    SCALE_ZERO
};

struct shape {
    const char *name; /* NULL ends the table */
    const char *doc;
    int64_t batch;
    int64_t fixed_q, fixed_k; /* lengths of dense sides */
    enum shape_lengths lengths_q, lengths_k;
    int32_t heads_q, heads_k;
    enum shape_strides strides;
    enum shape_maximum maximum;
    enum shape_scale scale;
    float out_scale; /* 0: not set, which means 1 */
    float parameter; /* activation_param; 0: not set */
    bool seqused_q, seqused_k;
    bool aligned; /* an unaligned kernel, too, gets aligned tensors */
};

extern const struct shape shapes[];
size_t shape_count(void);

/* Row number of a name, or -1. */
int shape_find(const char *name);

/* The bits of a comma-separated list of names; false, with the unknown name and the nearest one in why. */
bool shapes_parse(const char *names, unsigned long long *bits, char *why, size_t capacity);

/* The rows that a spec from the command line is run with: of those that say nothing about one matrix what its family can hold. */
unsigned long long shapes_general(int32_t family);

/* The rows of which every family of a backward can hold all keys: at most 128, of pairs 256. */
unsigned long long shapes_of_few_keys(int32_t family);

#endif
