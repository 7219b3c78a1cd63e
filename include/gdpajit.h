/*
 * gdpajit.h - runtime generated attention kernels without softmax (Generalized Dot Product Attention).
 *
 * For every sequence b and query head h, with the kv head g = h / (heads_q / heads_k):
 *
 *     S[i,j] = scale * <q_i, k_j>                     accumulated in fp32
 *     P[i,j] = M[i,j] * f(S[i,j])                     M is 0 or 1 and is applied AFTER the activation f
 *     O[i,:] = out_scale * sum_j P[i,j] * v_j         P rounded to the input type, fp32 sums, one final rounding
 *
 * libgdpajit writes CUDA source for the combination asked for, compiles it with NVRTC, keeps the result in an
 * on-disk cache and launches it through the CUDA driver. This header needs no CUDA header; it is the manual of
 * the C API, and what is not in it is not API.
 *
 * A whole program (device memory q, k, v, o and a CUstream `stream` are the caller's):
 *
 *     #include <gdpajit.h>
 *     #include <stdio.h>
 *
 *     int attention(void *q, void *k, void *v, void *o, struct CUstream_st *stream)
 *     {
 *         gdpa_ctx *ctx = NULL;
 *         gdpa_spec spec = GDPA_SPEC_INIT;          // what code is wanted
 *         spec.head_dim = 128;
 *         spec.activation = GDPA_ACTIVATION_SILU;
 *         gdpa_args args = GDPA_ARGS_INIT;          // what data it runs on
 *         args.q.data = q, args.k.data = k, args.v.data = v, args.o.data = o;
 *         args.batch = 8, args.heads_q = 16, args.heads_k = 16;
 *         args.seqlen_q = args.seqlen_k = 1024;
 *         args.flags = GDPA_ARGS_SCALE, args.scale = 0.088388f;
 *         gdpa_status status = gdpa_ctx_create(NULL, &ctx);
 *         if (status == GDPA_OK) {
 *             status = gdpa_forward(ctx, &spec, &args, stream);
 *         }
 *         if (status != GDPA_OK) {
 *             fprintf(stderr, "%s\n", gdpa_last_error());
 *         }
 *         gdpa_ctx_destroy(ctx);
 *         return status == GDPA_OK ? 0 : 1;
 *     }
 *
 * Objects
 *     gdpa_ctx      cache, compiler, logger. Create one a process (or use gdpa_ctx_default); share it freely.
 *     gdpa_kernel   one compiled kernel. Immutable, reference counted, good for every device of its architecture.
 *
 * Four rules
 *     Ownership  Objects made by a _create or _get call are given back with _destroy or _release, which accept NULL.
 *                Strings returned are borrowed. Device memory always belongs to the caller; the library never
 *                allocates any. Outputs of a failing call are untouched.
 *     Threads    Every function may be called from any thread at any time, on the same objects, unless its
 *                comment says otherwise. No CUDA context needs to be current on the calling thread to get a kernel.
 *     Streams    Work is queued on the stream given, never on another one, and nothing synchronises. NULL is the
 *                legacy default stream of the context current on the calling thread.
 *     Errors     Functions return GDPA_OK or a negative gdpa_status; gdpa_last_error() then holds, for the calling
 *                thread, what was asked, what was found and what to do, with the compiler log where there is one.
 *
 * Structs start with their size, set by an _INIT macro. Zero in a field means its default; where zero is itself a
 * choice, a bit in `flags` says that the field is set. Fields are only ever appended.
 */
#ifndef GDPAJIT_H
#define GDPAJIT_H

#include <stddef.h>
#include <stdint.h>

#define GDPA_VERSION_MAJOR 0
#define GDPA_VERSION_MINOR 1
#define GDPA_VERSION_PATCH 0
#define GDPA_VERSION_STRING "0.1.0"
#define GDPA_VERSION_NUMBER (GDPA_VERSION_MAJOR * 10000 + GDPA_VERSION_MINOR * 100 + GDPA_VERSION_PATCH)

#if defined(__GNUC__)
#define GDPA_API __attribute__((visibility("default")))
#else
#define GDPA_API
#endif

#ifdef __cplusplus
/* What the _INIT macros are in C++: all zero but for the size. */
template <class Struct> inline Struct gdpa_struct_init()
{
    Struct value = Struct();
    value.size = sizeof(Struct);
    return value;
}

