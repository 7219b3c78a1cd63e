/*
 * Cases of verify: guards around every buffer, NaN wherever no sequence has an element, strides inside their buffers,
 * alignment as the spec demands it, the same seed the same case.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/half.h"
#include "tests/support/host_device.h"
#include "tests/support/reference.h"
#include "tools/verify_case.h"

static const char *const kernels[] = {
    "fwd act=silu d=16 dv=8",
    "fwd act=silu d=8 dv=24 jagged fp16",
    "fwd act=silu d=16 unaligned",
    "fwd act=silu d=24 jagged unaligned fp32out",
};
enum { KERNELS = sizeof kernels / sizeof *kernels };

static struct case_pool pool; /* slow to fill: kept */

static int empty_pool(void **state)
{
    (void)state;
    case_pool_deinit(&pool);
    return 0;
}

static void make(struct verify_case *made, const char *kernel, const struct shape *shape, uint64_t seed)
{
    gdpa_spec spec;
    char why[128];
    assert_true(host_spec_parse(kernel, &spec));
    assert_true(case_make(made, &spec, shape, seed, &pool, why, sizeof why));
}

/* Calls visit for each kernel and general shape. */
static void for_every_case(void (*visit)(struct verify_case *made))
{
    for (int row = 0; row < shape_find("public-q256-k256-fill1.0"); row++) {
        for (int kernel = 0; kernel < KERNELS; kernel++) {
            struct verify_case made;
            make(&made, kernels[kernel], &shapes[row], 17);
            visit(&made);
            case_free(&made);
        }
    }
}

static void check_guards(struct verify_case *made)
{
    for (int i = 0; i < made->buffer_count; i++) {
        const struct case_buffer *buffer = &made->buffers[i];
        assert_true(buffer->guard >= 4096 && buffer->guard % 512 == 0);
        assert_int_equal((uintptr_t)buffer->image % 512, 0);
        bool whole = true;
        for (size_t at = 0; at < buffer->guard; at++) {
            whole = whole && buffer->image[at] == buffer->guard_byte;
            whole = whole && buffer->image[buffer->guard + buffer->payload + at] == buffer->guard_byte;
        }
        assert_true(whole);
    }
}

static void every_buffer_has_guards(void **state)
{
    (void)state;
    for_every_case(check_guards);
}

/* Elements of a tensor that sequences own, and whether they all lie inside its buffer's payload. */
static int64_t elements_owned(struct verify_case *made, const gdpa_tensor *tensor, bool keys, int64_t dim,
                              unsigned char *owned, const struct case_buffer *buffer)
{
    const gdpa_args *args = &made->args;
    struct reference_problem problem = {.spec = &made->spec, .args = args};
    bool jagged = (keys ? made->spec.layout_k : made->spec.layout_q) == GDPA_LAYOUT_JAGGED;
    int64_t heads = keys ? args->heads_k : args->heads_q;
    bool strided = (tensor->flags & GDPA_TENSOR_STRIDES) != 0;
    int64_t stride_head = strided ? tensor->stride_head : dim;
    int64_t stride_row = strided ? tensor->stride_row : heads * dim;
    int64_t stride_batch = strided ? tensor->stride_batch : (keys ? args->seqlen_k : args->seqlen_q) * heads * dim;
    size_t size = dtype_size(tensor->dtype);
    int64_t count = 0;
    for (int64_t b = 0; b < args->batch; b++) {
        struct reference_sequence sequence = reference_sequence_find(&problem, b);
        int64_t rows = keys ? sequence.rows_k : sequence.rows_q;
        int64_t first = keys ? sequence.first_k : sequence.first_q;
        int64_t base = jagged ? first * stride_row : b * stride_batch;
        for (int64_t row = 0; row < rows; row++) {
            for (int64_t head = 0; head < heads; head++) {
                const unsigned char *at =
                    (const unsigned char *)tensor->data + (size_t)(base + row * stride_row + head * stride_head) * size;
                size_t offset = (size_t)(at - buffer->image);
                assert_true(offset >= buffer->guard && offset + (size_t)dim * size <= buffer->guard + buffer->payload);
                memset(owned + offset, 1, (size_t)dim * size);
                count += dim;
            }
        }
    }
    return count;
}

