/*
 * Running one case of verify; see verify_run.h.
 */
#include "tools/verify_run.h"

#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/compare.h"
#include "tests/support/half.h"
#include "tests/support/parallel.h"
#include "tests/support/random.h"
#include "tests/support/reference.h"
#include "tools/verify_copy.h"

enum {
    CHUNK_BLOCKS = 512, /* whose reference is held at a time */
    UNWRITTEN = 0xff,   /* every byte of an output before the launch */
};

static void wrong(struct case_result *result, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The first thing that is wrong is kept. */
static void wrong(struct case_result *result, const char *format, ...)
{
    if (!result->good) {
        return;
    }
    result->good = false;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(result->message, sizeof result->message, format, arguments);
    va_end(arguments);
}

static void lost(struct case_result *result, const struct verify_device *device, const char *doing)
{
    wrong(result, "%s: %s", doing, device->why(device->self));
    result->lost = true;
}

/* ---------------------------------------------------------------------------------------------------------------
 * To the device and back
 * ------------------------------------------------------------------------------------------------------------- */

/* An output is filled on the device: its image holds nothing but the one byte. */
static bool buffer_upload(const struct verify_device *device, const struct case_buffer *buffer, int threads,
                          struct case_result *result)
{
    size_t bytes = case_buffer_bytes(buffer);
    bool good = buffer->output ? device->fill(device->self, buffer->device, buffer->guard_byte, bytes)
                               : image_upload(device, buffer->device, buffer->image, bytes, threads);
    if (!good) {
        lost(result, device, buffer->name);
    }
    return good;
}

static bool buffers_upload(const struct verify_device *device, struct verify_case *made, int threads,
                           struct case_result *result)
{
    for (int i = 0; i < made->buffer_count; i++) {
        struct case_buffer *buffer = &made->buffers[i];
        if (!device->alloc(device->self, case_buffer_bytes(buffer), &buffer->device)) {
            lost(result, device, buffer->name);
            return false;
        }
        if (!buffer_upload(device, buffer, threads, result)) {
            return false;
        }
    }
    return true;
}

static void buffers_release(const struct verify_device *device, struct verify_case *made)
{
    for (int i = 0; i < made->buffer_count; i++) {
        if (made->buffers[i].device != NULL) {
            device->release(device->self, made->buffers[i].device);
            made->buffers[i].device = NULL;
        }
    }
}

static bool launch(const struct verify_device *device, struct verify_case *made, struct case_result *result)
{
    gdpa_args args = case_device_args(made);
    bool good = device->launch(device->self, &args);
    if (!good) {
        lost(result, device, "launch");
    }
    return good;
}

/* Says where in a buffer bytes changed that must not. */
static void untouched_check(const struct case_buffer *buffer, const struct difference *difference,
                            struct case_result *result)
{
    if (!difference->any) {
        return;
    }
    const char *place = "a part that no sequence owns";
    if (difference->first < buffer->guard) {
        place = "the guard before it";
    } else if (difference->first >= buffer->guard + buffer->payload) {
        place = "the guard after it";
    } else if (!buffer->output) {
        place = "an input";
    }
    wrong(result, "%s was written outside the result: %s changed from byte %lld to byte %lld of its memory",
          buffer->name, place, (long long)difference->first - (long long)buffer->guard,
          (long long)difference->last - (long long)buffer->guard);
}

static void inputs_check(const struct verify_device *device, const struct verify_case *made, int threads,
                         struct case_result *result)
{
    for (int i = 0; i < made->buffer_count && result->good; i++) {
        const struct case_buffer *buffer = &made->buffers[i];
        struct difference difference = {.any = false};
        if (buffer->output) {
            continue;
        }
        if (!image_differs(device, buffer->device, buffer->image, case_buffer_bytes(buffer), threads, &difference)) {
            lost(result, device, buffer->name);
        }
        untouched_check(buffer, &difference, result);
    }
}

/* ---------------------------------------------------------------------------------------------------------------
 * The elements of the output
 * ------------------------------------------------------------------------------------------------------------- */

enum result_kind { RESULT_O, RESULT_DQ, RESULT_DK, RESULT_DV };

/* A result as it came back, and how to find an element of it. */
struct output {
    const struct reference_problem *problem;
    enum result_kind kind;
    const char *name;
    bool of_keys;
    unsigned char *data; /* of the tensor's first element */
    int32_t dtype;
    bool jagged;
    int64_t heads, dim;
    int64_t stride_batch, stride_row, stride_head;
    _Atomic int64_t unwritten, not_finite; /* elements */
};

static struct output output_describe(const struct reference_problem *problem, enum result_kind kind)
{
    static const char *const names[] = {"o", "dq", "dk", "dv"};
    const gdpa_args *args = problem->args;
    const gdpa_spec *spec = problem->spec;
    const gdpa_tensor *const tensors[] = {&args->o, &args->dq, &args->dk, &args->dv};
    const gdpa_tensor *tensor = tensors[kind];
    struct output output = {.problem = problem, .kind = kind, .name = names[kind], .dtype = spec->out_dtype};
    output.data = tensor->data;
    output.of_keys = kind == RESULT_DK || kind == RESULT_DV;
    output.jagged = (output.of_keys ? spec->layout_k : spec->layout_q) == GDPA_LAYOUT_JAGGED;
    output.heads = output.of_keys ? args->heads_k : args->heads_q;
    output.dim = kind == RESULT_O || kind == RESULT_DV ? spec->head_dim_v : spec->head_dim;
    bool strided = (tensor->flags & GDPA_TENSOR_STRIDES) != 0;
    output.stride_head = strided ? tensor->stride_head : output.dim;
    output.stride_row = strided ? tensor->stride_row : output.heads * output.dim;
    output.stride_batch =
        strided ? tensor->stride_batch : (output.of_keys ? args->seqlen_k : args->seqlen_q) * output.stride_row;
    return output;
}

static int64_t output_rows(const struct output *output, const struct reference_sequence *sequence)
{
    return output->of_keys ? sequence->rows_k : sequence->rows_q;
}

static int64_t output_first(const struct output *output, const struct reference_sequence *sequence)
{
    return output->of_keys ? sequence->first_k : sequence->first_q;
}

/* Visible pairs that a row is made from. */
static int64_t output_pairs(const struct output *output, const struct reference_sequence *sequence, int64_t row)
{
    int64_t first;
    int64_t last;
    if (!output->of_keys) {
        reference_visible(output->problem, sequence, row, &first, &last);
        return last > first ? last - first : 0;
    }
    reference_seeing(output->problem, sequence, row, &first, &last);
    return last > first ? (last - first) * (output->problem->args->heads_q / output->heads) : 0;
}

static int64_t output_index(const struct output *output, int64_t b, int64_t first, int64_t row, int64_t head)
{
    int64_t base = output->jagged ? first * output->stride_row : b * output->stride_batch;
    return base + row * output->stride_row + head * output->stride_head;
}

/* Of some elements side by side: how many hold nothing but UNWRITTEN, and how many of the others are not finite. */
struct scan {
    int64_t unwritten, not_finite;
};

/* Plain loops over bits, which compilers make fast: an exponent of ones is no finite number. */
static struct scan scan_halves(const uint16_t *bits, int64_t count, uint16_t exponent)
{
    struct scan scan = {0, 0};
    for (int64_t i = 0; i < count; i++) {
        scan.unwritten += bits[i] == 0xffff ? 1 : 0;
        scan.not_finite += (bits[i] & exponent) == exponent ? 1 : 0;
    }
    scan.not_finite -= scan.unwritten;
    return scan;
}

static struct scan scan_floats(const uint32_t *bits, int64_t count)
{
    static const uint32_t exponent = 0x7f800000;
    struct scan scan = {0, 0};
    for (int64_t i = 0; i < count; i++) {
        scan.unwritten += bits[i] == 0xffffffff ? 1 : 0;
        scan.not_finite += (bits[i] & exponent) == exponent ? 1 : 0;
    }
    scan.not_finite -= scan.unwritten;
    return scan;
}

static struct scan scan_elements(int32_t dtype, const unsigned char *data, int64_t count)
{
    if (dtype == GDPA_DTYPE_FP32) {
        return scan_floats((const uint32_t *)(const void *)data, count);
    }
    return scan_halves((const uint16_t *)(const void *)data, count, dtype == GDPA_DTYPE_FP16 ? 0x7c00 : 0x7f80);
}

/* Counts what a sequence's elements hold that they must not. */
static void sequence_scan(int64_t b, int thread, void *user)
{
    (void)thread;
    struct output *output = user;
    struct reference_sequence sequence = reference_sequence_find(output->problem, b);
    size_t size = dtype_size(output->dtype);
    struct scan all = {0, 0};
    for (int64_t row = 0; row < output_rows(output, &sequence); row++) {
        for (int64_t head = 0; head < output->heads; head++) {
            int64_t at = output_index(output, b, output_first(output, &sequence), row, head);
            struct scan one = scan_elements(output->dtype, output->data + (size_t)at * size, output->dim);
            all.unwritten += one.unwritten;
            all.not_finite += one.not_finite;
        }
    }
    output->unwritten += all.unwritten;
    output->not_finite += all.not_finite;
}

/* Makes a sequence's elements look unwritten, for the check of the rest. */
static void sequence_blank(int64_t b, int thread, void *user)
{
    (void)thread;
    const struct output *output = user;
    struct reference_sequence sequence = reference_sequence_find(output->problem, b);
    size_t size = dtype_size(output->dtype);
    for (int64_t row = 0; row < output_rows(output, &sequence); row++) {
        for (int64_t head = 0; head < output->heads; head++) {
            int64_t at = output_index(output, b, output_first(output, &sequence), row, head);
            memset(output->data + (size_t)at * size, UNWRITTEN, (size_t)output->dim * size);
        }
    }
}

/* Compares the elements of some blocks, which are in order, with their reference. */
struct comparison {
    struct compare compare;
    int64_t sequence; /* that the open group belongs to; -1: none */
};

/* Of the elements of some blocks. allowed stays 0 for o and dv. */
struct expected {
    double *exact, *eager, *allowed, *inexact;
};

static void block_compare(const struct output *output, const struct reference_block *block,
                          const struct expected *expected, int64_t begin, struct comparison *comparison)
{
    if (comparison->sequence != block->sequence) {
        compare_group_end(&comparison->compare);
        comparison->sequence = block->sequence;
    }
    struct reference_sequence sequence = reference_sequence_find(output->problem, block->sequence);
    for (int64_t r = 0; r < block->rows; r++) {
        int64_t row = block->first_row + r;
        int64_t pairs = output_pairs(output, &sequence, row);
        int64_t at = output_index(output, block->sequence, output_first(output, &sequence), row, block->head);
        compare_add_pairs(&comparison->compare, pairs);
        for (int64_t c = 0; c < output->dim; c++) {
            struct compare_place place = {block->sequence, block->head, row, c};
            double ours = dtype_load(output->dtype, output->data, at + c);
            int64_t n = begin + r * output->dim + c;
            if (pairs == 0) {
                compare_add_zero(&comparison->compare, ours, place);
            } else {
                compare_add_allowed(&comparison->compare, ours, expected->exact[n], expected->eager[n],
                                    (struct compare_allowance){expected->allowed[n], expected->inexact[n]}, place);
            }
        }
    }
}

/* ---------------------------------------------------------------------------------------------------------------
 * Which blocks
 * ------------------------------------------------------------------------------------------------------------- */

static double block_flops(const struct reference_problem *problem, const struct reference_block *block, bool of_keys)
{
    if (of_keys) { /* no less than it is: all queries of the group */
        struct reference_sequence whole = reference_sequence_find(problem, block->sequence);
        return 4.0 * (double)whole.rows_q * (double)problem->args->heads_q / (double)problem->args->heads_k *
               REFERENCE_BLOCK_ROWS * (double)(2 * problem->spec->head_dim + 2 * problem->spec->head_dim_v);
    }
    struct reference_sequence sequence = reference_sequence_find(problem, block->sequence);
    int64_t first;
    int64_t last;
    int64_t unused;
    reference_visible(problem, &sequence, block->first_row, &first, &unused);
    reference_visible(problem, &sequence, block->first_row + block->rows - 1, &unused, &last);
    double keys = last > first ? (double)(last - first) : 0;
    return 2 * keys * REFERENCE_BLOCK_ROWS * (double)(problem->spec->head_dim + 2 * problem->spec->head_dim_v);
}

static int64_t longest_sequence(const struct reference_problem *problem)
{
    int64_t longest = 0, most = -1;
    for (int64_t b = 0; b < problem->args->batch; b++) {
        struct reference_sequence sequence = reference_sequence_find(problem, b);
        if (sequence.rows_q * sequence.rows_k > most) {
            most = sequence.rows_q * sequence.rows_k;
            longest = b;
        }
    }
    return longest;
}

/* Moves the sample to the front of the list, in order, and returns its size: everything when that is cheap enough. */
static int64_t blocks_sample(const struct reference_problem *problem, struct reference_block *blocks, int64_t count,
                             bool of_keys, const struct run_options *options)
{
    double budget = options->sample_flops > 0 ? options->sample_flops : SAMPLE_FLOPS;
    double total = 0;
    for (int64_t n = 0; n < count; n++) {
        total += block_flops(problem, &blocks[n], of_keys);
    }
    if (total <= budget) {
        return count;
    }
    int64_t longest = longest_sequence(problem);
    int64_t chosen = 0;
    double share = budget / total;
    for (int64_t n = 0; n < count; n++) {
        bool always =
            blocks[n].sequence == 0 || blocks[n].sequence == problem->args->batch - 1 || blocks[n].sequence == longest;
        double drawn = (double)(random_hash(options->seed, (uint64_t)n) >> 11) * 0x1p-53;
        if (always || drawn < share) {
            blocks[chosen++] = blocks[n];
        }
    }
    return chosen;
}

static bool blocks_compute(const struct output *output, const struct reference_block *blocks, int64_t count,
                           const struct expected *expected)
{
    double *const memory[] = {expected->exact, expected->eager, expected->allowed, expected->inexact};
    struct reference_gradients all[4] = {{NULL, NULL, NULL}};
    if (output->kind == RESULT_O) {
        return reference_forward_blocks(output->problem, blocks, count, expected->exact, expected->eager,
                                        expected->inexact);
    }
    for (int e = 0; e < 4; e++) {
        *(output->kind == RESULT_DQ ? &all[e].dq : output->kind == RESULT_DK ? &all[e].dk : &all[e].dv) = memory[e];
    }
    return reference_backward_blocks(output->problem, output->of_keys, blocks, count, all[0], all[1], all[2], all[3]);
}

/* Memory for the expected elements of CHUNK_BLOCKS blocks. */
static bool expected_allocate(const struct output *output, struct expected *expected)
{
    size_t bytes = sizeof(double) * CHUNK_BLOCKS * REFERENCE_BLOCK_ROWS * (size_t)output->dim;
    expected->exact = malloc(bytes);
    expected->eager = malloc(bytes);
    expected->allowed = calloc(1, bytes);
    expected->inexact = malloc(bytes);
    return expected->exact && expected->eager && expected->allowed && expected->inexact;
}

static bool blocks_check(const struct output *output, const struct reference_block *blocks, int64_t count,
                         struct comparison *comparison)
{
    struct expected expected;
    bool good = expected_allocate(output, &expected);
    for (int64_t begin = 0; good && begin < count; begin += CHUNK_BLOCKS) {
        int64_t some = count - begin < CHUNK_BLOCKS ? count - begin : CHUNK_BLOCKS;
        good = blocks_compute(output, blocks + begin, some, &expected);
        for (int64_t n = 0; good && n < some; n++) {
            block_compare(output, &blocks[begin + n], &expected, n * REFERENCE_BLOCK_ROWS * output->dim, comparison);
        }
    }
    free(expected.exact);
    free(expected.eager);
    free(expected.allowed);
    free(expected.inexact);
    compare_finish(&comparison->compare);
    return good;
}

/* Adds what is known of one result of the call to that of the call. */
static void result_take(struct case_result *result, const struct output *output, const struct compare *compare)
{
    double frobenius = compare_frobenius(compare);
    result->elements += compare->count;
    result->at_kinks += compare->allowed;
    result->excused += compare->excused;
    if (compare->worst_ratio >= result->ratio) {
        result->max_error = compare->worst.max_error;
        result->bound = compare->worst_bound;
        result->ratio = compare->worst_ratio;
    }
    result->frobenius = frobenius > result->frobenius ? frobenius : result->frobenius;
    char text[300];
    compare_explain(compare, text, sizeof text);
    const char *of = output->kind == RESULT_O ? "" : output->name;
    const char *colon = output->kind == RESULT_O ? "" : ": ";
    if (output->unwritten > 0 || output->not_finite > 0) {
        wrong(result, "%s%s%lld elements of the result were not written and %lld are not finite; %s", of, colon,
              (long long)output->unwritten, (long long)output->not_finite, text);
    } else if (!compare_holds(compare)) {
        wrong(result, "%s%s%s", of, colon, text);
    }
}

/* The elements of the sequences: scanned whole, and compared whole or in a sample. */
static void sequences_check(struct output *output, const struct run_options *options, struct case_result *result)
{
    const struct reference_problem *problem = output->problem;
    struct reference_block *blocks = NULL;
    int64_t count = 0;
    parallel_for(problem->args->batch, options->threads, sequence_scan, output);
    if (!(output->of_keys ? reference_key_blocks_list : reference_blocks_list)(problem, &blocks, &count)) {
        wrong(result, "out of host memory for the reference");
        return;
    }
    int64_t chosen = blocks_sample(problem, blocks, count, output->of_keys, options);
    result->sampled = result->sampled || chosen < count;
    struct comparison comparison = {.sequence = -1};
    compare_init(&comparison.compare, output->dtype, output->kind == RESULT_O ? 2 : 3);
    comparison.compare.input_dtype = problem->spec->dtype;
    if (blocks_check(output, blocks, chosen, &comparison)) {
        result_take(result, output, &comparison.compare);
    } else {
        wrong(result, "out of host memory for the reference");
    }
    free(blocks);
}

/* One result of the call, whose image is now what came back; afterwards its elements look unwritten. */
static void output_check(const struct verify_case *made, enum result_kind kind, const struct run_options *options,
                         struct case_result *result)
{
    struct reference_problem problem = {
        .spec = &made->spec, .args = &made->args, .d_out = made->args.dout, .threads = options->threads};
    struct output output = output_describe(&problem, kind);
    if (output.data == NULL) {
        return;
    }
    sequences_check(&output, options, result);
    parallel_for(made->args.batch, options->threads, sequence_blank, &output);
}

/* What is left of the images when all results are blanked. */
static void rest_check(const struct verify_case *made, int threads, struct case_result *result)
{
    for (int i = 0; i < made->buffer_count; i++) {
        const struct case_buffer *buffer = &made->buffers[i];
        if (buffer->output) {
            struct difference difference =
                bytes_differ_from(buffer->image, buffer->guard_byte, case_buffer_bytes(buffer), threads);
            untouched_check(buffer, &difference, result);
        }
    }
}

/* ---------------------------------------------------------------------------------------------------------------
 * The whole
 * ------------------------------------------------------------------------------------------------------------- */

enum {
    REPEATS = 1,                /* more launches, which must give the same bits */
    DETERMINISTIC_REPEATS = 49, /* of a kernel that was asked for it */
};

/* Whether a buffer must have the same bits after every launch: dq may not, unless that was asked for. */
static bool bits_are_kept(const struct verify_case *made, const struct case_buffer *buffer)
{
    uintptr_t dq = (uintptr_t)made->args.dq.data;
    uintptr_t begin = (uintptr_t)buffer->image;
    bool holds_dq = dq >= begin && dq < begin + case_buffer_bytes(buffer);
    return buffer->output && (made->spec.deterministic != 0 || !holds_dq);
}

static bool outputs_upload(const struct verify_device *device, const struct verify_case *made, int threads,
                           struct case_result *result)
{
    for (int i = 0; i < made->buffer_count; i++) {
        if (made->buffers[i].output && !buffer_upload(device, &made->buffers[i], threads, result)) {
            return false;
        }
    }
    return true;
}

/* Launches once more into fresh outputs; whether the bits are others than those of their images. */
static bool repeat_differs(const struct verify_device *device, struct verify_case *made, int threads,
                           struct case_result *result)
{
    if (!outputs_upload(device, made, threads, result) || !launch(device, made, result)) {
        return false;
    }
    bool differs = false;
    for (int i = 0; i < made->buffer_count && !result->lost; i++) {
        const struct case_buffer *buffer = &made->buffers[i];
        struct difference difference = {.any = false};
        if (bits_are_kept(made, buffer) &&
            !image_differs(device, buffer->device, buffer->image, case_buffer_bytes(buffer), threads, &difference)) {
            lost(result, device, buffer->name);
        }
        differs = differs || difference.any;
    }
    return differs;
}

static bool outputs_download(const struct verify_device *device, const struct verify_case *made, int threads,
                             struct case_result *result)
{
    bool any = false;
    for (int i = 0; i < made->buffer_count; i++) {
        const struct case_buffer *buffer = &made->buffers[i];
        if (!buffer->output) {
            continue;
        }
        any = true;
        if (!image_download(device, buffer->image, buffer->device, case_buffer_bytes(buffer), threads)) {
            lost(result, device, buffer->name);
            return false;
        }
    }
    return any;
}

static void case_judge(const struct verify_device *device, struct verify_case *made, const struct run_options *options,
                       struct case_result *result)
{
    int threads = options->threads;
    if (!buffers_upload(device, made, threads, result) || !launch(device, made, result)) {
        return;
    }
    inputs_check(device, made, threads, result);
    if (result->lost || !outputs_download(device, made, threads, result)) {
        return;
    }
    bool backward = made->spec.pass == GDPA_PASS_BACKWARD;
    int repeats = backward && made->spec.deterministic != 0 ? DETERMINISTIC_REPEATS : REPEATS;
    bool differs = false;
    for (int i = 0; i < repeats && !differs && !result->lost; i++) {
        differs = repeat_differs(device, made, threads, result);
    }
    if (result->lost) {
        return;
    }
    for (enum result_kind kind = backward ? RESULT_DQ : RESULT_O; kind <= (backward ? RESULT_DV : RESULT_O); kind++) {
        output_check(made, kind, options, result);
    }
    rest_check(made, threads, result);
    if (differs) {
        wrong(result, "a second launch gave other bits");
    }
}

struct case_result case_run(const struct verify_device *device, struct verify_case *made,
                            const struct run_options *options)
{
    struct case_result result = {.good = true};
    case_judge(device, made, options, &result);
    buffers_release(device, made);
    return result;
}
