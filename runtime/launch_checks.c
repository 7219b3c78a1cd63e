/*
 * What a caller can get wrong, refused before the driver is asked for anything (spec.md section 6): shared by both passes. Pure arithmetic,
 * on every launch: no allocation.
 */
#include "runtime/launch_checks.h"
#include "runtime/error.h"
#include "runtime/structs.h"
#include "runtime/tensor_box.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#define GRID_Y_LIMIT INT64_C(65535)
#define BATCH_LIMIT INT64_C(2147483646)
#define HEADS_LIMIT INT64_C(2147483647)
#define ROWS_LIMIT INT64_C(2147418112) /* 2^31 - 2^16: positions plus a tile stay inside int32 */
#define FAST_ALIGNMENT 16
#define UNALIGNED_REMEDY "set unaligned in the spec, or call gdpa_forward or gdpa_backward, which do so by themselves"

static int32_t or_default(int32_t value, int32_t otherwise)
{
    return value != 0 ? value : otherwise;
}

static int32_t dtype_bytes(int32_t dtype)
{
    const struct dtype_row *row = dtype_find(dtype);
    return row == NULL ? 2 : row->bytes;
}

static const char *dtype_name(int32_t dtype)
{
    const struct dtype_row *row = dtype_find(dtype);
    return row == NULL ? "no type" : row->name;
}

/* Laid out like `of`, of the type of the results. */
static struct view gradient_view(const struct view *of, const char *name, const gdpa_tensor *tensor,
                                 const struct view *output)
{
    struct view view = *of;
    view.name = name;
    view.tensor = tensor;
    view.output = true;
    view.dtype = output->dtype;
    view.element = output->element;
    return view;
}

/* Works for specs that are not normalised too: args_are_unaligned is asked before that. */
struct views views_make(const gdpa_spec *spec, const gdpa_args *args)
{
    const bool jagged_q = spec->layout_q == GDPA_LAYOUT_JAGGED;
    const bool jagged_k = spec->layout_k == GDPA_LAYOUT_JAGGED;
    const int32_t dtype = or_default(spec->dtype, GDPA_DTYPE_BF16);
    const int32_t out_dtype = or_default(spec->out_dtype, dtype);
    const struct view query = {.name = "q",
                               .tensor = &args->q,
                               .jagged = jagged_q,
                               .dtype = dtype,
                               .element = dtype_bytes(dtype),
                               .batch = jagged_q ? 1 : args->batch,
                               .rows = jagged_q ? args->total_q : args->seqlen_q,
                               .heads = args->heads_q,
                               .dim = spec->head_dim};
    struct views views = {.q = query, .k = query, .v = query, .o = query};
    views.k.name = "k";
    views.k.tensor = &args->k;
    views.k.jagged = jagged_k;
    views.k.batch = jagged_k ? 1 : args->batch;
    views.k.rows = jagged_k ? args->total_k : args->seqlen_k;
    views.k.heads = args->heads_k;
    views.v = views.k;
    views.v.name = "v";
    views.v.tensor = &args->v;
    views.v.dim = or_default(spec->head_dim_v, spec->head_dim);
    views.o.name = "o";
    views.o.tensor = &args->o;
    views.o.output = true;
    views.o.dtype = out_dtype;
    views.o.element = dtype_bytes(out_dtype);
    views.o.dim = views.v.dim;
    views.dout = views.o;
    views.dout.name = "dout";
    views.dout.tensor = &args->dout;
    views.dout.output = false;
    views.dout.dtype = dtype;
    views.dout.element = dtype_bytes(dtype);
    views.dq = gradient_view(&views.q, "dq", &args->dq, &views.o);
    views.dk = gradient_view(&views.k, "dk", &args->dk, &views.o);
    views.dv = gradient_view(&views.v, "dv", &args->dv, &views.o);
    return views;
}

