/*
 * Names of cases and what they stand for; see bench_case.h.
 */
#include "tools/bench_case.h"

#include "tests/support/half.h"
#include "tests/support/random.h"
#include "tests/support/reference.h"
#include "tools/term.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int number;
} activations[] = {
#define ACTIVATION(suffix, number, name, aliases, file, kind, rel, abs, param_default, formula, derivative)            \
    {name, number},
#include "gen/activations.def"
#undef ACTIVATION
};
enum { ACTIVATION_COUNT = sizeof activations / sizeof *activations };

/* Words that stand for a choice. */
enum fixed_word {
    WORD_FWD,
    WORD_BWD,
    WORD_DENSE,
    WORD_JAGGED,
    WORD_QJAGGED,
    WORD_KJAGGED,
    WORD_BF16,
    WORD_FP16,
    WORD_CAUSAL,
    WORD_TOP_LEFT,
    WORD_KVJAGGED,
    WORD_PORTABLE,
    WORD_SM90,
    WORD_SHORT,
    WORD_STREAM,
    WORD_WHOLE,
    WORD_PAIRS, /* families in the order of their numbers */
    WORD_STATIC,
    WORD_ZIGZAG,
    WORD_DYNAMIC,
    WORD_DET,
    WORD_OUT_BF16,
    WORD_OUT_FP16,
    WORD_OUT_FP32,
    WORD_COUNT
};
static const char *const fixed_words[WORD_COUNT] = {
    [WORD_FWD] = "fwd",           [WORD_BWD] = "bwd",           [WORD_DENSE] = "dense",
    [WORD_JAGGED] = "jagged",     [WORD_QJAGGED] = "qjagged",   [WORD_KJAGGED] = "kjagged",
    [WORD_BF16] = "bf16",         [WORD_FP16] = "fp16",         [WORD_CAUSAL] = "causal",
    [WORD_TOP_LEFT] = "top_left", [WORD_KVJAGGED] = "kvjagged", [WORD_DET] = "det",
    [WORD_OUT_BF16] = "outbf16",  [WORD_OUT_FP16] = "outfp16",  [WORD_OUT_FP32] = "outfp32",
    [WORD_PORTABLE] = "portable", [WORD_SM90] = "sm90",         [WORD_SHORT] = "short",
    [WORD_STREAM] = "stream",     [WORD_WHOLE] = "whole",       [WORD_PAIRS] = "pairs",
    [WORD_STATIC] = "static",     [WORD_ZIGZAG] = "zigzag",     [WORD_DYNAMIC] = "dynamic",
};

static bool take_fixed_word(struct bench_case *parsed, const char *word)
{
    int found = 0;
    while (found < WORD_COUNT && strcmp(word, fixed_words[found]) != 0) {
        found++;
    }
    gdpa_spec *spec = &parsed->spec;
    switch (found) {
    case WORD_FWD:
    case WORD_BWD:
        spec->pass = found == WORD_FWD ? GDPA_PASS_FORWARD : GDPA_PASS_BACKWARD;
        return true;
    case WORD_DENSE:
    case WORD_JAGGED:
    case WORD_QJAGGED:
    case WORD_KJAGGED:
        spec->layout_q = found == WORD_JAGGED || found == WORD_QJAGGED ? GDPA_LAYOUT_JAGGED : GDPA_LAYOUT_DENSE;
        spec->layout_k = found == WORD_JAGGED || found == WORD_KJAGGED ? GDPA_LAYOUT_JAGGED : GDPA_LAYOUT_DENSE;
        return true;
    case WORD_BF16:
    case WORD_FP16:
        spec->dtype = found == WORD_BF16 ? GDPA_DTYPE_BF16 : GDPA_DTYPE_FP16;
        return true;
    case WORD_OUT_BF16:
    case WORD_OUT_FP16:
    case WORD_OUT_FP32:
        spec->out_dtype = GDPA_DTYPE_BF16 + (found - WORD_OUT_BF16);
        return true;
    case WORD_CAUSAL:
        spec->causal = 1;
        return true;
    case WORD_TOP_LEFT:
        spec->align = GDPA_ALIGN_TOP_LEFT;
        return true;
    case WORD_KVJAGGED:
        parsed->keys_follow = true;
        return true;
    case WORD_PORTABLE:
    case WORD_SM90:
    case WORD_SHORT:
    case WORD_STREAM:
    case WORD_WHOLE:
    case WORD_PAIRS:
        spec->family = GDPA_FAMILY_PORTABLE + (found - WORD_PORTABLE);
        return true;
    case WORD_STATIC:
    case WORD_ZIGZAG:
    case WORD_DYNAMIC:
        spec->schedule = GDPA_SCHEDULE_STATIC + (found - WORD_STATIC);
        return true;
    case WORD_DET:
        spec->deterministic = 1;
        return true;
    default:
        return false;
    }
}