extern "C" {
#endif

/* The driver's stream, as in cuda.h: `typedef struct CUstream_st *CUstream` (a cudaStream_t is the same pointer). */
struct CUstream_st;

/* ---------------------------------------------------------------------------------------------------------------
 * Status codes
 * ------------------------------------------------------------------------------------------------------------- */

/* X(name, value, sentence). Values are pinned: a code keeps its number for good. */
#define GDPA_STATUS_TABLE(X)                                                                                           \
    X(GDPA_OK, 0, "success")                                                                                           \
    X(GDPA_E_ARGUMENT, -1, "an argument is not legal")                                                                 \
    X(GDPA_E_VERSION, -2, "a struct is newer or older than this library understands")                                  \
    X(GDPA_E_UNSUPPORTED, -3, "legal, but this version has no kernel for it")                                          \
    X(GDPA_E_WORKSPACE, -4, "the workspace is too small or misaligned")                                                \
    X(GDPA_E_MEMORY, -5, "out of host memory")                                                                         \
    X(GDPA_E_NO_DRIVER, -10, "no usable CUDA driver or GPU")                                                           \
    X(GDPA_E_DRIVER, -11, "the CUDA driver reported an error")                                                         \
    X(GDPA_E_CAPTURE, -12, "the kernel is not loaded, and the stream captures")                                        \
    X(GDPA_E_NO_COMPILER, -20, "no usable NVRTC library was found")                                                    \
    X(GDPA_E_COMPILE, -21, "NVRTC could not compile the kernel")                                                       \
    X(GDPA_E_NOT_READY, -22, "the kernel is not compiled and the mode forbids compiling it")                           \
    X(GDPA_E_TIMEOUT, -23, "not done within the time given")                                                           \
    X(GDPA_E_CACHE, -30, "the kernel cache cannot be used as asked")                                                   \
    X(GDPA_E_NOT_FOUND, -31, "no such entry")                                                                          \
    X(GDPA_E_BUFFER, -32, "the caller's buffer is too small")                                                          \
    X(GDPA_E_INTERNAL, -99, "a fault in libgdpajit; please report it")

typedef enum gdpa_status {
#define GDPA_STATUS_ENUM(name, value, sentence) name = (value),
    GDPA_STATUS_TABLE(GDPA_STATUS_ENUM)
#undef GDPA_STATUS_ENUM
        GDPA_STATUS_FORCE_INT = 0x7fffffff
} gdpa_status;

/* "GDPA_E_ARGUMENT" for a code; "GDPA_E_?" for a number that is none. Threads: any. Since 0.1. */
GDPA_API const char *gdpa_status_name(gdpa_status status);

/* The sentence of a code. Threads: any. Since 0.1. */
GDPA_API const char *gdpa_status_str(gdpa_status status);

/*
 * What went wrong in the last failing call on this thread: complete enough to print alone. "" when nothing failed.
 * Valid until the next failing call on the same thread. Threads: any (thread local). Since 0.1.
 */
GDPA_API const char *gdpa_last_error(void);

/* "0.1.0", and the same as major*10000 + minor*100 + patch, of the library that runs. Since 0.1. */
GDPA_API const char *gdpa_version_string(void);
GDPA_API int gdpa_version_number(void);

/* How the library was built: versions of sqlite, zstd and xxhash, template-set hash; several "name: value" lines. */
GDPA_API const char *gdpa_build_info(void);

/* ---------------------------------------------------------------------------------------------------------------
 * Spec: which code is wanted. Everything here is compiled into the kernel.
 * ------------------------------------------------------------------------------------------------------------- */

typedef enum gdpa_pass {
    GDPA_PASS_DEFAULT = 0, /* forward */
    GDPA_PASS_FORWARD = 1,
    GDPA_PASS_BACKWARD = 2
} gdpa_pass;

typedef enum gdpa_dtype {
    GDPA_DTYPE_DEFAULT = 0, /* dtype: bf16. out_dtype: the input dtype. In a tensor: what the spec says */
    GDPA_DTYPE_BF16 = 1,
    GDPA_DTYPE_FP16 = 2,
    GDPA_DTYPE_FP32 = 3 /* o and gradients only */
} gdpa_dtype;

/* The functions f; formulas, derivatives and error bounds are in docs/activations.md. Values are pinned. */
typedef enum gdpa_activation {
    GDPA_ACTIVATION_UNSET = 0, /* refused: there is no default activation */
    GDPA_ACTIVATION_IDENTITY = 1,
    GDPA_ACTIVATION_RELU = 2,
    GDPA_ACTIVATION_RELU_SQUARE = 3,
    GDPA_ACTIVATION_LEAKY_RELU = 4,
    GDPA_ACTIVATION_GELU = 5,
    GDPA_ACTIVATION_GELU_TANH = 6,
    GDPA_ACTIVATION_FAST_GELU = 7,
    GDPA_ACTIVATION_FAST_GELU_BF16 = 8,
    GDPA_ACTIVATION_SILU = 9,
    GDPA_ACTIVATION_FAST_SILU = 10,
    GDPA_ACTIVATION_HARDSWISH = 11,
    GDPA_ACTIVATION_SIGMOID = 12,
    GDPA_ACTIVATION_TANH = 13,
    GDPA_ACTIVATION_SOFTPLUS = 14,
    GDPA_ACTIVATION_ELU = 15,
    GDPA_ACTIVATION_EXP = 16,
    GDPA_ACTIVATION_SQUARE = 17
} gdpa_activation;

typedef enum gdpa_layout {
    GDPA_LAYOUT_DEFAULT = 0, /* dense */
    GDPA_LAYOUT_DENSE = 1,   /* [batch, seqlen, heads, head_dim] */
    GDPA_LAYOUT_JAGGED = 2   /* [total, heads, head_dim] with cu_seqlens on the device */
} gdpa_layout;

/* Where position 0 of the queries stands against the keys when the two lengths of a sequence differ. */
typedef enum gdpa_align {
    GDPA_ALIGN_DEFAULT = 0,      /* bottom_right */
    GDPA_ALIGN_BOTTOM_RIGHT = 1, /* off = seqlen_k - seqlen_q: the last query stands at the last key */
    GDPA_ALIGN_TOP_LEFT = 2      /* off = 0 */
} gdpa_align;

typedef enum gdpa_schedule {
    GDPA_SCHEDULE_DEFAULT = 0, /* auto */
    GDPA_SCHEDULE_AUTO = 1,    /* the planner chooses; needs no memory */
    GDPA_SCHEDULE_STATIC = 2,  /* tiles in the order of their sequences, dealt out in turn; needs no memory */
    GDPA_SCHEDULE_ZIGZAG = 3,  /* by a schedule: costliest tiles first, dealt out there and back */
    GDPA_SCHEDULE_DYNAMIC = 4  /* by a schedule: costliest tiles first, each to the block that is free */
} gdpa_schedule;

/* Which kernels: for comparisons and for tracking a fault down. Results have the same bits within a family. */
typedef enum gdpa_family {
    GDPA_FAMILY_DEFAULT = 0,  /* auto */
    GDPA_FAMILY_AUTO = 1,     /* the planner chooses the fastest that can run the spec */
    GDPA_FAMILY_PORTABLE = 2, /* mma.sync and cp.async: sm_80 and later */
    GDPA_FAMILY_SM90 = 3,     /* wgmma and TMA, warp-specialised: sm_90a; needs aligned tensors */
    /* Forward only, head dimensions up to 128, aligned tensors. gdpa_forward takes them by its lengths, where family and schedule are auto. */
    GDPA_FAMILY_SHORT = 4,  /* mma.sync, a sequence a warp: best up to 64 rows */
    GDPA_FAMILY_STREAM = 5, /* mma.sync, queries pass by few keys: best up to 64 keys and for many queries */
    /* Backward only, otherwise what sm90 needs, head dimensions up to 128. gdpa_backward takes them likewise, where dq is wanted. */
    GDPA_FAMILY_WHOLE = 6, /* all keys of a sequence in a block, up to 128 */
    GDPA_FAMILY_PAIRS = 7  /* all keys in two blocks, up to 256; head_dim above 64 */
} gdpa_family;

/* Bits of gdpa_spec.flags: the field counts although it may be zero. */
#define GDPA_SPEC_WINDOW_LEFT 0x1u
#define GDPA_SPEC_WINDOW_RIGHT 0x2u

/*
 * Visibility, with off from `align`: a key j is visible to a query i when
 *     causal          j <= i + off
 *     window_left     j >= i + off - window_left
 *     window_right    j <= i + off + window_right    (causal makes it 0)
 * -1 leaves that side unbounded, and so does 2147483647, or 0 without its bit; any other value without its bit is
 * refused. window_left 0 together with window_right 0 is the diagonal alone. A query that sees no key gives exactly 0.
 * A mask hides scores, not rows: a NaN or infinity may reach results from which it is hidden, as 0 * NaN (forward: of v; backward: of q, k, dout).
 */
typedef struct gdpa_spec {
    size_t size;    /* sizeof(gdpa_spec), set by GDPA_SPEC_INIT */
    uint32_t flags; /* GDPA_SPEC_ bits */
    int32_t pass;   /* gdpa_pass */
    int32_t arch;   /* compute capability * 10: 80, 86, 87, 89, 90, 100, 103, 120, 121; 0: that of the device in use */
    int32_t head_dim;      /* D of q and k: a multiple of 8 from 8 to 256. Required */
    int32_t head_dim_v;    /* Dv of v and o: likewise; 0: head_dim */
    int32_t dtype;         /* gdpa_dtype of q, k, v */
    int32_t out_dtype;     /* gdpa_dtype of o; backward: of dq, dk and dv */
    int32_t activation;    /* gdpa_activation. Required */
    int32_t causal;        /* 0 or 1 */
    int32_t window_left;   /* keys to the left of the aligned position, that position itself not counted */
    int32_t window_right;  /* keys to the right of it */
    int32_t align;         /* gdpa_align */
    int32_t layout_q;      /* gdpa_layout of q and o */
    int32_t layout_k;      /* gdpa_layout of k and v */
    int32_t schedule;      /* gdpa_schedule: which block takes which tiles; o has the same bits with every one */
    int32_t deterministic; /* 0 or 1: the same bits on every run, at some cost; the forward always is */
    int32_t unaligned;     /* 1: data and strides need only element alignment; slower */
    int32_t family;        /* gdpa_family */
} gdpa_spec;

#ifdef __cplusplus
#define GDPA_SPEC_INIT gdpa_struct_init<gdpa_spec>()
#else
#define GDPA_SPEC_INIT                                                                                                 \
    {                                                                                                                  \
        .size = sizeof(gdpa_spec)                                                                                      \
    }
#endif

/*
 * Reads the text form, e.g. "fwd head_dim=128 dtype=bf16 activation=silu causal layout_q=jagged arch=sm_90a".
 * Order is free, `fwd` or `bwd` comes first, on/off options may stand without a value, and d, dv, act are accepted
 * for head_dim, head_dim_v, activation. Fields not named get their defaults. An unknown or repeated word is an error
 * that names the nearest legal one. *spec is untouched on failure. Returns GDPA_E_ARGUMENT. Threads: any. Since 0.1.
 */
GDPA_API gdpa_status gdpa_spec_parse(const char *text, gdpa_spec *spec);

/*
 * Writes the canonical text form (at most `capacity` bytes with the final 0) and its length without the 0 to *length,
 * which may be NULL. Equal kernels have equal texts: defaults are filled in and options without effect are left out.
 * Parsing the text gives an equal spec. Returns GDPA_E_BUFFER when it does not fit (the length is then still given),
 * GDPA_E_ARGUMENT for a spec that gdpa_spec_check refuses. Threads: any. Since 0.1.
 */
GDPA_API gdpa_status gdpa_spec_format(const gdpa_spec *spec, char *text, size_t capacity, size_t *length);

/*
 * Whether a kernel can be made: GDPA_OK, GDPA_E_ARGUMENT (never legal), GDPA_E_UNSUPPORTED (no kernel for it in this
 * version) or GDPA_E_VERSION. gdpa_last_error() names field, value and what is legal. Threads: any. Since 0.1.
 */
GDPA_API gdpa_status gdpa_spec_check(const gdpa_spec *spec);

/*
 * The legal values of an option, named as in the text form: smallest, largest and step. Choices (dtype, activation...)
 * give the range of their numbers with step 1. Returns GDPA_E_NOT_FOUND for an unknown name. Since 0.1.
 */
GDPA_API gdpa_status gdpa_spec_bounds(const char *option, int32_t *lowest, int32_t *highest, int32_t *step);

/* ---------------------------------------------------------------------------------------------------------------
 * Arguments: which data a kernel runs on. Everything here may change from launch to launch.
 * ------------------------------------------------------------------------------------------------------------- */

/* The strides count; without this bit the tensor is packed as its layout says, and other strides than 0 or those are refused. */
#define GDPA_TENSOR_STRIDES 0x1u

/*
 * A tensor on the device. Strides are in elements, may be 0 on K and V (an expanded batch or head) and must be
 * non-negative. Unless spec.unaligned is set, data is aligned to 16 bytes, and every stride that is used is a
 * multiple of 16 bytes.
 */
typedef struct gdpa_tensor {
    void *data;
    uint32_t flags;       /* GDPA_TENSOR_ bits */
    int32_t dtype;        /* gdpa_dtype; checked against the spec when it is not 0 */
    int64_t stride_batch; /* dense layout only */
    int64_t stride_row;
    int64_t stride_head;
    int64_t stride_dim; /* must be 1 when the strides count */
} gdpa_tensor;

/* Bits of gdpa_args.flags: the field counts although it may be zero. */
#define GDPA_ARGS_SCALE 0x1u
#define GDPA_ARGS_OUT_SCALE 0x2u
#define GDPA_ARGS_ACTIVATION_PARAM 0x4u
#define GDPA_ARGS_ACCUMULATE 0x8u /* gradients are added to dq, dk and dv; out_dtype must be fp32 */

/*
 * Lengths and offsets of jagged tensors live on the device and are never read by the host. Sequence b has the rows
 * cu_seqlens[b] up to cu_seqlens[b+1], or the first seqused[b] of them where that is given. Rows that belong to no
 * sequence are never written, and nothing in them (NaN included) reaches a result. Offsets that are not increasing or
 * pass total_q or total_k are clamped: the kernels then compute rows of their own choice, but stay inside the tensors.
 */
typedef struct gdpa_args {
    size_t size;    /* sizeof(gdpa_args), set by GDPA_ARGS_INIT */
    uint32_t flags; /* GDPA_ARGS_ bits */
    gdpa_tensor q;  /* dense [batch, seqlen_q, heads_q, head_dim]   or jagged [total_q, heads_q, head_dim] */
    gdpa_tensor k;  /* dense [batch, seqlen_k, heads_k, head_dim]   or jagged [total_k, heads_k, head_dim] */
    gdpa_tensor v;  /* dense [batch, seqlen_k, heads_k, head_dim_v] or jagged [total_k, heads_k, head_dim_v] */
    gdpa_tensor o;  /* dense [batch, seqlen_q, heads_q, head_dim_v] or jagged [total_q, heads_q, head_dim_v]; written */
    int64_t batch;  /* number of sequences, 0 to 2^31-2 */
    int64_t heads_q; /* a multiple of heads_k */
    int64_t heads_k;
    int64_t seqlen_q;     /* dense q: rows of each sequence; jagged: 0 */
    int64_t seqlen_k;     /* dense k and v: likewise */
    int64_t total_q;      /* jagged q: rows of q and o; dense: 0, and so max_seqlen_q */
    int64_t total_k;      /* jagged k: rows of k and v; likewise */
    int64_t max_seqlen_q; /* jagged q: an upper bound of the lengths, or 0: unknown. Too small a bound loses rows */
    int64_t max_seqlen_k; /* jagged k: likewise; a bound in the backward, the forward takes it as a hint only */
    const int32_t *cu_seqlens_q; /* device, int32 [batch+1]; jagged q only */
    const int32_t *cu_seqlens_k; /* device, int32 [batch+1]; jagged k only */
    const int32_t *seqused_q;    /* device, int32 [batch], or NULL */
    const int32_t *seqused_k;    /* device, int32 [batch], or NULL */
    /* Finite numbers, all three. Without its bit one is 0 or its default: anything else is refused. */
    float scale;            /* inside the activation; 1 unless GDPA_ARGS_SCALE is set */
    float out_scale;        /* outside; 1 unless GDPA_ARGS_OUT_SCALE is set */
    float activation_param; /* leaky_relu: slope, elu: alpha; their defaults unless GDPA_ARGS_ACTIVATION_PARAM is set */
    /* Backward only; o is not used there. A gradient whose data is NULL is not wanted, and costs nothing. */
    gdpa_tensor dout; /* gradient of o, laid out like it, of the input type whatever out_dtype is */
    gdpa_tensor dq;   /* gradients of q, k and v, laid out like them, of spec.out_dtype; written */
    gdpa_tensor dk;
    gdpa_tensor dv;
    /* Schedules zigzag and dynamic only: up to 2^30 sequences, and tiles of queries. */
    void *schedule;        /* device: what gdpa_schedule_build made for these offsets, or NULL */
    size_t schedule_bytes; /* of it */
    /* Multiprocessors that kernels of family sm90 leave free, for what runs beside them; one is always used. */
    int64_t sm_margin;
} gdpa_args;

#ifdef __cplusplus
#define GDPA_ARGS_INIT gdpa_struct_init<gdpa_args>()
#else
#define GDPA_ARGS_INIT                                                                                                 \
    {                                                                                                                  \
        .size = sizeof(gdpa_args)                                                                                      \
    }
#endif

/* ---------------------------------------------------------------------------------------------------------------
 * Context
 * ------------------------------------------------------------------------------------------------------------- */

typedef struct gdpa_ctx gdpa_ctx;

/* Host memory. alloc gets 16-byte aligned memory or NULL; free accepts NULL. Both may be called from any thread. */
typedef struct gdpa_allocator {
    void *(*alloc)(size_t bytes, void *user);
    void (*free)(void *memory, void *user);
    void *user;
} gdpa_allocator;

typedef enum gdpa_log_level {
    GDPA_LOG_DEFAULT = 0, /* GDPAJIT_LOG, else warn */
    GDPA_LOG_NONE = 1,
    GDPA_LOG_ERROR = 2,
    GDPA_LOG_WARN = 3,
    GDPA_LOG_INFO = 4,
    GDPA_LOG_DEBUG = 5
} gdpa_log_level;

/* One line without newline. Called from any thread; must not call the library. */
typedef void (*gdpa_log_fn)(gdpa_log_level level, const char *subsystem, const char *line, void *user);

typedef enum gdpa_mode {
    GDPA_MODE_DEFAULT = 0,  /* GDPAJIT_MODE, else auto */
    GDPA_MODE_AUTO = 1,     /* look up, compile on a miss, store */
    GDPA_MODE_READONLY = 2, /* look up, compile on a miss, never write the disk */
    GDPA_MODE_STRICT = 3,   /* a miss is GDPA_E_NOT_READY, with the warm command that cures it */
    GDPA_MODE_OFF = 4       /* no disk at all */
} gdpa_mode;

/* What the first launch of a kernel does when its stream captures: loading is no stream operation. */
typedef enum gdpa_capture {
    GDPA_CAPTURE_DEFAULT = 0, /* GDPAJIT_CAPTURE, else relaxed */
    GDPA_CAPTURE_RELAXED = 1, /* load, in the relaxed capture mode of the thread; the capture goes on */
    GDPA_CAPTURE_STRICT = 2   /* GDPA_E_CAPTURE: captures are to hold no surprise; gdpa_kernel_prepare comes before */
} gdpa_capture;

typedef struct gdpa_ctx_options {
    size_t size;              /* sizeof(gdpa_ctx_options), set by GDPA_CTX_OPTIONS_INIT */
    const char *cache_dir;    /* NULL: GDPAJIT_CACHE_DIR, XDG_CACHE_HOME/gdpajit, HOME/.cache/gdpajit */
    const char *nvrtc_path;   /* a libnvrtc file; NULL: GDPAJIT_NVRTC, then the search of docs/install.md */
    const char *driver_path;  /* a libcuda file; NULL: GDPAJIT_LIBCUDA, then libcuda.so.1 */
    gdpa_allocator allocator; /* all zero: malloc and free */
    gdpa_log_fn log;          /* NULL: lines to stderr */
    void *log_user;
    int32_t log_level;         /* gdpa_log_level */
    int32_t mode;              /* gdpa_mode */
    int64_t cache_limit_bytes; /* 0: GDPAJIT_CACHE_LIMIT, else 1 GiB; negative: no limit */
    int32_t cache_wait_s;      /* for another process that compiles it: 0: GDPAJIT_CACHE_WAIT, else 120; -1: none */
    int32_t capture;           /* gdpa_capture */
    int32_t jobs;              /* compiles at a time; 0: GDPAJIT_JOBS, else by processors and memory */
    const char *packs;         /* packs to look in before the cache, see gdpa_pack_write; NULL: GDPAJIT_PACKS */
    const char *trace; /* file that gets a line for each spec that is asked for; NULL: GDPAJIT_TRACE, else none */
} gdpa_ctx_options;

#ifdef __cplusplus
#define GDPA_CTX_OPTIONS_INIT gdpa_struct_init<gdpa_ctx_options>()
#else
#define GDPA_CTX_OPTIONS_INIT                                                                                          \
    {                                                                                                                  \
        .size = sizeof(gdpa_ctx_options)                                                                               \
    }
#endif

/*
 * Makes a context. Reads the environment once; touches neither CUDA, NVRTC nor the disk yet: those are opened when
 * first needed. A cache that cannot be used is a warning, not a failure. options may be NULL.
 * Returns GDPA_E_ARGUMENT, GDPA_E_VERSION, GDPA_E_MEMORY. Since 0.1.
 */
GDPA_API gdpa_status gdpa_ctx_create(const gdpa_ctx_options *options, gdpa_ctx **ctx);

/*
 * Destroys a context once no kernel or request of it is referenced any more. Waits for workers in the middle of a kernel; requests that were
 * not begun fail. No launch of it may be running in another thread.
 */
GDPA_API void gdpa_ctx_destroy(gdpa_ctx *ctx);

/* A context with default options, made on first use and never destroyed; optional, for scripts. Since 0.1. */
GDPA_API gdpa_status gdpa_ctx_default(gdpa_ctx **ctx);

/*
 * Unloads every kernel that nobody holds from the driver, which frees its device memory; it is loaded again when it is
 * launched again. *unloaded may be NULL. No launch of the context may be running in another thread, no stream may
 * capture, and graphs with launches of kernels that are not held must not be replayed any more. Since 0.1.
 */
GDPA_API gdpa_status gdpa_ctx_trim(gdpa_ctx *ctx, int64_t *unloaded);

/*
 * After cudaDeviceReset, cuDevicePrimaryCtxReset or the end of a CUDA context: forgets what the driver gave to this
 * context, without giving it back. Kernels, held ones too, are loaded again at their next launch. Since 0.1.
 */
GDPA_API gdpa_status gdpa_ctx_reset(gdpa_ctx *ctx);

/* Counters since the context was made. */
typedef struct gdpa_stats {
    size_t size;
    uint64_t memory_hits, disk_hits, compiles, compile_failures, waits, bad_entries, launches;
    uint64_t generate_ns, compile_ns, load_ns; /* summed */
    uint64_t process_waits;                    /* for a kernel that another process compiled; `waits`: another thread */
    uint64_t evictions;                        /* entries of the disk cache that had to make room */
} gdpa_stats;
GDPA_API gdpa_status gdpa_ctx_stats(gdpa_ctx *ctx, gdpa_stats *stats);

/*
 * What this process found: "name: value" lines on NVRTC (path, version), driver, devices, cache folder and state, every
 * GDPAJIT_ variable with its origin, and for what is missing, where it looked. Opens what was not opened yet. Never
 * fails for what is missing. Same buffer rules as gdpa_spec_format. Since 0.1.
 */
GDPA_API gdpa_status gdpa_ctx_describe(gdpa_ctx *ctx, char *text, size_t capacity, size_t *length);

/* ---------------------------------------------------------------------------------------------------------------
 * Kernels
 * ------------------------------------------------------------------------------------------------------------- */

typedef struct gdpa_kernel gdpa_kernel;

/*
 * Finds or makes the kernel of a spec: memory, disk, then NVRTC (which may take some seconds). One compile a key,
 * however many threads, and processes with the same cache, ask. With spec->arch 0 the architecture is that of the context
 * current on the calling thread, else of device 0. No device is needed when arch is given. The caller releases *kernel.
 * Returns what gdpa_spec_check returns, GDPA_E_NO_DRIVER (arch 0 and no GPU), GDPA_E_NO_COMPILER, GDPA_E_COMPILE,
 * GDPA_E_NOT_READY. Since 0.1.
 */
GDPA_API gdpa_status gdpa_kernel_get(gdpa_ctx *ctx, const gdpa_spec *spec, gdpa_kernel **kernel);
GDPA_API gdpa_kernel *gdpa_kernel_retain(gdpa_kernel *kernel);
GDPA_API void gdpa_kernel_release(gdpa_kernel *kernel);

/*
 * The same by a worker of the context: starts at once and returns. The spec is checked here, and an arch of 0 decided
 * here. The caller releases *request, at any time: what is being made is not disturbed.
 * Returns GDPA_E_MEMORY, GDPA_E_NO_DRIVER (arch 0 and no GPU) and what gdpa_spec_check returns. Since 0.1.
 */
typedef struct gdpa_request gdpa_request;
GDPA_API gdpa_status gdpa_kernel_get_async(gdpa_ctx *ctx, const gdpa_spec *spec, gdpa_request **request);

/*
 * Waits for the kernel of a request, up to timeout_ms (0: looks; negative: as long as it takes), from any number of
 * threads. Each success gives a reference that the caller releases. Returns GDPA_E_TIMEOUT while it is being made,
 * else what gdpa_kernel_get returns, with the same text for all who ask. Since 0.1.
 */
GDPA_API gdpa_status gdpa_request_wait(gdpa_request *request, int64_t timeout_ms, gdpa_kernel **kernel);
GDPA_API void gdpa_request_release(gdpa_request *request);

/*
 * Has a kernel made in the background, so that a later gdpa_kernel_get finds it or waits for the rest of it. Failures
 * are told to whoever asks for it later. Returns what gdpa_kernel_get_async returns. Since 0.1.
 */
GDPA_API gdpa_status gdpa_prefetch(gdpa_ctx *ctx, const gdpa_spec *spec);

/*
 * Loads the kernel into the driver so that the first launch does no lazy work. Optional; gdpa_launch does it otherwise.
 * Returns GDPA_E_NO_DRIVER, GDPA_E_DRIVER. Since 0.1.
 */
GDPA_API gdpa_status gdpa_kernel_prepare(gdpa_kernel *kernel);

/*
 * Device bytes that a launch with these arguments needs, from the host's maxima alone. A forward kernel needs none, but for the schedules zigzag and
 * dynamic without args->schedule (which a backward needs): it is made there, before each launch. A backward kernel sums up dq there in fp32 (about
 * heads_q * head_dim * 4 bytes for each row of q, rows and head_dim rounded up to 16; on Hopper up to 9 MB more for the order of its work), or needs
 * nothing: with spec.deterministic, without dq, where all keys of a sequence are known to fit one tile (block_n of the plan; by seqlen_k or
 * max_seqlen_k), or for families whole and pairs. On Hopper all but the first take 512 bytes for the order, if there is no schedule; without them
 * (NULL) it is slower where lengths differ. No initialisation; aligned to 256 bytes. Returns what gdpa_launch returns for bad arguments. Since 0.1.
 */
GDPA_API gdpa_status gdpa_workspace_size(gdpa_kernel *kernel, const gdpa_args *args, size_t *bytes);

/*
 * Queues the kernel on the stream (a backward is up to two kernels and a fill of the workspace): checks the arguments,
 * packs them, launches. No compile, no allocation, no synchronisation, no environment, no lock (after the first launch
 * of a kernel); capturable in a CUDA graph, and a captured launch may be replayed after the offsets and lengths on the
 * device changed within the same maxima.
 * Nothing is launched, and nothing written, when it fails. An empty problem succeeds without a launch.
 * Returns GDPA_E_ARGUMENT, GDPA_E_VERSION, GDPA_E_WORKSPACE, GDPA_E_NO_DRIVER, GDPA_E_DRIVER, GDPA_E_CAPTURE. Since 0.1.
 */
GDPA_API gdpa_status gdpa_launch(gdpa_kernel *kernel, const gdpa_args *args, void *workspace, size_t workspace_bytes,
                                 struct CUstream_st *stream);

/*
 * gdpa_kernel_get and gdpa_launch in one; returns what they return. spec->unaligned is set by itself where tensors need it. Family and schedule auto:
 * short or stream by lengths; else schedule auto: dynamic with args->schedule if lengths may differ. In mode strict the spec's own instead. Since 0.1.
 */
GDPA_API gdpa_status gdpa_forward(gdpa_ctx *ctx, const gdpa_spec *spec, const gdpa_args *args,
                                  struct CUstream_st *stream);

/*
 * The gradients of q, k and v from q, k, v and the gradient of o, in one call:
 *
 *     dV = out_scale * P^T dO          dS[i,j] = out_scale * scale * M[i,j] * f'(S[i,j]) * <dO_i, v_j>
 *     dQ = dS K                        dK = dS^T Q        summed over the query heads of a kv head
 *
 * P and dS are rounded to the input type (in fp16 a dS below 3e-8 is 0: scale dO up, or take bf16), sums are fp32, with
 * one final rounding; what is beyond the range of a type becomes infinite. Any of dq, dk and dv may be left out; none of
 * them is zeroed or read before, but with GDPA_ARGS_ACCUMULATE. Rows without a visible partner get exactly +0.
 * Gradients share no memory with each other, the inputs or the workspace; only equal addresses are noticed.
 * spec->pass is bwd or default: the spec of the forward does, but for families short and stream. spec->unaligned is set by itself where the tensors
 * need it. Family and schedule auto: on Hopper, for dq, whole up to 128 keys (seqlen_k, max_seqlen_k), pairs up to 256 where it is faster, or the sums have
 * no room; else schedule auto: dynamic with args->schedule if lengths may differ. In mode strict the spec's own instead. The workspace has gdpa_backward_workspace_size bytes and may be NULL
 * when that is 0, and where gdpa_workspace_size says so. With spec->deterministic every run gives the same bits; else the order of the fp32 sums of dq
 * may differ, but where keys fit one tile (or two of pairs). Returns what gdpa_kernel_get and gdpa_launch return. Since 0.1.
 */
GDPA_API gdpa_status gdpa_backward(gdpa_ctx *ctx, const gdpa_spec *spec, const gdpa_args *args, void *workspace,
                                   size_t workspace_bytes, struct CUstream_st *stream);

/* gdpa_workspace_size for gdpa_backward: finds or makes the same kernel. With spec->arch 0 the device is that of gdpa_kernel_get. Since 0.1. */
GDPA_API gdpa_status gdpa_backward_workspace_size(gdpa_ctx *ctx, const gdpa_spec *spec, const gdpa_args *args,
                                                  size_t *bytes);

/*
 * Schedules: which tiles of which sequences come first, made on the device from the offsets and lengths there.
 * Kernels of the schedules zigzag and dynamic read one. It depends on the batch, the offsets and lengths (cu_seqlens, seqused, seqlen,
 * total), the layouts and the mask (causal, windows, align), and on nothing else: one serves the forward and the backward of every layer,
 * whatever its heads, head dims, types and activation are. Other offsets on the device need another gdpa_schedule_build, which may be part
 * of a captured graph. Memory belongs to the caller, is aligned to 256 bytes, and is not to be touched between build and use; a launch
 * writes to it (the counter of `dynamic`), so launches with the same schedule must follow each other, as on one stream. Results do not
 * depend on it, but how sums are rounded that blocks share (dq; with `auto` dense dk and dv of a few tiles, without a mask). One made for
 * other offsets can leave rows unwritten, and sums of dq short of terms, but never writes elsewhere.
 */

/*
 * Device bytes of a schedule (about 32 for each sequence and some 2 KB); 0 where the spec's kernels find their tiles without: every family
 * but sm90. Takes batch from args. With spec->schedule neither zigzag nor dynamic it answers for dynamic. Does what
 * gdpa_kernel_get does for the forward kernel of the spec, and returns what that returns. Threads: any. Since 0.1.
 */
GDPA_API gdpa_status gdpa_schedule_size(gdpa_ctx *ctx, const gdpa_spec *spec, const gdpa_args *args, size_t *bytes);

/*
 * Queues the making of a schedule on the stream: one small kernel, no synchronisation, capturable. Of args it takes batch, heads, the
 * lengths and offsets; tensors may be missing. spec is that of either pass. Does nothing where the size is 0. The first use may
 * compile. Returns what gdpa_kernel_get and gdpa_launch return, GDPA_E_WORKSPACE for too small or misaligned a schedule.
 * Threads: any. Since 0.1.
 */
GDPA_API gdpa_status gdpa_schedule_build(gdpa_ctx *ctx, const gdpa_spec *spec, const gdpa_args *args, void *schedule,
                                         size_t bytes, struct CUstream_st *stream);

/* What a kernel is; strings live as long as the kernel. */
typedef struct gdpa_kernel_info {
    size_t size;
    const char *name;        /* entry symbol, as profilers show it */
    const char *spec;        /* canonical spec text */
    const char *target;      /* "sm_90a" */
    const char *key;         /* 32 hex digits: the cache key */
    const char *source_hash; /* 32 hex digits: of the generated source */
    const char *origin;      /* "compiled" or "disk": where this process got the code from */
    const char *nvrtc;       /* version of the compiler that made it, "13.0" */
    int32_t registers;       /* a thread */
    int32_t spill_bytes, stack_bytes;
    int32_t smem_static, smem_dynamic; /* bytes a block */
    int32_t threads;                   /* a block */
    int32_t binary_bytes;
    double generate_ms, compile_ms, load_ms;
} gdpa_kernel_info;
GDPA_API gdpa_status gdpa_kernel_info_get(gdpa_kernel *kernel, gdpa_kernel_info *info);

typedef enum gdpa_artifact {
    GDPA_ARTIFACT_SOURCE = 1, /* the CUDA source, one flat file */
    GDPA_ARTIFACT_PLAN = 2,   /* tile sizes and why, as text */
    GDPA_ARTIFACT_PTX = 3,
    GDPA_ARTIFACT_CUBIN = 4,
    GDPA_ARTIFACT_LOG = 5 /* of the compiler */
} gdpa_artifact;

/*
 * Copies an artifact of a kernel. *length gets its size (without the final 0 that texts get when there is room). Returns
 * GDPA_E_BUFFER when capacity is too small, GDPA_E_NOT_FOUND when it was not kept. data may be NULL when capacity is 0.
 */
GDPA_API gdpa_status gdpa_kernel_artifact(gdpa_kernel *kernel, gdpa_artifact what, void *data, size_t capacity,
                                          size_t *length);

/*
 * Generates source or plan of a spec without compiler, cache or GPU (spec->arch must be given). Deterministic: the same
 * spec and library version give the same bytes. Same buffer rules. Since 0.1.
 */
GDPA_API gdpa_status gdpa_generate(const gdpa_spec *spec, gdpa_artifact what, char *text, size_t capacity,
                                   size_t *length);

/* ---------------------------------------------------------------------------------------------------------------
 * The disk cache
 * ------------------------------------------------------------------------------------------------------------- */

typedef struct gdpa_cache_entry {
    size_t size;
    const char *key, *name, *spec, *target, *nvrtc, *source_hash;
    int32_t registers, spill_bytes, smem_dynamic, threads;
    int64_t binary_bytes, stored_bytes; /* code alone; code, source, PTX and log as stored */
    double compile_ms;
    uint64_t hits, sequence; /* larger sequence: used more recently */
} gdpa_cache_entry;

/* Return non-zero to stop. The strings live during the call. Must not call the library. */
typedef int (*gdpa_cache_fn)(const gdpa_cache_entry *entry, void *user);

typedef struct gdpa_cache_summary {
    size_t size;
    const char *path;  /* of the database; "" when there is none. Lives as long as the context */
    const char *state; /* "read-write", "read-only" or why there is none */
    int64_t entries, bytes, limit_bytes;
    int64_t foreign_entries; /* made by another version of this library */
    int64_t part_bytes;      /* of sources, PTX, logs and plans, which go first when there is too much */
    int64_t file_bytes;      /* on the disk, with log and files set aside */
    int64_t set_aside;       /* damaged databases, renamed and kept for a look */
    int32_t network;         /* 1: on a file system that machines share */
    int32_t locks; /* 1: processes wait for each other's compiles; 0: they cannot here; -1: nothing can be stored */
} gdpa_cache_summary;

typedef struct gdpa_cache_gc_report {
    size_t size;
    int64_t entries, parts, set_aside; /* removed: entries; their sources, PTX, logs, plans; damaged databases */
    int64_t bytes_before, bytes_after; /* on the disk */
} gdpa_cache_gc_report;

/* All of these return GDPA_E_CACHE when there is no usable cache, with the reason. Since 0.1. */
GDPA_API gdpa_status gdpa_cache_list(gdpa_ctx *ctx, gdpa_cache_fn visit, void *user);
GDPA_API gdpa_status gdpa_cache_describe(gdpa_ctx *ctx, gdpa_cache_summary *summary);
/* Re-checks every entry (hashes, key material, code format); removes bad ones. Counts may be NULL. */
GDPA_API gdpa_status gdpa_cache_verify(gdpa_ctx *ctx, int64_t *good, int64_t *bad);
/*
 * Does at once what stores do in small steps: evicts above limit_bytes (0: the limit of the context) down to 80 % of it,
 * removes what belongs to no entry, gives free space back to the file system. report may be NULL.
 */
GDPA_API gdpa_status gdpa_cache_gc(gdpa_ctx *ctx, int64_t limit_bytes, gdpa_cache_gc_report *report);
/* Removes one entry by key, or all when key is NULL. *removed may be NULL. GDPA_E_NOT_FOUND for an unknown key. */
GDPA_API gdpa_status gdpa_cache_remove(gdpa_ctx *ctx, const char *key, int64_t *removed);
/* Copies an artifact of a stored entry, by key or unique prefix of key or name. Buffer rules of gdpa_kernel_artifact. */
GDPA_API gdpa_status gdpa_cache_artifact(gdpa_ctx *ctx, const char *key, gdpa_artifact what, void *data,
                                         size_t capacity, size_t *length);

/*
 * Why a kernel would be compiled: "name: value" lines on what it is looked for by, which file has it ("found: no"),
 * the nearest entry of the cache, and the parts of the key that differ ("different: nvrtc: here 13.0; there 12.8").
 * Compiles and launches nothing. Same buffer rules as gdpa_spec_format. Since 0.1.
 */
GDPA_API gdpa_status gdpa_cache_why(gdpa_ctx *ctx, const gdpa_spec *spec, char *text, size_t capacity, size_t *length);

/* ---------------------------------------------------------------------------------------------------------------
 * Packs: single files of compiled kernels, searched before the cache and never written again
 * ------------------------------------------------------------------------------------------------------------- */

/*
 * gdpa_ctx_options.packs and GDPAJIT_PACKS name files, folders (their *.pack files in the order of their names) and files with their hash
 * (FILE@sha256:HEX), separated by colons. The first pack that has a kernel wins, then the cache. A pack must belong to root or to this user
 * and be writable by nobody else, or be named with its SHA-256. A pack that cannot be used is a warning.
 */
typedef struct gdpa_pack_report {
    size_t size;
    int64_t entries;   /* in the pack, good ones */
    int64_t bad;       /* that failed their checks, and were left out */
    int64_t present;   /* that the cache has as well */
    int64_t different; /* of these, with other code: the pack's is used, being searched first */
    int64_t stored;    /* new to the cache */
    int64_t bytes;     /* of the file */
    char sha256[72];   /* 64 hex digits: of the file */
} gdpa_pack_report;

/*
 * Writes the entries of the cache with these keys (32 hex digits each; NULL: all) into a pack, which replaces what has that name at once
 * and whole. With code_only sources, PTX, logs and plans are left out. report may be NULL.
 * Returns GDPA_E_CACHE, GDPA_E_ARGUMENT for a key that is none, GDPA_E_NOT_FOUND for one that is not there. Since 0.1.
 */
GDPA_API gdpa_status gdpa_pack_write(gdpa_ctx *ctx, const char *path, const char *const *keys, size_t key_count,
                                     int code_only, gdpa_pack_report *report);

/*
 * Checks a pack ("FILE" or "FILE@sha256:HEX") against its hashes and against the cache and, with store, puts what is
 * new into the cache. report may be NULL. Returns GDPA_E_CACHE with the reason when it cannot be used. Since 0.1.
 */
GDPA_API gdpa_status gdpa_pack_read(gdpa_ctx *ctx, const char *path, int store, gdpa_pack_report *report);

#ifdef __cplusplus
}
#endif

#endif /* GDPAJIT_H */
