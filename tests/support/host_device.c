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
    found.pass = GDPA_PASS_FORWARD;
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
    struct reference_problem problem; /* as it should be read */
    int32_t dtype;
    int64_t dim, stride_batch, stride_row, stride_head;
};

static int64_t target_index(const struct target *target, int64_t b, int64_t row, int64_t head)
{
    struct reference_sequence sequence = reference_sequence_find(&target->problem, b);
    bool jagged = target->host->spec.layout_q == GDPA_LAYOUT_JAGGED;
    int64_t base = jagged ? sequence.first_q * target->stride_row : b * target->stride_batch;
    return base + row * target->stride_row + head * target->stride_head;
}

static void store(const struct target *target, int64_t index, double value)
{
    /* As on a GPU, where a NaN that was computed is never all ones. */
    dtype_store(target->dtype, target->args->o.data, index, isnan(value) ? (double)NAN : value);
}

static void store_row(const struct target *target, int64_t b, int64_t row, int64_t head, const double *values)
{
    struct reference_sequence sequence = reference_sequence_find(&target->problem, b);
    bool last = b == target->args->batch - 1 && row == sequence.rows_q - 1 && head == target->args->heads_q - 1;
    enum host_fault fault = target->host->faulty ? target->host->fault : FAULT_NONE;
    if (fault == FAULT_SKIPPED_ROW && last) {
        return;
    }
    int64_t first;
    int64_t end;
    reference_visible(&target->problem, &sequence, row, &first, &end);
    int64_t at = target_index(target, b, row, head);
    for (int64_t c = 0; c < target->dim; c++) {
        double value = values[c];
        if (last && c == 3) {
            value = fault == FAULT_NAN ? (double)NAN : fault == FAULT_ELEMENT ? value + 0.5 : value;
            value = fault == FAULT_UNSTABLE ? value * (1 + 0.01 * target->host->launches) : value;
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
        store(target, sizes.rows_q * target->stride_row, 0);
        break;
    case FAULT_BEFORE_START:
        store(target, -2, 0);
        break;
    case FAULT_UNUSED_ROW:
        store(target, target_index(target, last, sequence.rows_q, 0), 0);
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
    struct target target = {.host = host, .args = args, .dtype = args->o.dtype};
    target.problem = (struct reference_problem){.spec = &host->spec, .args = args};
    target.dim = host->spec.head_dim_v;
    bool strided = (args->o.flags & GDPA_TENSOR_STRIDES) != 0;
    target.stride_head = strided ? args->o.stride_head : target.dim;
    target.stride_row = strided ? args->o.stride_row : args->heads_q * target.dim;
    target.stride_batch = strided ? args->o.stride_batch : args->seqlen_q * target.stride_row;
    gdpa_spec spec = host->spec;
    gdpa_args read = *args;
    misread(fault, &spec, &read);
    struct reference_problem problem = {.spec = &spec, .args = &read};
    struct reference_sizes sizes = reference_sizes_find(&problem);
    double *o = malloc(sizeof(double) * (size_t)(sizes.o > 0 ? sizes.o : 1));
    if (o == NULL || !reference_forward(&problem, o, NULL)) {
        abort();
    }
    for (int64_t b = 0; b < args->batch; b++) {
        struct reference_sequence sequence = reference_sequence_find(&problem, b);
        for (int64_t row = 0; row < sequence.rows_q; row++) {
            for (int64_t head = 0; head < args->heads_q; head++) {
                store_row(&target, b, row, head, o + ((sequence.first_q + row) * args->heads_q + head) * target.dim);
            }
        }
    }
    free(o);
    if (host->faulty && args->batch > 0) {
        stray_writes(&target);
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
