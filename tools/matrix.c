/*
 * The matrices; see matrix.h.
 *
 * `default` is a covering set: every pair of an activation and a head dimension, and every pair of values of any two other
 * factors, so that a fault that needs two options to show is met, without the full product of 97,920 kernels. A row takes
 * the next pair of the two large factors; each other factor then takes the value that meets most pairs not met before.
 */
#include "tools/matrix.h"

#include "include/gdpajit.h"
#include "tools/shapes.h"
#include "tools/term.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct matrix_row matrices[] = {
    {"default",
     "every pair of options of the forward, every value of the backward's; what the committed records state"},
    {"portable", "the same kernels, all of the portable family, whatever the architecture offers"},
    {"short", "the forward of families short and stream, which lengths are needed to choose"},
    {"whole", "the backward of the family whole, which up to 128 keys are needed to choose"},
    {"pairs", "the backward of the family pairs, which up to 256 keys are needed to choose"},
    {"backward", "every pair of options of the backward"},
    {"small", "few kernels on tiny shapes, for compute-sanitizer"},
    {"tiny", "fewer still, for the slowest of its tools"},
    {"public", "the shapes of the public benchmark, checked in samples"},
    {NULL, NULL},
};

/* One option, or options that only make sense together, and the words of each of its values. */
struct factor {
    const char *const *values;
    int count;
    bool first_is_usual; /* with nothing new to meet, take the first value rather than the next one */
};

static const char *const activation_values[] = {
#define ACTIVATION(suffix, number, name, aliases, file, kind, rel, abs, param_default, formula, derivative)            \
    "activation=" name,
#include "gen/activations.def"
#undef ACTIVATION
};
static const char *const dim_values[] = {
    "head_dim=128",
    "head_dim=64",
    "head_dim=96",
    "head_dim=256",
    "head_dim=32",
    "head_dim=192",
    "head_dim=192 head_dim_v=128",
    "head_dim=40",
    "head_dim=120",
    "head_dim=64 head_dim_v=128",
    "head_dim=8 head_dim_v=16",
    "head_dim=96 head_dim_v=248",
};
/* Of a backward that holds all keys of a sequence, in a block or in two. */
static const char *const whole_dim_values[] = {
    "head_dim=128",
    "head_dim=64",
    "head_dim=96",
    "head_dim=32",
    "head_dim=40",
    "head_dim=120",
    "head_dim=64 head_dim_v=128",
    "head_dim=8 head_dim_v=16",
    "head_dim=128 head_dim_v=8",
};
static const char *const pair_dim_values[] = {
    "head_dim=128",
    "head_dim=96",
    "head_dim=120",
    "head_dim=128 head_dim_v=64",
    "head_dim=72 head_dim_v=128",
    "head_dim=80 head_dim_v=16",
};
static const char *const mask_values[] = {
    "",
    "causal",
    "causal align=top_left",
    "window_left=0 window_right=0",
    "window_left=64",
    "window_right=32 align=top_left",
    "window_left=100 window_right=27",
    "window_left=16 window_right=16 align=top_left",
    "causal window_left=127",
    "causal window_left=0 align=top_left",
};
static const char *const layout_values[] = {
    "",
    "layout_q=jagged layout_k=jagged",
    "layout_q=jagged",
    "layout_k=jagged",
};
/* Types of the inputs and of the output. */
static const char *const type_values[] = {
    "dtype=bf16",
    "dtype=fp16",
    "dtype=bf16 out_dtype=fp32",
    "dtype=fp16 out_dtype=fp32",
    "dtype=bf16 out_dtype=fp16",
    "dtype=fp16 out_dtype=bf16",
};
static const char *const alignment_values[] = {"", "unaligned"};
static const char *const order_values[] = {"", "deterministic"}; /* of sums; backward only */

enum {
    FACTOR_ACTIVATION,
    FACTOR_DIMS,
    FACTOR_MASK,
    FACTOR_LAYOUT,
    FACTOR_TYPES,
    FACTOR_ALIGNMENT,
    FACTOR_ORDER,
    FACTOR_COUNT,
    MAX_VALUES = 32, /* of a factor */
    MAX_TEXT = 256,
};
#define VALUES(array) (array), (int)(sizeof(array) / sizeof *(array))
static const struct factor factors[FACTOR_COUNT] = {
    [FACTOR_ACTIVATION] = {VALUES(activation_values), false},
    [FACTOR_DIMS] = {VALUES(dim_values), false},
    [FACTOR_MASK] = {VALUES(mask_values), false},
    [FACTOR_LAYOUT] = {VALUES(layout_values), false},
    [FACTOR_TYPES] = {VALUES(type_values), false},
    [FACTOR_ALIGNMENT] = {VALUES(alignment_values), true},
    [FACTOR_ORDER] = {VALUES(order_values), true},
};