static bool take_activation(struct bench_case *parsed, const char *word)
{
    for (size_t i = 0; i < ACTIVATION_COUNT; i++) {
        if (strcmp(activations[i].name, word) == 0) {
            parsed->spec.activation = activations[i].number;
            parsed->activation = activations[i].name;
            return true;
        }
    }
    return false;
}

/* "128" or, with a second place for it, "192x128"; numbers from lowest on. */
static bool take_numbers(const char *text, char between, long lowest, long numbers[2], int *count)
{
    for (*count = 0; *count < 2;) {
        char *end;
        errno = 0;
        numbers[*count] = strtol(text, &end, 10);
        if (end == text || errno != 0 || numbers[*count] < lowest || numbers[*count] > INT32_MAX) {
            return false;
        }
        *count += 1;
        if (*end == 0) {
            return true;
        }
        if (*end != between || between == 0) {
            return false;
        }
        text = end + 1;
    }
    return false;
}

static bool take_number_word(struct bench_case *parsed, const char *word)
{
    long numbers[2] = {0, 0};
    int count = 0;
    switch (word[0]) {
    case 'd':
        if (!take_numbers(word + 1, 'x', 1, numbers, &count)) {
            return false;
        }
        parsed->spec.head_dim = (int32_t)numbers[0];
        parsed->spec.head_dim_v = (int32_t)numbers[count - 1];
        return true;
    case 'h':
        if (!take_numbers(word + 1, 'x', 1, numbers, &count)) {
            return false;
        }
        parsed->heads_q = numbers[0];
        parsed->heads_k = numbers[count - 1];
        return true;
    case 'w':
        if (!take_numbers(word + 1, ',', -1, numbers, &count) || count != 2) {
            return false;
        }
        parsed->spec.flags |= GDPA_SPEC_WINDOW_LEFT | GDPA_SPEC_WINDOW_RIGHT;
        parsed->spec.window_left = (int32_t)numbers[0];
        parsed->spec.window_right = (int32_t)numbers[1];
        return true;
    case 'q':
    case 'k':
    case 'b':
        if (!take_numbers(word + 1, 0, 1, numbers, &count)) {
            return false;
        }
        *(word[0] == 'q' ? &parsed->rows_q : word[0] == 'k' ? &parsed->rows_k : &parsed->batch) = numbers[0];
        return true;
    default:
        return false;
    }
}

static bool take_fill(struct bench_case *parsed, const char *word)
{
    if (strncmp(word, "fill", 4) != 0) {
        return false;
    }
    char *end;
    parsed->fill = strtod(word + 4, &end);
    return end != word + 4 && *end == 0 && parsed->fill > 0 && parsed->fill <= 1;
}

static bool take_others(struct bench_case *parsed, const char *word)
{
    static const char prefix[] = "others";
    long numbers[2] = {0, 0};
    int count = 0;
    if (strncmp(word, prefix, sizeof prefix - 1) != 0 ||
        !take_numbers(word + sizeof prefix - 1, 0, 1, numbers, &count)) {
        return false;
    }
    parsed->others = numbers[0];
    return true;
}

