/*
 * cuBLAS by dlopen; see cublas.h.
 */
#include "tools/cublas.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As in the cuBLAS reference. */
enum {
    OP_NONE = 0,
    OP_TRANSPOSE = 1,
    TYPE_BF16 = 14,
    COMPUTE_FP32 = 68,
    ALGORITHM_DEFAULT = -1,
};

struct cublas_functions {
    void *library;
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*set_stream)(void *handle, struct CUstream_st *stream);
    int (*version)(void *handle, int *version);
    int (*gemm)(void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha, const void *a, int type_a,
                int lda, const void *b, int type_b, int ldb, const void *beta, void *c, int type_c, int ldc,
                int compute, int algorithm);
};

static const char *const names[] = {"libcublas.so.13", "libcublas.so.12"};
enum { NAME_COUNT = sizeof names / sizeof *names };

/* Folders below a root, as toolkits, wheels of one package each and wheels of a whole release have them. */
static const char *const toolkit_folders[] = {"/lib64", "/lib", "/targets/*-linux/lib"};
static const char *const python_folders[] = {
    "/lib/python3*/site-packages/nvidia/cu13/lib",     "/lib/python3*/dist-packages/nvidia/cu13/lib",
    "/lib/python3*/site-packages/nvidia/cublas/lib",   "/lib/python3*/dist-packages/nvidia/cublas/lib",
    "/lib64/python3*/site-packages/nvidia/cublas/lib", "/lib64/python3*/site-packages/nvidia/cu13/lib",
};

struct search {
    bool (*visit)(const char *path, void *user);
    void *user;
};

/* Every file that a pattern names, newest version of a folder first. */
static bool visit_pattern(const struct search *search, const char *pattern)
{
    glob_t found;
    bool done = false;
    if (glob(pattern, GLOB_NOSORT, NULL, &found) == 0) {
        for (size_t i = found.gl_pathc; i > 0 && !done; i--) {
            done = search->visit(found.gl_pathv[i - 1], search->user);
        }
        globfree(&found);
    }
    return done;
}

static bool visit_below(const struct search *search, const char *root, const char *const *folders, size_t count)
{
    for (size_t name = 0; name < NAME_COUNT; name++) {
        for (size_t i = 0; i < count; i++) {
            char pattern[1024];
            int length = snprintf(pattern, sizeof pattern, "%s%s/%s", root, folders[i], names[name]);
            if (length > 0 && (size_t)length < sizeof pattern && visit_pattern(search, pattern)) {
                return true;
            }
        }
    }
    return false;
}

static bool visit_toolkit(const struct search *search, const char *root)
{
    return root != NULL && root[0] != 0 &&
           visit_below(search, root, toolkit_folders, sizeof toolkit_folders / sizeof *toolkit_folders);
}

static bool visit_python(const struct search *search, const char *root)
{
    return root != NULL && root[0] != 0 &&
           visit_below(search, root, python_folders, sizeof python_folders / sizeof *python_folders);
}

bool cublas_candidates(bool (*visit)(const char *path, void *user), void *user)
{
    struct search search = {visit, user};
    for (size_t i = 0; i < NAME_COUNT; i++) {
        if (visit(names[i], user)) {
            return true;
        }
    }
    char local[1024] = "";
    const char *home = getenv("HOME");
    if (home != NULL) {
        snprintf(local, sizeof local, "%s/.local", home);
    }
    return visit_toolkit(&search, getenv("CUDA_HOME")) || visit_toolkit(&search, getenv("CUDA_PATH")) ||
           visit_toolkit(&search, "/usr/local/cuda") || visit_toolkit(&search, "/usr/local/cuda-*") ||
           visit_toolkit(&search, "/opt/cuda") || visit_python(&search, getenv("VIRTUAL_ENV")) ||
           visit_python(&search, getenv("CONDA_PREFIX")) || visit_python(&search, local) ||
           visit_python(&search, "/usr/local") || visit_python(&search, "/usr") || visit_python(&search, "/opt/*");
}

static bool symbol_find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

/* libcublas needs libcublasLt, which lies beside it and which the loader may not find by itself. */
static void companion_load(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *version = strrchr(path, '.');
    if (slash != NULL && version != NULL) {
        char companion[1024];
        snprintf(companion, sizeof companion, "%.*s/libcublasLt.so%s", (int)(slash - path), path, version);
        (void)dlopen(companion, RTLD_NOW | RTLD_GLOBAL);
    }
}

static bool try_candidate(const char *path, void *user)
{
    struct cublas *cublas = user;
    struct cublas_functions *functions = cublas->functions;
    companion_load(path);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        return false;
    }
    if (!symbol_find(library, "cublasCreate_v2", &functions->create) ||
        !symbol_find(library, "cublasDestroy_v2", &functions->destroy) ||
        !symbol_find(library, "cublasSetStream_v2", &functions->set_stream) ||
        !symbol_find(library, "cublasGetVersion_v2", &functions->version) ||
        !symbol_find(library, "cublasGemmEx", &functions->gemm)) {
        dlclose(library);
        return false;
    }
    functions->library = library;
    snprintf(cublas->path, sizeof cublas->path, "%s", path);
    return true;
}

static bool succeeded(struct cublas *cublas, int status, const char *what)
{
    if (status != 0) {
        snprintf(cublas->why, sizeof cublas->why, "%s: %s failed with status %d", cublas->path, what, status);
    }
    return status == 0;
}

bool cublas_open(struct cublas *cublas, const char *path, struct CUstream_st *stream)
{
    *cublas = (struct cublas){.functions = calloc(1, sizeof *cublas->functions)};
    if (cublas->functions == NULL) {
        snprintf(cublas->why, sizeof cublas->why, "out of host memory");
        return false;
    }
    if (path != NULL && !try_candidate(path, cublas)) {
        snprintf(cublas->why, sizeof cublas->why, "%s is no cuBLAS that can be loaded here", path);
    } else if (path == NULL && !cublas_candidates(try_candidate, cublas)) {
        snprintf(cublas->why, sizeof cublas->why,
                 "no libcublas.so.13 or .12 in the loader's path, CUDA toolkits and Python wheels; --cublas names one");
    } else if (succeeded(cublas, cublas->functions->create(&cublas->handle), "cublasCreate") &&
               succeeded(cublas, cublas->functions->set_stream(cublas->handle, stream), "cublasSetStream") &&
               succeeded(cublas, cublas->functions->version(cublas->handle, &cublas->version), "cublasGetVersion")) {
        return true;
    }
    cublas_close(cublas);
    return false;
}

void cublas_close(struct cublas *cublas)
{
    if (cublas->handle != NULL) {
        cublas->functions->destroy(cublas->handle);
        cublas->handle = NULL;
    }
    free(cublas->functions);
    cublas->functions = NULL;
}

bool cublas_gemm(struct cublas *cublas, int n, const void *a, const void *b, void *c)
{
    /* Column-major, as cuBLAS sees it: c^T = (b^T)^T a^T, with the first operand transposed and the second one not. */
    const float one = 1;
    const float zero = 0;
    int status = cublas->functions->gemm(cublas->handle, OP_TRANSPOSE, OP_NONE, n, n, n, &one, b, TYPE_BF16, n, a,
                                         TYPE_BF16, n, &zero, c, TYPE_BF16, n, COMPUTE_FP32, ALGORITHM_DEFAULT);
    return succeeded(cublas, status, "cublasGemmEx");
}
