/*
 * The yardstick of bench: cuBLAS's bf16 GEMM, by dlopen. A machine without cuBLAS gets no ratios, and everything else works.
 */
#ifndef GDPA_TOOLS_CUBLAS_H
#define GDPA_TOOLS_CUBLAS_H

#include <stdbool.h>
#include <stddef.h>

struct CUstream_st;
struct cublas_functions;

struct cublas {
    struct cublas_functions *functions;
    void *handle;
    char path[512]; /* of the library that was loaded */
    int version;
    char why[768];
};

/*
 * Loads `path`, or (NULL) libcublas.so.13 or .12: what the loader finds, then CUDA_HOME and CUDA_PATH, /usr/local/cuda*, and
 * the nvidia wheels of every Python under VIRTUAL_ENV, CONDA_PREFIX, ~/.local, /usr and /opt. A context must be current.
 */
bool cublas_open(struct cublas *cublas, const char *path, struct CUstream_st *stream);
void cublas_close(struct cublas *cublas);

/* Queues c = a * b^T of bf16 matrices of n rows and columns, all row-major (the TN layout), fp32 accumulation. */
bool cublas_gemm(struct cublas *cublas, int n, const void *a, const void *b, void *c);

/* The places that are searched, in order: calls visit until it returns true. */
bool cublas_candidates(bool (*visit)(const char *path, void *user), void *user);

#endif