static bool word_unknown(const char *word, char *why, size_t capacity)
{
    struct nearest nearest = NEAREST_INIT(word);
    for (int i = 0; i < WORD_COUNT; i++) {
        nearest_offer(&nearest, fixed_words[i]);
    }
    for (size_t i = 0; i < ACTIVATION_COUNT; i++) {
        nearest_offer(&nearest, activations[i].name);
    }
    char hint[96];
    snprintf(why, capacity,
             "'%s' means nothing in the name of a case%s; one is fwd/dense/d128/q4096/k4096/h16/b8/bf16/relu", word,
             nearest_hint(&nearest, hint, sizeof hint));
    return false;
}

static bool complete(const struct bench_case *parsed, const char *name, char *why, size_t capacity)
{
    const char *missing = parsed->spec.pass == 0         ? "fwd or bwd"
                          : parsed->spec.layout_q == 0   ? "dense or jagged"
                          : parsed->spec.head_dim == 0   ? "d<head_dim>"
                          : parsed->rows_q == 0          ? "q<rows>"
                          : parsed->rows_k == 0          ? "k<rows>"
                          : parsed->heads_q == 0         ? "h<heads>"
                          : parsed->batch == 0           ? "b<batch>"
                          : parsed->spec.activation == 0 ? "an activation"
                                                         : NULL;
    if (missing != NULL) {
        snprintf(why, capacity, "case %s: %s is missing", name, missing);
        return false;
    }
    bool jagged_q = parsed->spec.layout_q == GDPA_LAYOUT_JAGGED;
    bool jagged_k = parsed->spec.layout_k == GDPA_LAYOUT_JAGGED;
    if ((!jagged_q && parsed->fill < 1) || (!(jagged_q && jagged_k) && parsed->keys_follow)) {
        snprintf(why, capacity, "case %s: fill and kvjagged are for jagged cases", name);
        return false;
    }
    if (parsed->others > 0 && (!jagged_q || parsed->others > parsed->rows_q || parsed->fill < 1)) {
        snprintf(why, capacity,
                 "case %s: others is the length of all sequences but one, of jagged queries without fill", name);
        return false;
    }
    if (parsed->keys_follow && parsed->rows_q != parsed->rows_k) {
        snprintf(why, capacity, "case %s: kvjagged gives keys the lengths of the queries, but q and k differ", name);
        return false;
    }
    if (parsed->heads_q % parsed->heads_k != 0) {
        snprintf(why, capacity, "case %s: %lld query heads are no multiple of %lld", name, (long long)parsed->heads_q,
                 (long long)parsed->heads_k);
        return false;
    }
    return true;
}

bool bench_case_parse(const char *name, struct bench_case *parsed, char *why, size_t capacity)
{
    struct bench_case found = {.spec = GDPA_SPEC_INIT, .fill = 1};
    found.spec.dtype = GDPA_DTYPE_BF16;
    for (const char *at = name; *at != 0;) {
        size_t length = strcspn(at, "/");
        char word[64];
        snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : sizeof word - 1), at);
        if (!take_fixed_word(&found, word) && !take_activation(&found, word) && !take_number_word(&found, word) &&
            !take_fill(&found, word) && !take_others(&found, word)) {
            return word_unknown(word, why, capacity);
        }
        at += length + (at[length] == '/' ? 1 : 0);
    }
    if (!complete(&found, name, why, capacity)) {
        return false;
    }
    *parsed = found;
    return true;
}

/* Appends "/word". */
__attribute__((format(printf, 2, 3))) static void add_word(char name[BENCH_NAME], const char *format, ...)
{
    size_t length = strlen(name);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name + length, BENCH_NAME - length, format, arguments);
    va_end(arguments);
}

