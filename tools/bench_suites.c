/*
 * The lists of cases that bench --suite runs; see bench_case.h.
 */
#include "tools/bench_case.h"

#include "tools/term.h"

#include <stdio.h>
#include <string.h>

/* With the family named: on a GPU that has a faster one these still measure the portable kernel. */
static const char *const portable_cases[] = {
    "fwd/dense/d128/q4096/k4096/h16/b8/bf16/fast_gelu/portable",
    "fwd/dense/d128/q4096/k4096/h16/b8/bf16/relu/portable",
    "fwd/dense/d128/q4096/k4096/h16/b8/bf16/silu/portable",
    "fwd/dense/d128/q4096/k4096/h16/b8/bf16/gelu/portable",
    "fwd/dense/d128/q4096/k4096/h16/b8/bf16/identity/portable",
    "fwd/dense/d128/q4096/k4096/h16/b8/bf16/fast_silu/portable",
    "fwd/dense/d64/q4096/k4096/h32/b8/bf16/fast_gelu/portable",
    "fwd/dense/d64/q4096/k4096/h32/b8/bf16/relu/portable",
    "fwd/dense/d128/q4096/k4096/h16/b8/bf16/fast_gelu/causal/portable",
    "fwd/dense/d64/q4096/k4096/h32/b8/bf16/fast_gelu/causal/portable",
    NULL,
};

/* 32,768 tokens; 16 heads for head_dim 96 and more, 32 below. */
#define D128(rows, batch, activation) "fwd/dense/d128/q" rows "/k" rows "/h16/b" batch "/bf16/" activation
#define D64(rows, batch, activation) "fwd/dense/d64/q" rows "/k" rows "/h32/b" batch "/bf16/" activation
#define LONG(make, activation)                                                                                         \
    make("4096", "8", activation), make("8192", "4", activation), make("16384", "2", activation)
static const char *const forward_cases[] = {
    LONG(D128, "relu"),
    LONG(D128, "identity"),
    LONG(D128, "fast_silu"),
    LONG(D128, "fast_gelu"),
    LONG(D128, "silu"),
    LONG(D128, "gelu_tanh"),
    LONG(D128, "gelu"),
    D128("1024", "32", "relu"),
    D128("1024", "32", "fast_silu"),
    D128("1024", "32", "fast_gelu"),
    LONG(D64, "relu"),
    LONG(D64, "fast_silu"),
    LONG(D64, "fast_gelu"),
    LONG(D64, "fast_gelu_bf16"),
    "fwd/dense/d96/q4096/k4096/h16/b8/bf16/relu",
    "fwd/dense/d96/q4096/k4096/h16/b8/bf16/fast_gelu",
    "fwd/dense/d192x128/q4096/k4096/h16/b8/bf16/relu",
    "fwd/dense/d192x128/q4096/k4096/h16/b8/bf16/fast_gelu",
    "fwd/dense/d256/q4096/k4096/h16/b8/bf16/fast_gelu",
    "fwd/dense/d32/q4096/k4096/h32/b8/bf16/relu",
    "fwd/dense/d128/q8192/k8192/h16/b4/bf16/fast_gelu/causal",
    "fwd/dense/d128/q4096/k4096/h16/b8/fp16/relu",
    "fwd/dense/d128/q4096/k4096/h16/b8/fp16/fast_gelu",
    "fwd/dense/d64/q4096/k4096/h32/b8/fp16/fast_gelu",
    NULL,
};

/* The shapes of the public benchmark. */
#define PUBLIC(rows, keys, fill) "fwd/jagged/d128/q" rows "/k" keys "/h4/b1152/bf16/fast_gelu" fill
/* Few keys: what counts is the part of the rate of a copy. */
#define CROSS128(keys, family) "fwd/jagged/d128/q1000/k" keys "/h4/b1152/bf16/fast_gelu" family
#define CROSS64(keys, family) "fwd/jagged/d64/q1000/k" keys "/h8/b1152/bf16/fast_gelu" family
static const char *const jagged_cases[] = {
    PUBLIC("256", "256", ""),
    PUBLIC("512", "512", ""),
    PUBLIC("1024", "1024", ""),
    PUBLIC("2048", "2048", ""),
    PUBLIC("256", "256", "/fill0.5"),
    PUBLIC("512", "512", "/fill0.5"),
    PUBLIC("1024", "1024", "/fill0.5"),
    PUBLIC("2048", "2048", "/fill0.5"),
    PUBLIC("512", "256", ""),
    PUBLIC("1024", "256", ""),
    PUBLIC("2048", "256", ""),
    PUBLIC("512", "256", "/fill0.5"),
    PUBLIC("1024", "256", "/fill0.5"),
    PUBLIC("2048", "256", "/fill0.5"),
    "fwd/jagged/d128/q1024/k1024/h4/b1152/bf16/fast_gelu/fill0.5/kvjagged",
    PUBLIC("1024", "1024", "/dynamic"),
    PUBLIC("512", "512", "/fill0.5/dynamic"),
    PUBLIC("1024", "1024", "/fill0.5/dynamic"),
    PUBLIC("2048", "2048", "/fill0.5/dynamic"),
    "fwd/jagged/d128/q1024/k1024/h4/b1152/bf16/fast_gelu/fill0.5/kvjagged/dynamic",
    "fwd/jagged/d64/q1024/k1024/h8/b1152/bf16/fast_gelu/fill0.5/kvjagged/dynamic",
    "fwd/jagged/d128/q1024/k1024/h4/b1152/bf16/fast_gelu/causal/fill0.5/kvjagged/dynamic",
    "fwd/jagged/d128/q65536/k65536/h4/b1024/bf16/fast_gelu/causal/others64/kvjagged/dynamic",
    "fwd/jagged/d128/q1024/k1024/h4/b1152/bf16/relu",
    "fwd/jagged/d128/q1024/k256/h4/b1152/bf16/relu",
    CROSS128("32", "/stream"),
    CROSS128("64", "/stream"),
    CROSS128("128", ""),
    CROSS64("32", "/stream"),
    CROSS64("64", "/stream"),
    CROSS64("128", ""),
    "fwd/jagged/d64/q32/k32/h4/b100000/bf16/fast_gelu/fill0.5/kvjagged/short",
    "fwd/jagged/d64/q64/k64/h4/b50000/bf16/fast_gelu/fill0.5/kvjagged/short",
    NULL,
};

