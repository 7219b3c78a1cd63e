/*
 * A device of verify in host memory; see host_device.h.
 */
#include "tests/support/host_device.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/half.h"
#include "tests/support/reference.h"

static bool host_open(void *self)
{
    struct host_device *host = self;
    snprintf(host->device.gpu, sizeof host->device.gpu, "Host Memory 1");
    snprintf(host->device.slug, sizeof host->device.slug, "host_memory_1");
    snprintf(host->device.driver, sizeof host->device.driver, "1.2");
    return !host->no_device;
}

static const char *host_why(void *self)
{
    struct host_device *host = self;
    return host->no_device ? "there is no device" : "the planted fault";
}

static bool host_alloc(void *self, size_t bytes, void **memory)
{
    struct host_device *host = self;
    *memory = malloc(bytes > 0 ? bytes : 1);
    host->memory += *memory != NULL ? 1 : 0;
    return *memory != NULL;
}

static void host_release(void *self, void *memory)
{
    struct host_device *host = self;
    host->memory--;
    free(memory);
}

static bool host_copy(void *self, void *to, const void *from, size_t bytes)
{
    (void)self;
    memcpy(to, from, bytes);
    return true;
}

static bool host_fill(void *self, void *memory, unsigned char value, size_t bytes)
{
    (void)self;
    memset(memory, value, bytes);
    return true;
}

static void *host_staging(void *self, size_t *bytes)
{
    struct host_device *host = self;
    *bytes = sizeof host->staging;
    return host->staging;
}

bool host_spec_parse(const char *text, gdpa_spec *spec)
{
    static const struct {
        const char *name;
        int number;
    } activations[] = {
#define ACTIVATION(suffix, number, name, aliases, file, kind, rel, abs, param_default, formula, derivative)            \
    {name, number},
#include "gen/activations.def"
#undef ACTIVATION
    };
    char act[64] = "";
    const char *at = strstr(text, "act=");
    gdpa_spec found = GDPA_SPEC_INIT;
    found.pass = strncmp(text, "bwd", 3) == 0 ? GDPA_PASS_BACKWARD : GDPA_PASS_FORWARD;
    found.deterministic = strstr(text, "deterministic") != NULL;
    for (size_t i = 0; at != NULL && i < sizeof activations / sizeof *activations; i++) {
        snprintf(act, sizeof act, "%.*s", (int)strcspn(at + 4, " "), at + 4);
        if (strcmp(act, activations[i].name) == 0) {
            found.activation = activations[i].number;
        }
    }
    at = strstr(text, " d=");
    found.head_dim = at != NULL ? atoi(at + 3) : 16;
    at = strstr(text, " dv=");
    found.head_dim_v = at != NULL ? atoi(at + 4) : found.head_dim;
    at = strstr(text, " left=");
    found.flags = at != NULL ? GDPA_SPEC_WINDOW_LEFT : 0;
    found.window_left = at != NULL ? atoi(at + 6) : 0;
    found.causal = strstr(text, "causal") != NULL;
    found.unaligned = strstr(text, "unaligned") != NULL;
    found.dtype = strstr(text, "fp16") != NULL ? GDPA_DTYPE_FP16 : GDPA_DTYPE_BF16;
    found.out_dtype = strstr(text, "fp32out") != NULL ? GDPA_DTYPE_FP32 : 0;
    bool jagged = strstr(text, "jagged") != NULL;
    found.layout_q = found.layout_k = jagged ? GDPA_LAYOUT_JAGGED : GDPA_LAYOUT_DENSE;
    *spec = found;
    return found.activation != 0;
}

static void host_describe(void *self, const char *text, struct kernel_facts *facts)
{
    (void)self;
    snprintf(facts->spec, sizeof facts->spec, "%s", text);
}

static bool host_prepare(void *self, const char *text, gdpa_spec *parsed, struct kernel_facts *facts)
{
    struct host_device *host = self;
    if (!host_spec_parse(text, &host->spec)) {
        return false;
    }
    host->faulty = host->fault_in == NULL || strstr(text, host->fault_in) != NULL;
    snprintf(facts->source, sizeof facts->source, "0123456789abcdef0123456789abcdef");
    facts->registers = 17;
    *parsed = host->spec;
    return true;
}