/* The value of each factor in one kernel. */
struct choice {
    int value[FACTOR_COUNT];
};

/* Which pairs of values of two factors were met already. */
struct pairs {
    bool met[FACTOR_COUNT][FACTOR_COUNT][MAX_VALUES][MAX_VALUES];
};

static int new_pairs(const struct pairs *pairs, const struct choice *choice, int factor, int value)
{
    int count = 0;
    for (int other = 0; other < factor; other++) {
        count += pairs->met[other][factor][choice->value[other]][value] ? 0 : 1;
    }
    return count;
}

static int best_value(const struct pairs *pairs, const struct choice *choice, int factor, int row)
{
    int count = factors[factor].count;
    int start = factors[factor].first_is_usual ? 0 : row % count;
    int best = start;
    int best_pairs = -1;
    for (int step = 0; step < count; step++) {
        int value = (start + step) % count;
        int found = new_pairs(pairs, choice, factor, value);
        if (found > best_pairs) {
            best_pairs = found;
            best = value;
        }
    }
    return best;
}

static void meet(struct pairs *pairs, const struct choice *choice)
{
    for (int left = 0; left < FACTOR_COUNT; left++) {
        for (int right = left + 1; right < FACTOR_COUNT; right++) {
            pairs->met[left][right][choice->value[left]][choice->value[right]] = true;
        }
    }
}

/* Which kernels of a covering set are visited. */
struct range {
    bool backward;
    const char *family; /* "": the architecture's own */
    int rows;           /* the first ones */
    const struct factor
        *dims; /* NULL: those of all families. Else aligned ones, whose sums are in no order of their own */
};

static const struct factor *dims_of(const struct range *range)
{
    return range->dims != NULL ? range->dims : &factors[FACTOR_DIMS];
}

static int factor_count(const struct range *range)
{
    return range->dims != NULL ? FACTOR_ALIGNMENT : range->backward ? FACTOR_COUNT : FACTOR_ORDER;
}

/*
 * Options that few kernels set: a forward does not depend on the first two, nor an old architecture on the third. One row in eight has a
 * schedule, where there are families that have some.
 */
static const char *extra_words(int row, bool family)
{
    if (row % 8 == 6 && !family) {
        return row % 16 == 6 ? " schedule=dynamic" : " schedule=zigzag";
    }
    switch (row) {
    case 3:
        return " schedule=static";
    case 7:
        return " deterministic";
    case 11:
        return family ? "" : " family=portable";
    default:
        return "";
    }
}

/* The same of a backward: in these rows are tensors that the kernels which follow a schedule can do. */
static const char *backward_words(int row, bool family)
{
    if (row % 8 != 4 || family) {
        return "";
    }
    return row % 16 == 12 ? " schedule=dynamic" : " schedule=zigzag";
}

static void choice_text(const struct choice *choice, const struct range *range, const char *extra, const char *arch,
                        char *text, size_t capacity)
{
    size_t length = (size_t)snprintf(text, capacity, range->backward ? "bwd" : "fwd");
    for (int factor = 0; factor < FACTOR_COUNT; factor++) {
        const struct factor *from = factor == FACTOR_DIMS ? dims_of(range) : &factors[factor];
        const char *words = from->values[choice->value[factor]];
        if (words[0] != 0) {
            length += (size_t)snprintf(text + length, capacity - length, " %s", words);
        }
    }
    length += (size_t)snprintf(text + length, capacity - length, "%s", extra);
    if (range->family[0] != 0) {
        length += (size_t)snprintf(text + length, capacity - length, " family=%s", range->family);
    }
    if (arch != NULL) {
        snprintf(text + length, capacity - length, " arch=%s", arch);
    }
}

typedef bool (*visit_fn)(const char *text, void *user);

/* Whether a family has a kernel for it; those of lengths are narrow and aligned. */
static bool family_runs(const char *family, const struct choice *choice)
{
    if (strcmp(family, "short") != 0 && strcmp(family, "stream") != 0) {
        return true;
    }
    int dim = 0, dim_v = 0;
    sscanf(factors[FACTOR_DIMS].values[choice->value[FACTOR_DIMS]], "head_dim=%d head_dim_v=%d", &dim, &dim_v);
    return dim <= 128 && dim_v <= 128 && choice->value[FACTOR_ALIGNMENT] == 0;
}

