/*
 * The table of shapes; see shapes.h. Bits in matrices are row numbers, so new rows go to the end of their section.
 */
#include "tools/shapes.h"

#include "include/gdpajit.h"
#include "tools/term.h"

#include <stdio.h>
#include <string.h>

/* Rows of the public benchmark: batch 1152, 4 heads; every length at the maximum, or uniform on [1, maximum]. */
#define PUBLIC_SHAPE(queries, keys, fill, lengths)                                                                     \
    {                                                                                                                  \
        .name = "public-q" #queries "-k" #keys "-fill" fill, .doc = "public benchmark", .batch = 1152,                 \
        .fixed_q = (queries), .fixed_k = (keys), .lengths_q = (lengths), .lengths_k = LENGTHS_FIXED, .heads_q = 4,     \
        .heads_k = 4, .aligned = true                                                                                  \
    }

const struct shape shapes[] = {
    {.name = "edges",
     .doc = "lengths at tile edges",
     .batch = 12,
     .fixed_q = 65,
     .fixed_k = 129,
     .heads_q = 2,
     .heads_k = 2},
    {.name = "edges-unit",
     .doc = "the same with scale 1, three query heads a kv head",
     .batch = 12,
     .fixed_q = 129,
     .fixed_k = 65,
     .heads_q = 3,
     .heads_k = 1,
     .maximum = MAXIMUM_UNKNOWN,
     .scale = SCALE_ONE},
    {.name = "joined",
     .doc = "views of one packed qkv tensor, two query heads a kv head",
     .batch = 6,
     .fixed_q = 127,
     .fixed_k = 127,
     .lengths_k = LENGTHS_SAME,
     .heads_q = 4,
     .heads_k = 2,
     .strides = STRIDES_JOINED,
     .maximum = MAXIMUM_UNKNOWN,
     .out_scale = 0.125F},
    {.name = "head-major",
     .doc = "[batch, heads, rows, dim] views, eight query heads a kv head",
     .batch = 5,
     .fixed_q = 63,
     .fixed_k = 1000,
     .heads_q = 16,
     .heads_k = 2,
     .strides = STRIDES_HEAD_MAJOR,
     .scale = SCALE_ONE},
    {.name = "mqa",
     .doc = "one kv head, gaps in every tensor, negative out_scale",
     .batch = 4,
     .fixed_q = 1000,
     .fixed_k = 64,
     .heads_q = 8,
     .heads_k = 1,
     .strides = STRIDES_GAPS,
     .maximum = MAXIMUM_UNKNOWN,
     .out_scale = -0.5F},
    {.name = "expanded-heads",
     .doc = "stride 0 between kv heads",
     .batch = 4,
     .fixed_q = 15,
     .fixed_k = 128,
     .heads_q = 6,
     .heads_k = 2,
     .strides = STRIDES_EXPANDED_HEADS},
    {.name = "expanded-batch",
     .doc = "stride 0 between the sequences of dense keys",
     .batch = 5,
     .fixed_q = 128,
     .fixed_k = 64,
     .heads_q = 2,
     .heads_k = 1,
     .strides = STRIDES_EXPANDED_BATCH,
     .scale = SCALE_ONE},
    {.name = "seqused",
     .doc = "sequences shortened on both sides, NaN behind their ends",
     .batch = 10,
     .fixed_q = 200,
     .fixed_k = 300,
     .heads_q = 2,
     .heads_k = 2,
     .strides = STRIDES_GAPS,
     .maximum = MAXIMUM_UNKNOWN,
     .seqused_q = true,
     .seqused_k = true},
    {.name = "seqused-keys",
     .doc = "keys shortened, loose maxima",
     .batch = 6,
     .fixed_q = 100,
     .fixed_k = 260,
     .heads_q = 3,
     .heads_k = 3,
     .strides = STRIDES_HEAD_MAJOR,
     .maximum = MAXIMUM_LOOSE,
     .scale = SCALE_ONE,
     .seqused_k = true},
    {.name = "seqused-queries",
     .doc = "queries shortened",
     .batch = 6,
     .fixed_q = 260,
     .fixed_k = 100,
     .heads_q = 2,
     .heads_k = 1,
     .strides = STRIDES_JOINED,
     .seqused_q = true},
    {.name = "tall",
     .doc = "many queries, few keys",
     .batch = 2,
     .fixed_q = 1000,
     .fixed_k = 15,
     .lengths_q = LENGTHS_UNIFORM,
     .lengths_k = LENGTHS_UNIFORM,
     .heads_q = 2,
     .heads_k = 2,
     .scale = SCALE_ONE},
    {.name = "wide",
     .doc = "one query, many keys",
     .batch = 3,
     .fixed_q = 1,
     .fixed_k = 1000,
     .lengths_q = LENGTHS_FIXED,
     .lengths_k = LENGTHS_UNIFORM,
     .heads_q = 4,
     .heads_k = 2,
     .maximum = MAXIMUM_LOOSE},
    {.name = "whole-tiles",
     .doc = "every length a multiple of every tile",
     .batch = 2,
     .fixed_q = 256,
     .fixed_k = 512,
     .lengths_q = LENGTHS_FIXED,
     .lengths_k = LENGTHS_FIXED,
     .heads_q = 2,
     .heads_k = 2,
     .scale = SCALE_ONE,
     .aligned = true},
    {.name = "long",
     .doc = "one long sequence",
     .batch = 1,
     .fixed_q = 2200,
     .fixed_k = 2300,
     .lengths_q = LENGTHS_FIXED,
     .lengths_k = LENGTHS_FIXED,
     .heads_q = 1,
     .heads_k = 1},
    {.name = "negative-scale",
     .doc = "scale below 0, activation_param set",
     .batch = 6,
     .fixed_q = 64,
     .fixed_k = 127,
     .heads_q = 2,
     .heads_k = 1,
     .scale = SCALE_NEGATIVE_ROOT,
     .parameter = 0.25F},
    {.name = "zero-scale",
     .doc = "scale 0, which is not the default",
     .batch = 4,
     .fixed_q = 33,
     .fixed_k = 47,
     .lengths_q = LENGTHS_SHORT,
     .lengths_k = LENGTHS_SHORT,
     .heads_q = 10,
     .heads_k = 2,
     .scale = SCALE_ZERO,
     .out_scale = 0.5F,
     .parameter = -1.5F},
    {.name = "single",
     .doc = "one query, one key",
     .batch = 1,
     .fixed_q = 1,
     .fixed_k = 1,
     .lengths_q = LENGTHS_FIXED,
     .lengths_k = LENGTHS_FIXED,
     .heads_q = 1,
     .heads_k = 1},
    {.name = "no-keys",
     .doc = "queries without keys give zeros",
     .batch = 3,
     .fixed_q = 70,
     .fixed_k = 0,
     .lengths_q = LENGTHS_FIXED,
     .lengths_k = LENGTHS_EMPTY,
     .heads_q = 2,
     .heads_k = 1},
    {.name = "no-queries",
     .doc = "keys without queries: nothing is written",
     .batch = 3,
     .fixed_q = 0,
     .fixed_k = 70,
     .lengths_q = LENGTHS_EMPTY,
     .lengths_k = LENGTHS_FIXED,
     .heads_q = 2,
     .heads_k = 2},
    {.name = "all-empty",
     .doc = "sequences of length 0 on both sides",
     .batch = 4,
     .lengths_q = LENGTHS_EMPTY,
     .lengths_k = LENGTHS_EMPTY,
     .heads_q = 2,
     .heads_k = 2,
     .maximum = MAXIMUM_UNKNOWN},
    {.name = "no-sequences", .doc = "batch 0", .batch = 0, .fixed_q = 64, .fixed_k = 64, .heads_q = 2, .heads_k = 2},
    {.name = "large-batch",
     .doc = "more than 65,535 short sequences",
     .batch = 66000,
     .fixed_q = 2,
     .fixed_k = 3,
     .lengths_q = LENGTHS_SHORT,
     .lengths_k = LENGTHS_SHORT,
     .heads_q = 1,
     .heads_k = 1,
     .maximum = MAXIMUM_UNKNOWN},
    {.name = "small",
     .doc = "for sanitizers: a few short sequences",
     .batch = 3,
     .fixed_q = 33,
     .fixed_k = 70,
     .lengths_q = LENGTHS_SHORT,
     .lengths_k = LENGTHS_SHORT,
     .heads_q = 2,
     .heads_k = 1,
     .maximum = MAXIMUM_UNKNOWN},
    {.name = "small-gaps",
     .doc = "for sanitizers: gaps and shortened sequences",
     .batch = 2,
     .fixed_q = 70,
     .fixed_k = 65,
     .lengths_q = LENGTHS_UNIFORM,
     .lengths_k = LENGTHS_UNIFORM,
     .heads_q = 1,
     .heads_k = 1,
     .strides = STRIDES_GAPS,
     .scale = SCALE_ONE,
     .seqused_q = true,
     .seqused_k = true},
    {.name = "small-ring",
     .doc = "for sanitizers: more tiles of keys than a ring has stages",
     .batch = 2,
     .fixed_q = 40,
     .fixed_k = 700,
     .lengths_q = LENGTHS_SHORT,
     .lengths_k = LENGTHS_FIXED,
     .heads_q = 2,
     .heads_k = 1,
     .maximum = MAXIMUM_LOOSE},
    /* Few keys, how many of them at most known: what families that hold all of them are run with. Up to 128 of each sequence, then up to 256. */
    {.name = "few-edges",
     .doc = "lengths at tile edges, up to 128 keys",
     .batch = 14,
     .fixed_q = 65,
     .fixed_k = 128,
     .lengths_k = LENGTHS_UP_TO,
     .heads_q = 2,
     .heads_k = 2},
    {.name = "few-unit",
     .doc = "the same with scale 1, three query heads a kv head, gaps",
     .batch = 14,
     .fixed_q = 1000,
     .fixed_k = 127,
     .lengths_k = LENGTHS_UP_TO,
     .heads_q = 3,
     .heads_k = 1,
     .strides = STRIDES_GAPS,
     .scale = SCALE_ONE},
    {.name = "few-seqused",
     .doc = "up to 128 keys, sequences shortened on both sides",
     .batch = 10,
     .fixed_q = 200,
     .fixed_k = 128,
     .lengths_k = LENGTHS_SHORT,
     .heads_q = 2,
     .heads_k = 2,
     .strides = STRIDES_HEAD_MAJOR,
     .seqused_q = true,
     .seqused_k = true},
    {.name = "few-many",
     .doc = "up to 128 keys, several tiles a block",
     .batch = 500,
     .fixed_q = 130,
     .fixed_k = 128,
     .lengths_q = LENGTHS_SHORT,
     .lengths_k = LENGTHS_SHORT,
     .heads_q = 2,
     .heads_k = 2,
     .scale = SCALE_ONE},
    {.name = "few-joined",
     .doc = "up to 128 rows, views of one packed qkv tensor",
     .batch = 6,
     .fixed_q = 127,
     .fixed_k = 127,
     .lengths_q = LENGTHS_SHORT,
     .lengths_k = LENGTHS_SAME,
     .heads_q = 4,
     .heads_k = 2,
     .strides = STRIDES_JOINED,
     .out_scale = -0.5F},
    {.name = "pair-edges",
     .doc = "lengths at tile edges, up to 256 keys",
     .batch = 14,
     .fixed_q = 64,
     .fixed_k = 256,
     .lengths_k = LENGTHS_UP_TO,
     .heads_q = 2,
     .heads_k = 2},
    {.name = "pair-unit",
     .doc = "the same with scale 1, three query heads a kv head, gaps",
     .batch = 14,
     .fixed_q = 1000,
     .fixed_k = 129,
     .lengths_k = LENGTHS_UP_TO,
     .heads_q = 3,
     .heads_k = 1,
     .strides = STRIDES_GAPS,
     .scale = SCALE_ONE},
    {.name = "pair-seqused",
     .doc = "up to 256 keys, sequences shortened on both sides",
     .batch = 10,
     .fixed_q = 200,
     .fixed_k = 255,
     .lengths_k = LENGTHS_UNIFORM,
     .heads_q = 2,
     .heads_k = 2,
     .strides = STRIDES_HEAD_MAJOR,
     .seqused_q = true,
     .seqused_k = true},
    {.name = "pair-many",
     .doc = "up to 256 keys, several tiles a cluster",
     .batch = 300,
     .fixed_q = 130,
     .fixed_k = 256,
     .lengths_q = LENGTHS_SHORT,
     .lengths_k = LENGTHS_SHORT,
     .heads_q = 2,
     .heads_k = 2,
     .scale = SCALE_ONE},
    {.name = "pair-joined",
     .doc = "up to 256 rows, views of one packed qkv tensor",
     .batch = 6,
     .fixed_q = 250,
     .fixed_k = 250,
     .lengths_q = LENGTHS_SHORT,
     .lengths_k = LENGTHS_SAME,
     .heads_q = 4,
     .heads_k = 2,
     .strides = STRIDES_JOINED,
     .out_scale = 0.125F},
    PUBLIC_SHAPE(256, 256, "1.0", LENGTHS_FIXED),
    PUBLIC_SHAPE(512, 512, "1.0", LENGTHS_FIXED),
    PUBLIC_SHAPE(1024, 1024, "1.0", LENGTHS_FIXED),
    PUBLIC_SHAPE(2048, 2048, "1.0", LENGTHS_FIXED),
    PUBLIC_SHAPE(256, 256, "0.5", LENGTHS_UNIFORM),
    PUBLIC_SHAPE(512, 512, "0.5", LENGTHS_UNIFORM),
    PUBLIC_SHAPE(1024, 1024, "0.5", LENGTHS_UNIFORM),
    PUBLIC_SHAPE(2048, 2048, "0.5", LENGTHS_UNIFORM),
    PUBLIC_SHAPE(512, 256, "1.0", LENGTHS_FIXED),
    PUBLIC_SHAPE(1024, 256, "1.0", LENGTHS_FIXED),
    PUBLIC_SHAPE(2048, 256, "1.0", LENGTHS_FIXED),
    PUBLIC_SHAPE(512, 256, "0.5", LENGTHS_UNIFORM),
    PUBLIC_SHAPE(1024, 256, "0.5", LENGTHS_UNIFORM),
    PUBLIC_SHAPE(2048, 256, "0.5", LENGTHS_UNIFORM),
    {.name = NULL},
};