static void check_elements(struct verify_case *made)
{
    const gdpa_tensor *tensors[] = {&made->args.q, &made->args.k, &made->args.v, &made->args.o};
    for (int i = 0; i < made->buffer_count; i++) {
        struct case_buffer *buffer = &made->buffers[i];
        unsigned char *owned = calloc(1, case_buffer_bytes(buffer));
        assert_non_null(owned);
        bool any = false;
        bool right = true;
        for (int t = 0; t < 4; t++) {
            if (case_buffer_of(made, tensors[t]->data) == buffer) {
                int64_t dim = t < 2 ? made->spec.head_dim : made->spec.head_dim_v;
                elements_owned(made, tensors[t], t == 1 || t == 2, dim, owned, buffer);
                any = true;
            }
        }
        for (size_t at = 0; any && at < case_buffer_bytes(buffer); at += 2) {
            uint16_t element;
            memcpy(&element, buffer->image + at, sizeof element);
            bool finite = isfinite(dtype_load(made->spec.dtype, &element, 0));
            right = right && finite == (owned[at] && !buffer->output) && (finite || element == 0xffff);
        }
        assert_true(right);
        free(owned);
    }
}

static void only_elements_of_sequences_are_numbers(void **state)
{
    (void)state;
    for_every_case(check_elements);
}

static void check_alignment(struct verify_case *made)
{
    const gdpa_tensor *tensors[] = {&made->args.q, &made->args.k, &made->args.v, &made->args.o};
    bool odd = made->spec.unaligned && !made->shape->aligned;
    for (int t = 0; t < 4; t++) {
        const gdpa_tensor *tensor = tensors[t];
        size_t size = dtype_size(tensor->dtype);
        if (tensor->data == NULL) {
            continue;
        }
        assert_int_equal((uintptr_t)tensor->data % 16 == 0, !odd);
        assert_int_equal((uintptr_t)tensor->data % size, 0);
        if (!odd && (tensor->flags & GDPA_TENSOR_STRIDES)) {
            assert_int_equal((size_t)tensor->stride_batch * size % 16, 0);
            assert_int_equal((size_t)tensor->stride_row * size % 16, 0);
            assert_int_equal((size_t)tensor->stride_head * size % 16, 0);
        }
    }
}

static void only_unaligned_kernels_get_unaligned_tensors(void **state)
{
    (void)state;
    for_every_case(check_alignment);
}

static void check_empty(struct verify_case *made)
{
    struct reference_problem problem = {.spec = &made->spec, .args = &made->args};
    struct reference_sizes sizes = reference_sizes_find(&problem);
    assert_int_equal(made->args.q.data != NULL, sizes.dq > 0);
    assert_int_equal(made->args.k.data != NULL, sizes.dk > 0);
    assert_int_equal(made->args.o.data != NULL, sizes.o > 0);
    assert_int_equal(made->args.cu_seqlens_q != NULL, made->spec.layout_q == GDPA_LAYOUT_JAGGED);
}

static void tensors_without_elements_are_null(void **state)
{
    (void)state;
    for_every_case(check_empty);
}

static void the_same_seed_gives_the_same_case_and_another_one_another(void **state)
{
    (void)state;
    struct verify_case one;
    struct verify_case same;
    struct verify_case other;
    const struct shape *shape = &shapes[shape_find("edges")];
    make(&one, kernels[1], shape, 5);
    make(&same, kernels[1], shape, 5);
    make(&other, kernels[1], shape, 6);
    assert_int_equal(one.buffer_count, same.buffer_count);
    for (int i = 0; i < one.buffer_count; i++) {
        assert_int_equal(one.buffers[i].payload, same.buffers[i].payload);
        assert_memory_equal(one.buffers[i].image, same.buffers[i].image, case_buffer_bytes(&one.buffers[i]));
    }
    assert_memory_not_equal(one.args.cu_seqlens_q, other.args.cu_seqlens_q, 13 * sizeof(int32_t));
    case_free(&one);
    case_free(&same);
    case_free(&other);
}