void bench_case_name(const struct bench_case *named, char name[BENCH_NAME])
{
    const gdpa_spec *spec = &named->spec;
    bool jagged_q = spec->layout_q == GDPA_LAYOUT_JAGGED;
    bool jagged_k = spec->layout_k == GDPA_LAYOUT_JAGGED;
    name[0] = 0;
    add_word(name, "%s/%s/d%d", fixed_words[spec->pass == GDPA_PASS_BACKWARD ? WORD_BWD : WORD_FWD],
             fixed_words[jagged_q && jagged_k ? WORD_JAGGED
                         : jagged_q           ? WORD_QJAGGED
                         : jagged_k           ? WORD_KJAGGED
                                              : WORD_DENSE],
             spec->head_dim);
    if (spec->head_dim_v != 0 && spec->head_dim_v != spec->head_dim) {
        add_word(name, "x%d", spec->head_dim_v);
    }
    add_word(name, "/q%lld/k%lld/h%lld", (long long)named->rows_q, (long long)named->rows_k, (long long)named->heads_q);
    if (named->heads_k != named->heads_q) {
        add_word(name, "x%lld", (long long)named->heads_k);
    }
    add_word(name, "/b%lld/%s/%s", (long long)named->batch, dtype_name(spec->dtype), named->activation);
    int32_t left = (spec->flags & GDPA_SPEC_WINDOW_LEFT) != 0 ? spec->window_left : -1;
    int32_t right = (spec->flags & GDPA_SPEC_WINDOW_RIGHT) != 0 ? spec->window_right : -1;
    if (spec->causal != 0) {
        add_word(name, "/causal");
        right = -1;
    }
    if (left >= 0 || right >= 0) {
        add_word(name, "/w%d,%d", left, right);
    }
    if (spec->align == GDPA_ALIGN_TOP_LEFT) {
        add_word(name, "/top_left");
    }
    if (named->fill < 1) {
        add_word(name, "/fill%g", named->fill);
    }
    if (named->others > 0) {
        add_word(name, "/others%lld", (long long)named->others);
    }
    if (named->keys_follow) {
        add_word(name, "/kvjagged");
    }
    if (spec->out_dtype != 0 && spec->out_dtype != spec->dtype) {
        add_word(name, "/out%s", dtype_name(spec->out_dtype));
    }
    if (spec->family >= GDPA_FAMILY_PORTABLE) {
        add_word(name, "/%s", fixed_words[WORD_PORTABLE + (spec->family - GDPA_FAMILY_PORTABLE)]);
    }
    if (spec->schedule >= GDPA_SCHEDULE_STATIC) {
        add_word(name, "/%s", fixed_words[WORD_STATIC + (spec->schedule - GDPA_SCHEDULE_STATIC)]);
    }
    if (spec->deterministic != 0) {
        add_word(name, "/det");
    }
}

void bench_case_of_spec(const gdpa_spec *spec, struct bench_case *made)
{
    *made = (struct bench_case){.spec = *spec, .fill = 1, .batch = 8, .rows_q = 4096, .rows_k = 4096};
    made->spec.arch = 0;
    made->spec.pass = spec->pass != 0 ? spec->pass : GDPA_PASS_FORWARD;
    made->spec.dtype = spec->dtype != 0 ? spec->dtype : GDPA_DTYPE_BF16;
    made->heads_q = made->heads_k = spec->head_dim > 64 ? 16 : 32;
    for (size_t i = 0; i < ACTIVATION_COUNT; i++) {
        if (activations[i].number == spec->activation) {
            made->activation = activations[i].name;
        }
    }
}

const char *bench_case_keys(const struct bench_case *named)
{
    if (named->spec.layout_k != GDPA_LAYOUT_JAGGED) {
        return "dense";
    }
    return named->keys_follow ? "jagged" : named->rows_k < named->rows_q ? "short" : "dense";
}

/* Lengths with the mean fill * maximum. */
static int32_t length_draw(const struct bench_case *named, int64_t sequence, struct random_source *source)
{
    int64_t most = named->rows_q;
    if (named->others > 0 && sequence != named->batch / 2) {
        return (int32_t)named->others;
    }
    if (named->fill >= 1) {
        return (int32_t)most;
    }
    double twice = 2 * named->fill * (double)most;
    int64_t lowest = twice > (double)most ? (int64_t)twice - most : 1;
    int64_t highest = twice > (double)most ? most : (int64_t)twice;
    return (int32_t)random_between(source, lowest < 1 ? 1 : lowest, highest < 1 ? 1 : highest);
}