/* What the faults change in how the kernel reads its spec and arguments. */
static void misread(enum host_fault fault, gdpa_spec *spec, gdpa_args *args)
{
    switch (fault) {
    case FAULT_MASK:
        spec->causal = 0;
        spec->flags |= GDPA_SPEC_WINDOW_RIGHT;
        spec->window_right = 1;
        break;
    case FAULT_SCALE:
        args->flags &= ~GDPA_ARGS_SCALE;
        break;
    case FAULT_OUT_SCALE:
        args->flags &= ~GDPA_ARGS_OUT_SCALE;
        break;
    case FAULT_HEAD:
        args->k.flags |= GDPA_TENSOR_STRIDES;
        args->k.stride_row = args->heads_k * spec->head_dim;
        args->k.stride_batch = args->seqlen_k * args->k.stride_row;
        args->k.stride_head = 0;
        break;
    case FAULT_ACTIVATION:
        spec->activation = GDPA_ACTIVATION_SILU;
        break;
    case FAULT_LEAK:
        args->seqlen_k++;
        args->total_k++;
        args->k.flags |= GDPA_TENSOR_STRIDES;
        args->k.stride_head = spec->head_dim;
        args->k.stride_row = args->heads_k * spec->head_dim;
        args->k.stride_batch = (args->seqlen_k - 1) * args->k.stride_row;
        break;
    default:
        break;
    }
}

/* Where the result goes. */
struct target {
    const struct host_device *host;
    const gdpa_args *args;
    const gdpa_tensor *tensor;
    struct reference_problem problem; /* as it should be read */
    bool of_keys;
    bool unstable; /* the fault of that name is in this one */
    int32_t dtype;
    int64_t heads, dim, stride_batch, stride_row, stride_head;
};

static int64_t target_first(const struct target *target, const struct reference_sequence *sequence)
{
    return target->of_keys ? sequence->first_k : sequence->first_q;
}

static int64_t target_rows(const struct target *target, const struct reference_sequence *sequence)
{
    return target->of_keys ? sequence->rows_k : sequence->rows_q;
}

static int64_t target_index(const struct target *target, int64_t b, int64_t row, int64_t head)
{
    struct reference_sequence sequence = reference_sequence_find(&target->problem, b);
    const gdpa_spec *spec = &target->host->spec;
    bool jagged = (target->of_keys ? spec->layout_k : spec->layout_q) == GDPA_LAYOUT_JAGGED;
    int64_t base = jagged ? target_first(target, &sequence) * target->stride_row : b * target->stride_batch;
    return base + row * target->stride_row + head * target->stride_head;
}

static void store(const struct target *target, int64_t index, double value)
{
    /* As on a GPU, where a NaN that was computed is never all ones. */
    dtype_store(target->dtype, target->tensor->data, index, isnan(value) ? (double)NAN : value);
}

static void store_row(const struct target *target, int64_t b, int64_t row, int64_t head, const double *values)
{
    struct reference_sequence sequence = reference_sequence_find(&target->problem, b);
    bool last = b == target->args->batch - 1 && row == target_rows(target, &sequence) - 1 && head == target->heads - 1;
    enum host_fault fault = target->host->faulty ? target->host->fault : FAULT_NONE;
    if (fault == FAULT_SKIPPED_ROW && last) {
        return;
    }
    int64_t first = 0;
    int64_t end = 0;
    (target->of_keys ? reference_seeing : reference_visible)(&target->problem, &sequence, row, &first, &end);
    int64_t at = target_index(target, b, row, head);
    for (int64_t c = 0; c < target->dim; c++) {
        double value = values[c];
        if (last && c == 3) {
            value = fault == FAULT_NAN ? (double)NAN : fault == FAULT_ELEMENT ? value + 0.5 : value;
            value = fault == FAULT_UNSTABLE && target->unstable ? value * (1 + 0.01 * target->host->launches) : value;
        }
        if (fault == FAULT_MINUS_ZERO && first >= end) {
            value = -0.0;
        }
        store(target, at + c, value);
    }
}

/* Writes where no result belongs. */
static void stray_writes(const struct target *target)
{
    const gdpa_args *args = target->args;
    int64_t last = args->batch - 1;
    struct reference_sequence sequence = reference_sequence_find(&target->problem, last);
    struct reference_sizes sizes = reference_sizes_find(&target->problem);
    switch (target->host->fault) {
    case FAULT_PAST_END:
        store(target, (target->of_keys ? sizes.rows_k : sizes.rows_q) * target->stride_row, 0);
        break;
    case FAULT_BEFORE_START:
        store(target, -2, 0);
        break;
    case FAULT_UNUSED_ROW:
        store(target, target_index(target, last, target_rows(target, &sequence), 0), 0);
        break;
    case FAULT_GAP:
        store(target, target_index(target, last, 0, 0) + target->dim, 0);
        break;
    case FAULT_INPUT:
        ((uint16_t *)args->k.data)[0] = 0x1234;
        break;
    case FAULT_OFFSETS:
        /* The kernel gets its offsets as constants; this one casts that away. */
        ((int32_t *)(uintptr_t)args->cu_seqlens_q)[1]++;
        break;
    default:
        break;
    }
}