static void device_arguments_point_where_the_host_ones_do(void **state)
{
    (void)state;
    struct verify_case made;
    make(&made, kernels[3], &shapes[shape_find("joined")], 5);
    for (int i = 0; i < made.buffer_count; i++) {
        made.buffers[i].device = (void *)(uintptr_t)(0x10000000u * (unsigned)(i + 1));
    }
    gdpa_args args = case_device_args(&made);
    const void *host[] = {made.args.q.data, made.args.k.data,       made.args.v.data,
                          made.args.o.data, made.args.cu_seqlens_q, made.args.cu_seqlens_k};
    const void *device[] = {args.q.data, args.k.data, args.v.data, args.o.data, args.cu_seqlens_q, args.cu_seqlens_k};
    for (size_t i = 0; i < sizeof host / sizeof *host; i++) {
        struct case_buffer *buffer = case_buffer_of(&made, host[i]);
        assert_non_null(buffer);
        uintptr_t offset = (uintptr_t)host[i] - (uintptr_t)buffer->image;
        assert_true((uintptr_t)device[i] == (uintptr_t)buffer->device + offset);
    }
    /* Same lengths on both sides: q, k and v are views of one tensor. */
    assert_ptr_equal(case_buffer_of(&made, made.args.q.data), case_buffer_of(&made, made.args.k.data));
    assert_ptr_equal(case_buffer_of(&made, made.args.q.data), case_buffer_of(&made, made.args.v.data));
    assert_null(args.seqused_q);
    case_free(&made);
}

static void scales_keep_the_results_inside_the_types(void **state)
{
    (void)state;
    struct verify_case made;
    const struct shape *unit = &shapes[shape_find("edges-unit")];
    make(&made, "fwd act=silu d=64", unit, 1);
    assert_true(made.args.flags & GDPA_ARGS_SCALE && made.args.scale == 1);
    case_free(&made);
    make(&made, "fwd act=exp d=256 fp16", unit, 1);
    assert_true(fabs((double)made.args.scale * 16 - 1.5) < 1e-6);
    case_free(&made);
    make(&made, "fwd act=exp d=256", unit, 1);
    assert_true(fabs((double)made.args.scale * 16 - 8) < 1e-6);
    case_free(&made);
    make(&made, "fwd act=square d=64 fp16", unit, 1);
    assert_true(made.args.flags & GDPA_ARGS_OUT_SCALE && made.args.out_scale == 1.0F / 64);
    case_free(&made);
    make(&made, "fwd act=silu d=64", &shapes[shape_find("zero-scale")], 1);
    assert_true(made.args.flags & GDPA_ARGS_SCALE && made.args.scale == 0);
    case_free(&made);
}

static void memory_is_kept_from_case_to_case_and_never_shared(void **state)
{
    (void)state;
    struct verify_case first, second, third;
    make(&first, kernels[1], &shapes[shape_find("edges")], 3);
    make(&second, kernels[1], &shapes[shape_find("edges")], 3);
    for (int i = 0; i < first.buffer_count; i++) {
        assert_ptr_not_equal(first.buffers[i].image, second.buffers[i].image);
        assert_memory_equal(first.buffers[i].image, second.buffers[i].image, case_buffer_bytes(&first.buffers[i]));
    }
    unsigned char *image = first.buffers[0].image;
    case_free(&first);
    make(&third, kernels[1], &shapes[shape_find("edges")], 3);
    assert_ptr_equal(third.buffers[0].image, image);
    for (int i = 0; i < second.buffer_count; i++) {
        assert_memory_equal(third.buffers[i].image, second.buffers[i].image, case_buffer_bytes(&second.buffers[i]));
    }
    case_free(&second);
    case_free(&third);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_buffer_has_guards),
        cmocka_unit_test(memory_is_kept_from_case_to_case_and_never_shared),
        cmocka_unit_test(only_elements_of_sequences_are_numbers),
        cmocka_unit_test(only_unaligned_kernels_get_unaligned_tensors),
        cmocka_unit_test(tensors_without_elements_are_null),
        cmocka_unit_test(the_same_seed_gives_the_same_case_and_another_one_another),
        cmocka_unit_test(device_arguments_point_where_the_host_ones_do),
        cmocka_unit_test(scales_keep_the_results_inside_the_types),
    };
    return cmocka_run_group_tests(tests, NULL, empty_pool);
}