static bool offsets_make(const struct bench_case *named, uint64_t seed, struct bench_shape *shape)
{
    struct random_source source = {.seed = seed};
    size_t bytes = sizeof(int32_t) * (size_t)(named->batch + 1);
    shape->cu_seqlens_q = named->spec.layout_q == GDPA_LAYOUT_JAGGED ? malloc(bytes) : NULL;
    shape->cu_seqlens_k = named->spec.layout_k == GDPA_LAYOUT_JAGGED ? malloc(bytes) : NULL;
    if ((named->spec.layout_q == GDPA_LAYOUT_JAGGED && shape->cu_seqlens_q == NULL) ||
        (named->spec.layout_k == GDPA_LAYOUT_JAGGED && shape->cu_seqlens_k == NULL)) {
        return false;
    }
    int64_t total_q = 0;
    int64_t total_k = 0;
    for (int64_t b = 0; b <= named->batch; b++) {
        if (total_q > INT32_MAX || total_k > INT32_MAX) {
            return false; /* cu_seqlens are 32 bits wide */
        }
        if (shape->cu_seqlens_q != NULL) {
            shape->cu_seqlens_q[b] = (int32_t)total_q;
        }
        if (shape->cu_seqlens_k != NULL) {
            shape->cu_seqlens_k[b] = (int32_t)total_k;
        }
        int32_t length = length_draw(named, b, &source);
        total_q += length;
        total_k += named->keys_follow ? length : named->rows_k;
    }
    return true;
}

bool bench_shape_make(const struct bench_case *named, uint64_t seed, struct bench_shape *shape)
{
    *shape = (struct bench_shape){.args = GDPA_ARGS_INIT};
    if (!offsets_make(named, seed, shape)) {
        bench_shape_free(shape);
        return false;
    }
    gdpa_args *args = &shape->args;
    args->batch = named->batch;
    args->heads_q = named->heads_q;
    args->heads_k = named->heads_k;
    args->seqlen_q = shape->cu_seqlens_q != NULL ? 0 : named->rows_q;
    args->seqlen_k = shape->cu_seqlens_k != NULL ? 0 : named->rows_k;
    args->total_q = shape->cu_seqlens_q != NULL ? shape->cu_seqlens_q[named->batch] : 0;
    args->total_k = shape->cu_seqlens_k != NULL ? shape->cu_seqlens_k[named->batch] : 0;
    args->max_seqlen_q = shape->cu_seqlens_q != NULL ? named->rows_q : 0;
    args->max_seqlen_k = shape->cu_seqlens_k != NULL ? named->rows_k : 0;
    args->cu_seqlens_q = shape->cu_seqlens_q;
    args->cu_seqlens_k = shape->cu_seqlens_k;
    args->flags = GDPA_ARGS_SCALE;
    args->scale = (float)(1 / sqrt((double)named->spec.head_dim));
    struct reference_problem problem = {.spec = &named->spec, .args = args};
    struct reference_sizes sizes = reference_sizes_find(&problem);
    int32_t out = named->spec.out_dtype != 0 ? named->spec.out_dtype : named->spec.dtype;
    double inputs = 2.0 * (double)(sizes.dq + sizes.dk + sizes.dv);
    double columns = (double)(sizes.head_dim + sizes.head_dim_v);
    shape->bytes = inputs + (double)dtype_size(out) * (double)sizes.o;
    if (named->spec.pass == GDPA_PASS_BACKWARD) { /* S, dQ and dK; dP and dV */
        columns = (double)(3 * sizes.head_dim + 2 * sizes.head_dim_v);
        shape->bytes = inputs + 2.0 * (double)sizes.o + (double)dtype_size(out) * inputs / 2;
    }
    shape->flops = 2 * columns * (double)reference_visible_pairs(&problem);
    return true;
}

void bench_shape_free(struct bench_shape *shape)
{
    free(shape->cu_seqlens_q);
    free(shape->cu_seqlens_k);
    shape->cu_seqlens_q = NULL;
    shape->cu_seqlens_k = NULL;
}