bool view_is_empty(const struct view *view)
{
    return view->batch == 0 || view->rows == 0;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Sizes and offsets
 * ------------------------------------------------------------------------------------------------------------- */

static gdpa_status range_check(const char *name, int64_t value, int64_t lowest, int64_t highest)
{
    FAIL_IF(value < lowest || value > highest, GDPA_E_ARGUMENT, "%s %" PRId64 " is not in %" PRId64 " to %" PRId64,
            name, value, lowest, highest);
    return GDPA_OK;
}

/* The fields of one side, q or k. */
struct side {
    char letter;
    bool jagged;
    int64_t batch, seqlen, total, max_seqlen;
    const int32_t *cu_seqlens, *seqused;
};

static gdpa_status offsets_check(const struct side *side)
{
    FAIL_IF(side->jagged && side->cu_seqlens == NULL && side->batch > 0, GDPA_E_ARGUMENT,
            "cu_seqlens_%c is NULL, but layout_%c is jagged: it must hold batch + 1 = %" PRId64
            " int32 offsets on the device",
            side->letter, side->letter, side->batch + 1);
    FAIL_IF(!side->jagged && side->cu_seqlens != NULL, GDPA_E_ARGUMENT,
            "cu_seqlens_%c is given, but layout_%c is dense: leave it NULL, or set layout_%c to jagged", side->letter,
            side->letter, side->letter);
    FAIL_IF((uintptr_t)side->cu_seqlens % sizeof(int32_t) != 0, GDPA_E_ARGUMENT,
            "cu_seqlens_%c %p is not aligned to 4 bytes", side->letter, (const void *)side->cu_seqlens);
    FAIL_IF((uintptr_t)side->seqused % sizeof(int32_t) != 0, GDPA_E_ARGUMENT, "seqused_%c %p is not aligned to 4 bytes",
            side->letter, (const void *)side->seqused);
    return GDPA_OK;
}

static gdpa_status side_check(const struct side *side)
{
    const char total[] = {'t', 'o', 't', 'a', 'l', '_', side->letter, '\0'};
    const char seqlen[] = {'s', 'e', 'q', 'l', 'e', 'n', '_', side->letter, '\0'};
    const char max_seqlen[] = {'m', 'a', 'x', '_', 's', 'e', 'q', 'l', 'e', 'n', '_', side->letter, '\0'};
    if (side->jagged) {
        TRY(range_check(total, side->total, 0, ROWS_LIMIT));
        TRY(range_check(max_seqlen, side->max_seqlen, 0, INT64_MAX));
        FAIL_IF(side->seqlen != 0, GDPA_E_ARGUMENT, "%s is %" PRId64 ", but layout_%c is jagged: leave it 0 and set %s",
                seqlen, side->seqlen, side->letter, total);
    } else {
        TRY(range_check(seqlen, side->seqlen, 0, ROWS_LIMIT));
        FAIL_IF(side->total != 0, GDPA_E_ARGUMENT, "%s is %" PRId64 ", but layout_%c is dense: leave it 0 and set %s",
                total, side->total, side->letter, seqlen);
        FAIL_IF(side->max_seqlen != 0, GDPA_E_ARGUMENT,
                "%s is %" PRId64 ", but layout_%c is dense: leave it 0, %s says the length", max_seqlen,
                side->max_seqlen, side->letter, seqlen);
    }
    return offsets_check(side);
}

gdpa_status sizes_check(const gdpa_spec *spec, const gdpa_args *args)
{
    const uint32_t known = GDPA_ARGS_SCALE | GDPA_ARGS_OUT_SCALE | GDPA_ARGS_ACTIVATION_PARAM | GDPA_ARGS_ACCUMULATE;
    FAIL_IF((args->flags & ~known) != 0, GDPA_E_VERSION,
            "flags 0x%x of gdpa_args has bits that library version %s does not know (it knows 0x%x)", args->flags,
            GDPA_VERSION_STRING, known);
    TRY(range_check("batch", args->batch, 0, BATCH_LIMIT));
    TRY(range_check("heads_q", args->heads_q, 1, HEADS_LIMIT));
    TRY(range_check("heads_k", args->heads_k, 1, HEADS_LIMIT));
    FAIL_IF(args->heads_q % args->heads_k != 0, GDPA_E_ARGUMENT,
            "heads_q %" PRId64 " is not a multiple of heads_k %" PRId64, args->heads_q, args->heads_k);
    TRY(range_check("sm_margin", args->sm_margin, 0, INT32_MAX));
    const struct side query = {.letter = 'q',
                               .jagged = spec->layout_q == GDPA_LAYOUT_JAGGED,
                               .batch = args->batch,
                               .seqlen = args->seqlen_q,
                               .total = args->total_q,
                               .max_seqlen = args->max_seqlen_q,
                               .cu_seqlens = args->cu_seqlens_q,
                               .seqused = args->seqused_q};
    const struct side key = {.letter = 'k',
                             .jagged = spec->layout_k == GDPA_LAYOUT_JAGGED,
                             .batch = args->batch,
                             .seqlen = args->seqlen_k,
                             .total = args->total_k,
                             .max_seqlen = args->max_seqlen_k,
                             .cu_seqlens = args->cu_seqlens_k,
                             .seqused = args->seqused_k};
    TRY(side_check(&query));
    return side_check(&key);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Tensors
 * ------------------------------------------------------------------------------------------------------------- */

/* The strides that are used, packed ones when the tensor has none. False on overflow. */
static bool strides_of(const struct view *view, struct strides *strides)
{
    const gdpa_tensor *tensor = view->tensor;
    struct strides all = {tensor->stride_batch, tensor->stride_row, tensor->stride_head};
    if ((tensor->flags & GDPA_TENSOR_STRIDES) == 0) {
        all.head = view->dim;
        if (__builtin_mul_overflow(view->heads, view->dim, &all.row) ||
            __builtin_mul_overflow(view->rows, all.row, &all.batch)) {
            return false;
        }
    }
    strides->batch = view->batch > 1 ? all.batch : 0;
    strides->row = view->rows > 1 ? all.row : 0;
    strides->head = view->heads > 1 ? all.head : 0;
    return true;
}

/* The name and value of the first stride that is not a multiple of 16 bytes; NULL when all are. */
static const char *stride_misaligned(const struct view *view, const struct strides *strides, int64_t *value)
{
    const int64_t multiple = FAST_ALIGNMENT / view->element;
    const char *name = NULL;
    if (strides->head % multiple != 0) {
        name = "stride_head";
        *value = strides->head;
    }
    if (strides->row % multiple != 0) {
        name = "stride_row";
        *value = strides->row;
    }
    if (strides->batch % multiple != 0) {
        name = "stride_batch";
        *value = strides->batch;
    }
    return name;
}

static gdpa_status alignment_check(const struct view *view, const struct strides *strides, bool unaligned)
{
    const uintptr_t address = (uintptr_t)view->tensor->data;
    FAIL_IF(address % (uintptr_t)view->element != 0, GDPA_E_ARGUMENT,
            "%s.data %p is not aligned to its element size of %d bytes", view->name, view->tensor->data, view->element);
    if (unaligned) {
        return GDPA_OK;
    }
    FAIL_IF(address % FAST_ALIGNMENT != 0, GDPA_E_ARGUMENT, "%s.data %p is not aligned to %d bytes; %s", view->name,
            view->tensor->data, FAST_ALIGNMENT, UNALIGNED_REMEDY);
    int64_t value = 0;
    const char *stride = stride_misaligned(view, strides, &value);
    FAIL_IF(stride != NULL, GDPA_E_ARGUMENT, "%s.%s %" PRId64 " elements is not a multiple of %d (%d bytes of %s); %s",
            view->name, stride, value, FAST_ALIGNMENT / view->element, FAST_ALIGNMENT, dtype_name(view->dtype),
            UNALIGNED_REMEDY);
    return GDPA_OK;
}

static gdpa_status explicit_strides_check(const struct view *view)
{
    const gdpa_tensor *tensor = view->tensor;
    FAIL_IF(tensor->stride_dim != 1, GDPA_E_ARGUMENT,
            "%s.stride_dim is %" PRId64 "; the elements of a head must be contiguous (1)", view->name,
            tensor->stride_dim);
    const int64_t values[] = {tensor->stride_batch, tensor->stride_row, tensor->stride_head};
    const char *const names[] = {"stride_batch", "stride_row", "stride_head"};
    for (int i = 0; i < 3; i++) {
        FAIL_IF(values[i] < 0, GDPA_E_ARGUMENT, "%s.%s is %" PRId64 "; strides must not be negative", view->name,
                names[i], values[i]);
    }
    return GDPA_OK;
}

/* Strides without their bit would be passed over in silence, unless they are the packed ones anyway. */
static gdpa_status forgotten_strides_check(const struct view *view, const struct strides *packed)
{
    const gdpa_tensor *tensor = view->tensor;
    const int64_t given[] = {tensor->stride_batch, tensor->stride_row, tensor->stride_head};
    const int64_t used[] = {packed->batch, packed->row, packed->head};
    const char *const names[] = {"stride_batch", "stride_row", "stride_head"};
    for (int i = 0; i < 3; i++) {
        FAIL_IF(given[i] != 0 && used[i] != 0 && given[i] != used[i], GDPA_E_ARGUMENT,
                "%s.%s is %" PRId64 ", but its bit in %s.flags is not set, and a packed tensor has %" PRId64
                "; set GDPA_TENSOR_STRIDES, or leave the strides 0",
                view->name, names[i], given[i], view->name, used[i]);
    }
    return GDPA_OK;
}

/* The last element must lie within the 2^63 bytes that the kernels can address. */
static gdpa_status reach_check(const struct view *view, const struct strides *strides)
{
    const int64_t extents[] = {view->batch, view->rows, view->heads};
    const int64_t steps[] = {strides->batch, strides->row, strides->head};
    int64_t reach = view->dim;
    bool overflow = false;
    for (int i = 0; i < 3; i++) {
        int64_t part = 0;
        overflow = overflow || __builtin_mul_overflow(extents[i] - 1, steps[i], &part) ||
                   __builtin_add_overflow(reach, part, &reach);
    }
    overflow = overflow || reach > INT64_MAX / view->element;
    FAIL_IF(overflow, GDPA_E_ARGUMENT,
            "%s does not fit into 2^63 bytes: extents %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64
            ", strides %" PRId64 ", %" PRId64 ", %" PRId64 " (batch, row, head)",
            view->name, view->batch, view->rows, view->heads, view->dim, strides->batch, strides->row, strides->head);
    return GDPA_OK;
}

/*
 * No two results may share an element: from the smallest stride to the largest, each must step over all that the ones
 * before it cover.
 */
static gdpa_status output_overlap_check(const struct view *view, const struct strides *strides)
{
    int64_t extents[] = {view->batch, view->rows, view->heads};
    int64_t steps[] = {strides->batch, strides->row, strides->head};
    const char *names[] = {"stride_batch", "stride_row", "stride_head"};
    for (int i = 1; i < 3; i++) {
        for (int j = i; j > 0 && steps[j] < steps[j - 1]; j--) {
            const int64_t step = steps[j], extent = extents[j];
            const char *name = names[j];
            steps[j] = steps[j - 1], extents[j] = extents[j - 1], names[j] = names[j - 1];
            steps[j - 1] = step, extents[j - 1] = extent, names[j - 1] = name;
        }
    }
    int64_t covered = view->dim;
    for (int i = 0; i < 3; i++) {
        if (extents[i] <= 1) {
            continue;
        }
        FAIL_IF(steps[i] < covered, GDPA_E_ARGUMENT,
                "%s.%s is %" PRId64 ", but %" PRId64
                " elements lie before the next one: results would overwrite each other",
                view->name, names[i], steps[i], covered);
        covered += (extents[i] - 1) * steps[i]; /* reach_check has ruled overflow out */
    }
    return GDPA_OK;
}

gdpa_status tensor_check(const struct view *view, bool unaligned, bool untouched, struct strides *strides)
{
    const gdpa_tensor *tensor = view->tensor;
    FAIL_IF((tensor->flags & ~GDPA_TENSOR_STRIDES) != 0, GDPA_E_VERSION,
            "%s.flags 0x%x has bits that library version %s does not know (it knows 0x%x)", view->name, tensor->flags,
            GDPA_VERSION_STRING, GDPA_TENSOR_STRIDES);
    FAIL_IF(tensor->dtype != GDPA_DTYPE_DEFAULT && tensor->dtype != view->dtype, GDPA_E_ARGUMENT,
            "%s.dtype is %d (%s), but the kernel is made for %s", view->name, tensor->dtype, dtype_name(tensor->dtype),
            dtype_name(view->dtype));
    if ((tensor->flags & GDPA_TENSOR_STRIDES) != 0) {
        TRY(explicit_strides_check(view));
    }
    *strides = (struct strides){0, 0, 0};
    if (untouched || view_is_empty(view)) {
        return GDPA_OK;
    }
    FAIL_IF(tensor->data == NULL, GDPA_E_ARGUMENT,
            "%s.data is NULL, but %s has %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64 " elements", view->name,
            view->name, view->batch, view->rows, view->heads, view->dim);
    FAIL_IF(!strides_of(view, strides), GDPA_E_ARGUMENT,
            "%s does not fit into 2^63 elements: extents %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64,
            view->name, view->batch, view->rows, view->heads, view->dim);
    if ((tensor->flags & GDPA_TENSOR_STRIDES) == 0) {
        TRY(forgotten_strides_check(view, strides));
    }
    TRY(alignment_check(view, strides, unaligned));
    TRY(reach_check(view, strides));
    return view->output ? output_overlap_check(view, strides) : GDPA_OK;
}

/* More than the copy engine can step (tensor_box.c): the kernels for unaligned tensors do without it. */
static bool stride_beyond_copies(const struct strides *strides)
{
    return strides->row >= TENSOR_BOX_STRIDE_LIMIT || strides->head >= TENSOR_BOX_STRIDE_LIMIT ||
           strides->batch >= TENSOR_BOX_STRIDE_LIMIT;
}

const char *args_unaligned_tensor(const gdpa_spec *spec, const gdpa_args *args)
{
    if (args->size < rule_args.smallest) {
        return NULL; /* the launch refuses it */
    }
    gdpa_args own;
    struct_read(&rule_args, args, &own); /* an older caller's has no gradients */
    const struct views views = views_make(spec, &own);
    const bool backward = spec->pass == GDPA_PASS_BACKWARD;
    const struct view *const each[] = {&views.q,    &views.k,  &views.v,  &views.o,
                                       &views.dout, &views.dq, &views.dk, &views.dv};
    for (int i = 0; i < 8; i++) {
        struct strides strides;
        int64_t value;
        if (i > 2 && (i == 3) == backward) {
            continue; /* not of this pass */
        }
        if (each[i]->tensor->data == NULL || view_is_empty(each[i]) || !strides_of(each[i], &strides)) {
            continue;
        }
        if ((uintptr_t)each[i]->tensor->data % FAST_ALIGNMENT != 0 ||
            stride_misaligned(each[i], &strides, &value) != NULL || stride_beyond_copies(&strides)) {
            return each[i]->name;
        }
    }
    return NULL;
}

/* A family that was asked for by name is not left for another one behind the caller's back. */
gdpa_status unaligned_family_check(const gdpa_spec *spec, const char *tensor)
{
    const bool named = spec->size >= offsetof(gdpa_spec, family) + sizeof spec->family;
    FAIL_IF(named && (spec->family == GDPA_FAMILY_SM90 || spec->family == GDPA_FAMILY_SHORT ||
                      spec->family == GDPA_FAMILY_STREAM || spec->family == GDPA_FAMILY_WHOLE ||
                      spec->family == GDPA_FAMILY_PAIRS),
            GDPA_E_ARGUMENT,
            "%s is not aligned as family %s, which the spec asks for, needs it: data and strides must be multiples of "
            "16 bytes, strides below 2^40 bytes; align it, or leave family auto, which takes the portable kernel then",
            tensor, plan_family_name(spec->family));
    return GDPA_OK;
}

/* ---------------------------------------------------------------------------------------------------------------
 * The rest
 * ------------------------------------------------------------------------------------------------------------- */

/* A number that is given and its bit: not finite, a sum of nothing times infinity would be NaN where the header promises 0. */
static gdpa_status scalar_fill(const char *name, const char *bit, bool flagged, float given, float otherwise,
                               float *value)
{
    FAIL_IF(!flagged && given != 0.0f && given != otherwise, GDPA_E_ARGUMENT,
            "%s is %g, but its bit in args.flags is not set; set GDPA_ARGS_%s, or leave the field 0", name,
            (double)given, bit);
    *value = flagged ? given : otherwise;
    FAIL_IF(!isfinite(*value), GDPA_E_ARGUMENT, "%s is %g; legal are finite numbers", name, (double)*value);
    return GDPA_OK;
}

gdpa_status scalars_fill(const gdpa_spec *spec, const gdpa_args *args, struct scalars *scalars)
{
    const struct activation_row *activation = activation_find(spec->activation);
    const float param = activation != NULL ? (float)activation->param_default : 0.0f;
    TRY(scalar_fill("scale", "SCALE", (args->flags & GDPA_ARGS_SCALE) != 0, args->scale, 1.0f, &scalars->scale));
    TRY(scalar_fill("out_scale", "OUT_SCALE", (args->flags & GDPA_ARGS_OUT_SCALE) != 0, args->out_scale, 1.0f,
                    &scalars->out_scale));
    return scalar_fill("activation_param", "ACTIVATION_PARAM", (args->flags & GDPA_ARGS_ACTIVATION_PARAM) != 0,
                       args->activation_param, param, &scalars->activation_param);
}

gdpa_status args_read(const gdpa_args **args, gdpa_args *own)
{
    FAIL_IF(*args == NULL, GDPA_E_ARGUMENT, "args is NULL");
    if ((*args)->size != sizeof *own) {
        TRY(struct_check(&rule_args, *args));
        struct_read(&rule_args, *args, own);
        *args = own;
    }
    return GDPA_OK;
}

bool schedule_is_followed(const gdpa_spec *spec, const gdpa_args *args)
{
    const bool open = spec->schedule == GDPA_SCHEDULE_DEFAULT || spec->schedule == GDPA_SCHEDULE_AUTO;
    return open && args->size == sizeof *args && args->schedule != NULL &&
           (args->cu_seqlens_q != NULL || args->cu_seqlens_k != NULL || args->seqused_q != NULL ||
            args->seqused_k != NULL);
}

int64_t divide_up(int64_t value, int64_t divisor)
{
    return value / divisor + (value % divisor != 0);
}

gdpa_status grid_fill(int64_t tiles, const char *kind, int32_t rows, uint32_t *grid, uint32_t *grid_y)
{
    const int64_t count_y = divide_up(tiles, GRID_LIMIT);
    FAIL_IF(count_y > GRID_Y_LIMIT, GDPA_E_ARGUMENT,
            "the problem has %" PRId64 " %s tiles of %d rows, more than one launch can have; split the batch", tiles,
            kind, rows);
    *grid_y = (uint32_t)count_y;
    *grid = count_y == 0 ? 0 : (uint32_t)divide_up(tiles, count_y);
    return GDPA_OK;
}
