/*
 * A kernel: code of one spec for one architecture, and what the launch needs of it.
 */
#ifndef GDPA_RUNTIME_KERNEL_H
#define GDPA_RUNTIME_KERNEL_H

#include "gen/plan.h"
#include "runtime/compile.h"
#include "runtime/context.h"
#include "runtime/launch_quick.h"

struct gdpa_kernel {
    uint64_t number; /* of no other kernel of this process, ever */
    /* Read by every launch. */
    _Atomic(struct CUkern_st *) function; /* NULL until loaded; `driver` is set before */
    struct CUkern_st *second;             /* of a backward, or what makes a schedule; set with `driver` */
    struct driver *driver;
    uint32_t most_sms; /* of the devices that run the kernel; set with `driver` */
    gdpa_ctx *ctx;
    gdpa_spec spec; /* normalised */
    struct kernel_plan plan;
    struct launch_quick quick;
    atomic_int references; /* handles that callers hold; the context keeps the kernel beyond that */

    /* Facts, unchanged once made. Memory of the context's allocator. */
    char *name, *spec_text, *nvrtc;
    const char *target, *origin;
    char key[33], source_hash[33];
    struct cache_key disk_key;
    char *code;
    size_t code_size;
    char *ptx, *log; /* NULL when the disk cache keeps them */
    size_t ptx_size, log_size;
    struct resources resources;
    double generate_ms, compile_ms;

    pthread_mutex_t load_lock; /* of what follows */
    struct CUlib_st *library;
    double load_ms;
    gdpa_kernel *remade;   /* its facts and code count in place of ours, which the driver refused; owned. Mostly NULL */
    atomic_bool stands_in; /* for a faster one that mode strict does without, and that was told */
    gdpa_kernel *next;
};

/* What a kernel is made of; copied. */
struct kernel_parts {
    const gdpa_spec *spec;
    const struct kernel_plan *plan;
    const char *name, *spec_text, *target, *origin, *nvrtc, *source_hash;
    const struct cache_key *disk_key;
    const void *code, *ptx, *log;
    size_t code_size, ptx_size, log_size;
    const struct resources *resources;
    double generate_ms, compile_ms;
};

/* NULL for lack of memory. The kernel has no references yet. */
gdpa_kernel *kernel_make(gdpa_ctx *ctx, const struct kernel_parts *parts);

/* Of the context's end: unloads and frees whatever references there are. */
void kernel_free(gdpa_kernel *kernel);

/* After a fork: as if it had never been loaded. */
void kernel_in_child(gdpa_kernel *kernel);

/* Forgets the driver's handles and, with `unload`, gives them back. False when it was not loaded. */
bool kernel_unload(gdpa_kernel *kernel, bool unload);

/* Loads into the driver, once; sets the last error. `stream` (may be NULL) says which context to be ready in. */
gdpa_status kernel_load(gdpa_kernel *kernel, struct CUstream_st *stream);

/*
 * As gdpa_kernel_get, but the reference is the context's: good while the caller holds the context. `stream` (may be
 * NULL) says which device decides on arch 0.
 */
gdpa_status kernel_borrow(gdpa_ctx *ctx, const gdpa_spec *spec, struct CUstream_st *stream, gdpa_kernel **kernel);

/*
 * That of `chosen` (may be NULL), which suits the arguments better than `spec`. In mode strict that of `spec` where only it was made
 * beforehand: slower is better than none.
 */
gdpa_status kernel_borrow_better(gdpa_ctx *ctx, const gdpa_spec *spec, const gdpa_spec *chosen,
                                 struct CUstream_st *stream, gdpa_kernel **kernel);

/* The one whose facts and code count: itself, or what was made in its place. Good as long as the kernel. */
const gdpa_kernel *kernel_facts(gdpa_kernel *kernel);

/* Whether these bytes are the kernel's code; false without a kernel. */
bool kernel_code_is(const gdpa_kernel *kernel, const void *code, size_t size);

/* The same by a look at this thread's own alone: NULL when there is more to do. Does not count as a hit. */
gdpa_kernel *kernel_at_hand(const gdpa_ctx *ctx, const gdpa_spec *spec);

/* The kernel of a complete spec, if it was made; NULL else. Counts as a hit. */
gdpa_kernel *kernel_in_memory(gdpa_ctx *ctx, const gdpa_spec *complete);

/* Normalises a caller's spec and fills its arch in; sets the last error. */
gdpa_status kernel_spec_complete(gdpa_ctx *ctx, const gdpa_spec *spec, struct CUstream_st *stream, gdpa_spec *complete);

/* The arch of a spec, or that of the device in use; 0 where there is none. */
int kernel_arch(gdpa_ctx *ctx, const gdpa_spec *spec, struct CUstream_st *stream);

/* Counts a hit in memory. */
void kernel_hit(gdpa_ctx *ctx);

/* As gdpa_launch, for arguments that are plainly right. False: nothing was done, gdpa_launch will say why. */
bool kernel_launch_quickly(gdpa_kernel *kernel, const gdpa_args *args, struct CUstream_st *stream, gdpa_status *status);

/* Has a kernel that reads schedules make one, as gdpa_schedule_build says. */
gdpa_status kernel_make_schedule(gdpa_kernel *kernel, const gdpa_args *args, void *schedule, size_t bytes,
                                 struct CUstream_st *stream);

/* Source, plan, PTX, cubin or log into an empty buffer. */
gdpa_status kernel_artifact(gdpa_kernel *kernel, gdpa_artifact what, struct sbuf *bytes, struct sbuf *why);

/* Writes every artifact into the folder of GDPAJIT_DUMP. */
void kernel_dump(gdpa_kernel *kernel, const char *folder);

/* The buffer rules of the public header. With `final_zero` the text must fit with its 0. */
gdpa_status bytes_give(const char *what, const void *bytes, size_t size, bool final_zero, void *data, size_t capacity,
                       size_t *length);

#endif