/* The first rows of a covering set; all of them meet every pair of the two large factors too. */
static bool visit_rows(const struct range *range, const char *arch, visit_fn visit, void *user)
{
    struct pairs *pairs = calloc(1, sizeof *pairs);
    if (pairs == NULL) {
        return false;
    }
    int activations = factors[FACTOR_ACTIVATION].count;
    int dims = dims_of(range)->count;
    bool going = true;
    for (int row = 0; going && row < range->rows; row++) {
        struct choice choice = {{0}};
        choice.value[FACTOR_ACTIVATION] = row % activations;
        choice.value[FACTOR_DIMS] = (row / activations + row % activations) % dims;
        for (int factor = FACTOR_DIMS + 1; factor < factor_count(range); factor++) {
            choice.value[factor] = best_value(pairs, &choice, factor, row);
        }
        meet(pairs, &choice);
        if (family_runs(range->family, &choice)) {
            char text[MAX_TEXT];
            const bool family = range->family[0] != 0;
            const char *extra = range->backward ? backward_words(row, family) : extra_words(row, family);
            choice_text(&choice, range, extra, arch, text, sizeof text);
            going = visit(text, user);
        }
    }
    free(pairs);
    return going;
}

static int all_rows(void)
{
    return factors[FACTOR_ACTIVATION].count * factors[FACTOR_DIMS].count;
}

enum {
    FEWER = 3, /* of the rows are the backward's share in `default`: the gradients take a multiple of the time */
};

static bool visit_default(const char *family, const char *arch, visit_fn visit, void *user)
{
    const struct range forward = {false, family, all_rows(), NULL};
    const struct range backward = {true, family, all_rows() / FEWER, NULL};
    return visit_rows(&forward, arch, visit, user) && visit_rows(&backward, arch, visit, user);
}

/* Each activation twice. */
static bool visit_of_few_keys(const char *family, const char *arch, visit_fn visit, void *user)
{
    static const struct factor whole = {VALUES(whole_dim_values), false};
    static const struct factor pairs = {VALUES(pair_dim_values), false};
    const struct range range = {true, family, 2 * factors[FACTOR_ACTIVATION].count,
                                strcmp(family, "pairs") == 0 ? &pairs : &whole};
    return visit_rows(&range, arch, visit, user);
}

enum {
    SMALL_KERNELS = 26,
    SMALL_BACKWARD_KERNELS = 12,
};

/* Steps without a common divisor with the counts walk through all values of every factor. */
static bool visit_small(const char *arch, visit_fn visit, void *user)
{
    static const int steps[FACTOR_COUNT] = {1, 5, 3, 1, 1, 1, 1};
    for (int number = 0; number < SMALL_KERNELS + SMALL_BACKWARD_KERNELS; number++) {
        bool backward = number >= SMALL_KERNELS;
        int row = backward ? number - SMALL_KERNELS : number;
        struct choice choice = {{0}};
        for (int factor = 0; factor < FACTOR_COUNT; factor++) {
            choice.value[factor] = row * steps[factor] % factors[factor].count;
        }
        choice.value[FACTOR_ALIGNMENT] = row % 5 == 4 ? 1 : 0;
        choice.value[FACTOR_ORDER] = backward && row % 3 == 1 ? 1 : 0;
        char text[MAX_TEXT];
        const struct range range = {.backward = backward, .family = ""};
        choice_text(&choice, &range, "", arch, text, sizeof text);
        if (!visit(text, user)) {
            return false;
        }
    }
    return true;
}

/* One of each kind of pipeline and of result; the architecture's own family and the portable one. */
static const char *const tiny_kernels[] = {
    "fwd head_dim=128 dtype=bf16 activation=fast_gelu",
    "fwd head_dim=64 dtype=fp16 activation=relu causal layout_q=jagged layout_k=jagged",
    "fwd head_dim=192 head_dim_v=128 dtype=bf16 out_dtype=fp32 activation=gelu window_left=64 layout_q=jagged",
    "fwd head_dim=40 dtype=fp16 activation=silu unaligned",
    "fwd head_dim=128 dtype=bf16 activation=fast_gelu layout_k=jagged family=portable",
    "fwd head_dim=256 dtype=fp16 activation=relu causal align=top_left family=portable",
    "bwd head_dim=128 dtype=bf16 activation=fast_gelu",
    "bwd head_dim=64 dtype=fp16 activation=silu causal layout_q=jagged layout_k=jagged deterministic",
    "bwd head_dim=192 head_dim_v=128 dtype=bf16 out_dtype=fp32 activation=gelu window_left=64 family=portable",
};