static struct target target_of(const struct host_device *host, const gdpa_args *args, const gdpa_tensor *tensor,
                               bool of_keys, int32_t dim)
{
    struct target target = {.host = host, .args = args, .tensor = tensor, .of_keys = of_keys, .unstable = !of_keys};
    target.problem = (struct reference_problem){.spec = &host->spec, .args = args};
    target.dtype = tensor->dtype;
    target.heads = of_keys ? args->heads_k : args->heads_q;
    target.dim = dim;
    bool strided = (tensor->flags & GDPA_TENSOR_STRIDES) != 0;
    target.stride_head = strided ? tensor->stride_head : target.dim;
    target.stride_row = strided ? tensor->stride_row : target.heads * target.dim;
    target.stride_batch =
        strided ? tensor->stride_batch : (of_keys ? args->seqlen_k : args->seqlen_q) * target.stride_row;
    return target;
}

/* Stores a packed result, and, with faults, what is none. */
static void target_store(const struct target *target, const struct reference_problem *problem, const double *values)
{
    for (int64_t b = 0; b < target->args->batch; b++) {
        struct reference_sequence sequence = reference_sequence_find(problem, b);
        for (int64_t row = 0; row < target_rows(target, &sequence); row++) {
            for (int64_t head = 0; head < target->heads; head++) {
                store_row(target, b, row, head,
                          values + ((target_first(target, &sequence) + row) * target->heads + head) * target->dim);
            }
        }
    }
    if (target->host->faulty && target->args->batch > 0) {
        stray_writes(target);
    }
}

static double *doubles(int64_t count)
{
    double *memory = calloc((size_t)(count > 0 ? count : 1), sizeof *memory);
    if (memory == NULL) {
        abort();
    }
    return memory;
}

static void launch_forward(const struct host_device *host, const gdpa_args *args,
                           const struct reference_problem *problem)
{
    double *o = doubles(reference_sizes_find(problem).o);
    if (!reference_forward(problem, o, NULL, NULL)) {
        abort();
    }
    struct target target = target_of(host, args, &args->o, false, host->spec.head_dim_v);
    target_store(&target, problem, o);
    free(o);
}

static void launch_backward(const struct host_device *host, const gdpa_args *args,
                            const struct reference_problem *problem)
{
    struct reference_sizes sizes = reference_sizes_find(problem);
    struct reference_gradients exact = {doubles(sizes.dq), doubles(sizes.dk), doubles(sizes.dv)};
    struct reference_gradients none = {NULL, NULL, NULL};
    if (!reference_backward(problem, exact, none, none, none)) {
        abort();
    }
    struct target dq = target_of(host, args, &args->dq, false, host->spec.head_dim);
    struct target dk = target_of(host, args, &args->dk, true, host->spec.head_dim);
    struct target dv = target_of(host, args, &args->dv, true, host->spec.head_dim_v);
    target_store(&dq, problem, exact.dq);
    target_store(&dk, problem, exact.dk);
    target_store(&dv, problem, exact.dv);
    free(exact.dq);
    free(exact.dk);
    free(exact.dv);
}

static bool host_launch(void *self, const gdpa_args *args)
{
    struct host_device *host = self;
    enum host_fault fault = host->faulty ? host->fault : FAULT_NONE;
    host->launches++;
    if (fault == FAULT_LAUNCH) {
        return false;
    }
    if (fault == FAULT_CRASH) {
        raise(SIGKILL);
    }
    if (fault == FAULT_HANG) {
        for (;;) {
            pause();
        }
    }
    gdpa_spec spec = host->spec;
    gdpa_args read = *args;
    misread(fault, &spec, &read);
    struct reference_problem problem = {.spec = &spec, .args = &read, .d_out = read.dout};
    if (host->spec.pass == GDPA_PASS_BACKWARD) {
        launch_backward(host, args, &problem);
    } else {
        launch_forward(host, args, &problem);
    }
    return true;
}

void host_device_init(struct host_device *host, enum host_fault fault)
{
    *host = (struct host_device){.fault = fault};
    host->device = (struct verify_device){
        .self = host,
        .open = host_open,
        .alloc = host_alloc,
        .fill = host_fill,
        .upload = host_copy,
        .download = host_copy,
        .describe = host_describe,
        .prepare = host_prepare,
        .launch = host_launch,
        .release = host_release,
        .staging = host_staging,
        .why = host_why,
    };
}