/* Every extra pass (zeros, conversion) included. */
#define B128(rows, batch, activation) "bwd/dense/d128/q" rows "/k" rows "/h16/b" batch "/bf16/" activation
#define B64(rows, batch, activation) "bwd/dense/d64/q" rows "/k" rows "/h32/b" batch "/bf16/" activation
static const char *const backward_cases[] = {
    LONG(B128, "relu"),
    LONG(B128, "identity"),
    LONG(B128, "fast_silu"),
    LONG(B128, "fast_gelu"),
    B128("4096", "8", "silu"),
    B128("4096", "8", "gelu_tanh"),
    B128("4096", "8", "gelu"),
    B128("1024", "32", "relu"),
    B128("1024", "32", "fast_gelu"),
    B64("4096", "8", "relu"),
    B64("4096", "8", "fast_silu"),
    B64("4096", "8", "fast_gelu"),
    "bwd/dense/d96/q4096/k4096/h16/b8/bf16/fast_gelu",
    "bwd/dense/d192x128/q4096/k4096/h16/b8/bf16/fast_gelu",
    "bwd/dense/d256/q4096/k4096/h16/b8/bf16/fast_gelu",
    "bwd/dense/d128/q8192/k8192/h16/b4/bf16/fast_gelu/causal",
    "bwd/dense/d128/q4096/k4096/h16x2/b8/bf16/fast_gelu",
    "bwd/jagged/d128/q1024/k128/h4/b1152/bf16/fast_gelu/fill0.5",
    "bwd/jagged/d128/q1024/k1024/h4/b1152/bf16/fast_gelu/fill0.5",
    "bwd/jagged/d128/q1000/k128/h4/b1152/bf16/fast_gelu/whole", /* as gdpa_backward chooses them */
    "bwd/jagged/d128/q1000/k128/h4/b1152/bf16/fast_gelu/fill0.5/whole",
    "bwd/jagged/d128/q1024/k256/h4/b1152/bf16/fast_gelu/pairs",
    "bwd/jagged/d128/q1024/k256/h4/b1152/bf16/fast_gelu/fill0.5/pairs",
    "bwd/dense/d128/q4096/k4096/h16/b8/bf16/fast_gelu/det",
    "bwd/dense/d128/q4096/k4096/h16/b8/bf16/fast_gelu/portable",
    "bwd/dense/d128/q4096/k4096/h16/b8/bf16/relu/portable",
    "bwd/dense/d64/q4096/k4096/h32/b8/bf16/fast_gelu/portable",
    NULL,
};

const struct bench_suite bench_suites[] = {
    {"portable", "the portable kernel at head_dim 128 and 64", portable_cases},
    {"forward", "the forward at 32,768 tokens, every head dimension and kind of activation", forward_cases},
    {"jagged", "the shapes of the public benchmark: batch 1152, lengths up to 2048", jagged_cases},
    {"backward", "the gradients at 32,768 tokens, every extra pass included", backward_cases},
    {NULL, NULL, NULL},
};

const struct bench_suite *bench_suite_find(const char *name)
{
    for (const struct bench_suite *suite = bench_suites; suite->name != NULL; suite++) {
        if (strcmp(suite->name, name) == 0) {
            return suite;
        }
    }
    return NULL;
}

void bench_suite_unknown(const char *name, char *why, size_t capacity)
{
    char known[128] = "";
    struct nearest nearest = NEAREST_INIT(name);
    for (size_t i = 0; bench_suites[i].name != NULL; i++) {
        size_t length = strlen(known);
        snprintf(known + length, sizeof known - length, "%s%s", i > 0 ? ", " : "", bench_suites[i].name);
        nearest_offer(&nearest, bench_suites[i].name);
    }
    char hint[96];
    snprintf(why, capacity, "unknown suite %s%s; known are %s", name, nearest_hint(&nearest, hint, sizeof hint), known);
}