size_t shape_count(void)
{
    return sizeof shapes / sizeof *shapes - 1;
}

int shape_find(const char *name)
{
    for (int i = 0; shapes[i].name != NULL; i++) {
        if (strcmp(shapes[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

static bool shape_unknown(const char *name, char *why, size_t capacity)
{
    struct nearest nearest = NEAREST_INIT(name);
    for (int i = 0; shapes[i].name != NULL; i++) {
        nearest_offer(&nearest, shapes[i].name);
    }
    char hint[96];
    snprintf(why, capacity, "unknown shape %s%s; verify --list --verbose shows them all", name,
             nearest_hint(&nearest, hint, sizeof hint));
    return false;
}

bool shapes_parse(const char *names, unsigned long long *bits, char *why, size_t capacity)
{
    unsigned long long found = 0;
    for (const char *at = names; *at != 0;) {
        size_t length = strcspn(at, ",");
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), at);
        int row = shape_find(name);
        at += length + (at[length] == ',' ? 1 : 0);
        if (length == 0) {
            continue;
        }
        if (row < 0) {
            return shape_unknown(name, why, capacity);
        }
        found |= 1ULL << row;
    }
    if (found == 0) {
        snprintf(why, capacity, "no shape in '%s'", names);
        return false;
    }
    *bits = found;
    return true;
}

static unsigned long long bit_of(const char *name)
{
    const int row = shape_find(name);
    return row >= 0 ? 1ULL << row : 0;
}

unsigned long long shapes_general(int32_t family)
{
    return family == GDPA_FAMILY_WHOLE || family == GDPA_FAMILY_PAIRS ? shapes_of_few_keys(family)
                                                                      : bit_of("large-batch") - 1;
}

unsigned long long shapes_of_few_keys(int32_t family)
{
    const unsigned long long end = bit_of(family == GDPA_FAMILY_PAIRS ? "public-q256-k256-fill1.0" : "pair-edges");
    return (end - bit_of("few-edges")) | bit_of("tall") | bit_of("zero-scale") | bit_of("single") | bit_of("no-keys") |
           bit_of("no-queries") | bit_of("all-empty") | bit_of("no-sequences");
}