static bool visit_tiny(const char *arch, visit_fn visit, void *user)
{
    for (size_t i = 0; i < sizeof tiny_kernels / sizeof *tiny_kernels; i++) {
        char text[MAX_TEXT];
        snprintf(text, sizeof text, "%s%s%s", tiny_kernels[i], arch != NULL ? " arch=" : "", arch != NULL ? arch : "");
        if (!visit(text, user)) {
            return false;
        }
    }
    return true;
}

static bool visit_public(const char *arch, visit_fn visit, void *user)
{
    static const char *const activations[] = {"fast_gelu", "relu"};
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++) {
        char text[MAX_TEXT];
        snprintf(text, sizeof text, "fwd activation=%s head_dim=128 dtype=bf16 layout_q=jagged layout_k=jagged%s%s",
                 activations[i], arch != NULL ? " arch=" : "", arch != NULL ? arch : "");
        if (!visit(text, user)) {
            return false;
        }
    }
    return true;
}

bool matrix_specs(const char *name, const char *arch, bool (*visit)(const char *text, void *user), void *user)
{
    if (strcmp(name, "default") == 0) {
        return visit_default("", arch, visit, user);
    }
    if (strcmp(name, "portable") == 0) {
        return visit_default("portable", arch, visit, user);
    }
    if (strcmp(name, "short") == 0) {
        const struct range short_ones = {false, "short", all_rows() / 2, NULL};
        const struct range streams = {false, "stream", all_rows() / 2, NULL};
        return visit_rows(&short_ones, arch, visit, user) && visit_rows(&streams, arch, visit, user);
    }
    if (strcmp(name, "whole") == 0 || strcmp(name, "pairs") == 0) {
        return visit_of_few_keys(name, arch, visit, user);
    }
    if (strcmp(name, "backward") == 0) {
        const struct range range = {true, "", all_rows(), NULL};
        return visit_rows(&range, arch, visit, user);
    }
    if (strcmp(name, "small") == 0) {
        return visit_small(arch, visit, user);
    }
    if (strcmp(name, "tiny") == 0) {
        return visit_tiny(arch, visit, user);
    }
    return strcmp(name, "public") == 0 && visit_public(arch, visit, user);
}

static bool count_one(const char *text, void *user)
{
    (void)text;
    *(size_t *)user += 1;
    return true;
}

size_t matrix_count(const char *name)
{
    size_t count = 0;
    matrix_specs(name, NULL, count_one, &count);
    return count;
}

void matrix_unknown(const char *name, char *why, size_t capacity)
{
    char known[128] = "";
    struct nearest nearest = NEAREST_INIT(name);
    for (size_t i = 0; matrices[i].name != NULL; i++) {
        size_t length = strlen(known);
        snprintf(known + length, sizeof known - length, "%s%s", i > 0 ? ", " : "", matrices[i].name);
        nearest_offer(&nearest, matrices[i].name);
    }
    char hint[96];
    snprintf(why, capacity, "unknown matrix %s%s; known are %s", name, nearest_hint(&nearest, hint, sizeof hint),
             known);
}

static unsigned long long shape_bit(const char *name)
{
    return 1ULL << shape_find(name);
}

/* Every kernel runs the shapes that cost nothing and the edges at both scales; the others take turns, five at a time. */
static unsigned long long default_shapes(size_t index)
{
    int first_turn = shape_find("joined");
    size_t turns = (size_t)(shape_find("single") - first_turn);
    unsigned long long bits = shape_bit("edges") | shape_bit("edges-unit") | shape_bit("single") |
                              shape_bit("no-keys") | shape_bit("no-queries") | shape_bit("all-empty") |
                              shape_bit("no-sequences");
    for (size_t i = 0; i < 5; i++) {
        bits |= 1ULL << ((size_t)first_turn + (index * 5 + i) % turns);
    }
    if (index % 13 == 5) {
        bits |= shape_bit("large-batch");
    }
    return bits;
}

unsigned long long matrix_shapes(const char *name, size_t index)
{
    if (strcmp(name, "default") == 0 || strcmp(name, "portable") == 0 || strcmp(name, "short") == 0 ||
        strcmp(name, "backward") == 0) {
        return default_shapes(index);
    }
    if (strcmp(name, "whole") == 0 || strcmp(name, "pairs") == 0) {
        return shapes_of_few_keys(name[0] == 'w' ? GDPA_FAMILY_WHOLE : GDPA_FAMILY_PAIRS);
    }
    if (strcmp(name, "small") == 0) {
        return shape_bit("small") | shape_bit("small-gaps") | shape_bit("small-ring") | shape_bit("no-keys");
    }
    if (strcmp(name, "tiny") == 0) {
        return shape_bit("small-gaps") | shape_bit("small-ring");
    }
    return (1ULL << shape_count()) - shape_bit("public-q256-k256-fill1.0");
}
