/*
 * NVRTC, found at run time: no header and no link to it. Versions 12 and later.
 *
 * A library that was opened stays loaded until the process ends: it keeps threads and exit handlers of its own, and
 * loading it again costs more than keeping it.
 */
#ifndef GDPA_RUNTIME_NVRTC_H
#define GDPA_RUNTIME_NVRTC_H

#include "runtime/error.h"

#define NVRTC_ARCHS_MAX 64

/* X(result, name, parameters). What every version has that we accept. */
#define NVRTC_FUNCTIONS(X)                                                                                             \
    X(int, nvrtcVersion, (int *major, int *minor))                                                                     \
    X(int, nvrtcGetNumSupportedArchs, (int *count))                                                                    \
    X(int, nvrtcGetSupportedArchs, (int *archs))                                                                       \
    X(int, nvrtcCreateProgram,                                                                                         \
      (void **program, const char *source, const char *name, int header_count, const char *const *headers,             \
       const char *const *include_names))                                                                              \
    X(int, nvrtcDestroyProgram, (void **program))                                                                      \
    X(int, nvrtcCompileProgram, (void *program, int option_count, const char *const *options))                         \
    X(int, nvrtcGetCUBINSize, (void *program, size_t *size))                                                           \
    X(int, nvrtcGetCUBIN, (void *program, char *cubin))                                                                \
    X(int, nvrtcGetPTXSize, (void *program, size_t *size))                                                             \
    X(int, nvrtcGetPTX, (void *program, char *ptx))                                                                    \
    X(int, nvrtcGetProgramLogSize, (void *program, size_t *size))                                                      \
    X(int, nvrtcGetProgramLog, (void *program, char *log))                                                             \
    X(const char *, nvrtcGetErrorString, (int result))

struct nvrtc {
#define NVRTC_POINTER(result, name, parameters) result(*name) parameters;
    NVRTC_FUNCTIONS(NVRTC_POINTER)
#undef NVRTC_POINTER
    int major, minor;
    int archs[NVRTC_ARCHS_MAX]; /* compute capability * 10, rising */
    int arch_count;
    char version[16];    /* "13.0" */
    char build[96];      /* build-ids of the library and of its builtins: the exact compiler */
    char path[4096];     /* of the file that was loaded */
    char builtins[4096]; /* likewise; "" when the loader is left to find them */
};

/* Where to look. Strings may be NULL or empty. */
struct nvrtc_search {
    const char *path;                  /* a file or folder that the user named: nothing else is tried then */
    const char *path_origin;           /* where it was named, for messages: "GDPAJIT_NVRTC" */
    const char *cuda_home, *cuda_path; /* the variables of those names */
    int driver_major;                  /* CUDA version of the driver, which newer code may not load on; 0: unknown */
    int newest; /* as the driver tells its version (12040); nothing newer is taken. 0: no limit */
};

/*
 * Finds, loads and checks a library. `report` gets a line for each place tried, and why it was not taken. Fails with
 * GDPA_E_NO_COMPILER or GDPA_E_MEMORY. Freed by nvrtc_free (which leaves the library loaded).
 */
gdpa_status nvrtc_open(const struct nvrtc_search *from, struct nvrtc **nvrtc, struct sbuf *report);
void nvrtc_free(struct nvrtc *nvrtc);

/* "12.4" -> 12040, as the driver tells its version; 0 for what is no version. */
int nvrtc_number(const char *version);

/* GDPA_OK when code for compute capability * 10 can be made, else GDPA_E_NO_COMPILER with the list of those that can. */
gdpa_status nvrtc_supports(const struct nvrtc *nvrtc, int arch, struct sbuf *why);

struct nvrtc_output {
    char *cubin, *ptx, *log; /* malloced; ended by a 0 that the size does not count */
    size_t cubin_size, ptx_size, log_size;
};

/* Compiles one source. The log is in *output when there is one, also on failure. Freed by nvrtc_output_deinit. */
gdpa_status nvrtc_compile(const struct nvrtc *nvrtc, const char *source, const char *file_name,
                          const char *const *options, int option_count, struct nvrtc_output *output, struct sbuf *why);
void nvrtc_output_deinit(struct nvrtc_output *output);

#endif
