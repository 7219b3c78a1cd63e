/*
 * Problems: tensors, arguments, run, comparison; see problem.hpp.
 */
#include "problem.hpp"
#include "tensor_map.hpp"
#include "text.hpp"

#include <cmath>
#include <cstring>

#include "include/gdpajit.h"
extern "C" {
#include "gen/assemble.h"
#include "runtime/launch_params.h"
#include "tests/support/compare.h"
#include "tests/support/half.h"
#include "tests/support/random.h"
#include "tests/support/reference.h"
}

namespace emu
{

/* An sbuf that frees itself. */
struct Buffer {
    sbuf text;
    explicit Buffer(size_t limit)
    {
        sbuf_init(&text, limit);
    }
    ~Buffer()
    {
        sbuf_deinit(&text);
    }
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;
};

bool program_generate(const std::string &spec, Program *program, std::string *why)
{
    Buffer reason(1 << 16), printed(1 << 12), source(1 << 22);
    gdpa_spec parsed = GDPA_SPEC_INIT;
    if (spec_parse(spec.c_str(), &parsed, &reason.text) != GDPA_OK ||
        spec_normalise(&parsed, false, &program->spec, &reason.text) != GDPA_OK ||
        plan_make(&program->spec, &program->plan, nullptr, &reason.text) != GDPA_OK ||
        source_generate(&program->spec, &program->plan, &source.text, &reason.text) != GDPA_OK) {
        *why = reason.text.text;
        return false;
    }
    spec_print(&program->spec, &printed.text);
    program->text = printed.text.text;
    program->source = source.text.text;
    return true;
}

bool program_load(Program *program, const std::string &folder, std::string *why)
{
    program->kernel = kernel_load(program->source, folder, why);
    return program->kernel.entry != nullptr;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Tensors
 * ------------------------------------------------------------------------------------------------------------- */

/* Strides and offset in elements. */
struct Tensor {
    GlobalBuffer *buffer = nullptr;
    int32_t dtype = 0;
    int64_t batch = 0, rows = 0, heads = 0, dim = 0;
    int64_t stride_batch = 0, stride_row = 0, stride_head = 0, offset = 0;

    int64_t place(int64_t sequence, int64_t row, int64_t head) const
    {
        return offset + sequence * stride_batch + row * stride_row + head * stride_head;
    }
};

class Problem
{
  public:
    Problem(const Program &program, const Shape &shape);
    ProblemResult run();

  private:
    int64_t length_of(const std::vector<int32_t> &lengths, int64_t sequence) const;
    const int32_t *integers(const char *name, const std::vector<int32_t> &values);
    void fill_side(bool jagged, const std::vector<int32_t> &lengths, const std::vector<int32_t> &used,
                   const char *letter, int64_t *seqlen, int64_t *total, int64_t *max, const int32_t **cu,
                   const int32_t **seqused);
    void lay_out(Tensor &tensor, const char *name, int32_t dtype, bool jagged, int64_t rows, int64_t heads, int64_t dim,
                 bool expandable);
    void fill(Tensor &tensor, bool of_queries, uint64_t seed);
    gdpa_tensor argument(const Tensor &tensor) const;
    void allow_output();
    LaunchResult launch_kernel(launch_shape &shape);
    void compare_row(compare *state, const std::vector<double> (&results)[2], compare_place place, int64_t global,
                     int64_t start) const;
    std::string compare_output(double *worst);
    std::string check_untouched();

    const Program &program_;
    const Shape &shape_;
    GlobalMemory memory_;
    gdpa_args args_ = GDPA_ARGS_INIT;
    reference_problem reference_ = {};
    Tensor q_, k_, v_, o_;
    std::vector<bool> output_bytes_;
};

Problem::Problem(const Program &program, const Shape &shape) : program_(program), shape_(shape)
{
    const gdpa_spec &spec = program.spec;
    const bool jagged_q = spec.layout_q == GDPA_LAYOUT_JAGGED;
    const bool jagged_k = spec.layout_k == GDPA_LAYOUT_JAGGED;
    args_.batch = shape.batch;
    args_.heads_q = shape.heads_q;
    args_.heads_k = shape.heads_k;
    fill_side(jagged_q, shape.q, shape.used_q, "q", &args_.seqlen_q, &args_.total_q, &args_.max_seqlen_q,
              &args_.cu_seqlens_q, &args_.seqused_q);
    fill_side(jagged_k, shape.k, shape.used_k, "k", &args_.seqlen_k, &args_.total_k, &args_.max_seqlen_k,
              &args_.cu_seqlens_k, &args_.seqused_k);
    const int64_t rows_q = jagged_q ? args_.total_q : args_.seqlen_q;
    const int64_t rows_k = jagged_k ? args_.total_k : args_.seqlen_k;
    lay_out(q_, "q", spec.dtype, jagged_q, rows_q, shape.heads_q, spec.head_dim, false);
    lay_out(k_, "k", spec.dtype, jagged_k, rows_k, shape.heads_k, spec.head_dim, true);
    lay_out(v_, "v", spec.dtype, jagged_k, rows_k, shape.heads_k, spec.head_dim_v, true);
    lay_out(o_, "o", spec.out_dtype, jagged_q, rows_q, shape.heads_q, spec.head_dim_v, false);
    args_.q = argument(q_);
    args_.k = argument(k_);
    args_.v = argument(v_);
    args_.o = argument(o_);
    args_.flags = GDPA_ARGS_SCALE | GDPA_ARGS_OUT_SCALE | (shape.param != 0 ? GDPA_ARGS_ACTIVATION_PARAM : 0);
    args_.scale = static_cast<float>(!std::isnan(shape.scale) ? shape.scale : 1 / std::sqrt(spec.head_dim));
    args_.out_scale = static_cast<float>(shape.out_scale);
    args_.activation_param = static_cast<float>(shape.param);
    reference_.spec = &program.spec;
    reference_.args = &args_;
    reference_.threads = 1;
    fill(q_, true, 3 * shape.seed);
    fill(k_, false, 3 * shape.seed + 1);
    fill(v_, false, 3 * shape.seed + 2);
    allow_output();
}

int64_t Problem::length_of(const std::vector<int32_t> &lengths, int64_t sequence) const
{
    return lengths[static_cast<size_t>(sequence) % lengths.size()];
}

const int32_t *Problem::integers(const char *name, const std::vector<int32_t> &values)
{
    GlobalBuffer &buffer = memory_.add(name, values.size() * sizeof(int32_t), sizeof(int32_t), shape_.placement);
    memcpy(buffer.data(), values.data(), values.size() * sizeof(int32_t));
    buffer.make_read_only();
    return reinterpret_cast<const int32_t *>(buffer.data());
}

void Problem::fill_side(bool jagged, const std::vector<int32_t> &lengths, const std::vector<int32_t> &used,
                        const char *letter, int64_t *seqlen, int64_t *total, int64_t *max, const int32_t **cu,
                        const int32_t **seqused)
{
    std::vector<int32_t> offsets = {static_cast<int32_t>(shape_.before)};
    std::vector<int32_t> shortened;
    int64_t longest = 0;
    bool differ = false;
    for (int64_t i = 0; i < shape_.batch; ++i) {
        const int64_t length = length_of(lengths, i);
        offsets.push_back(static_cast<int32_t>(offsets.back() + length));
        shortened.push_back(static_cast<int32_t>(used.empty() ? length : length_of(used, i)));
        differ = differ || (i > 0 && length != longest);
        longest = std::max(longest, length);
    }
    const std::string suffix = letter;
    if (jagged) {
        *total = offsets.back() + shape_.behind;
        *max = shape_.know_max ? longest : 0;
        *cu = integers(("cu_seqlens_" + suffix).c_str(), offsets);
    } else {
        *seqlen = longest;
    }
    if (!used.empty() || (!jagged && differ)) {
        *seqused = integers(("seqused_" + suffix).c_str(), shortened);
    }
}

void Problem::lay_out(Tensor &tensor, const char *name, int32_t dtype, bool jagged, int64_t rows, int64_t heads,
                      int64_t dim, bool expandable)
{
    tensor.dtype = dtype;
    tensor.batch = jagged ? 1 : shape_.batch;
    tensor.rows = rows;
    tensor.heads = heads;
    tensor.dim = dim;
    const bool expanded = shape_.strides == Strides::Expanded && expandable;
    const int64_t gap = shape_.strides == Strides::Gaps ? 8 : shape_.strides == Strides::Odd ? 1 : 0;
    tensor.offset = shape_.strides == Strides::Odd ? 1 : 0;
    if (shape_.strides == Strides::HeadsFirst) {
        tensor.stride_row = dim;
        tensor.stride_head = rows * dim;
        tensor.stride_batch = heads * tensor.stride_head;
    } else {
        const int64_t stored_heads = expanded ? 1 : heads;
        tensor.stride_head = expanded ? 0 : dim + gap;
        tensor.stride_row = stored_heads * (dim + gap) + gap;
        tensor.stride_batch = rows * tensor.stride_row + 2 * gap;
    }
    const bool empty = tensor.batch == 0 || rows == 0;
    const int64_t elements = empty ? 0 : tensor.place(tensor.batch - 1, rows - 1, heads - 1) + dim;
    const size_t bytes = static_cast<size_t>(elements) * dtype_size(dtype);
    tensor.buffer = &memory_.add(name, bytes, 16, shape_.placement);
    memset(tensor.buffer->data(), 0xff, bytes);
}

gdpa_tensor Problem::argument(const Tensor &tensor) const
{
    gdpa_tensor result = {};
    result.data = tensor.buffer->data() + static_cast<size_t>(tensor.offset) * dtype_size(tensor.dtype);
    result.dtype = tensor.dtype;
    if (shape_.strides != Strides::Packed) {
        result.flags = GDPA_TENSOR_STRIDES;
        result.stride_batch = tensor.stride_batch;
        result.stride_row = tensor.stride_row;
        result.stride_head = tensor.stride_head;
        result.stride_dim = 1;
    }
    return result;
}

/* Numbers where sequences are; everything else stays NaN. */
void Problem::fill(Tensor &tensor, bool of_queries, uint64_t seed)
{
    random_source source = {seed, 0};
    for (int64_t sequence = 0; sequence < shape_.batch; ++sequence) {
        const reference_sequence where = reference_sequence_find(&reference_, sequence);
        const int64_t first = of_queries ? where.first_q : where.first_k;
        const int64_t rows = of_queries ? where.rows_q : where.rows_k;
        for (int64_t row = first; row < first + rows; ++row) {
            for (int64_t head = 0; head < tensor.heads; ++head) {
                const int64_t start = tensor.place(tensor.batch == 1 ? 0 : row / tensor.rows,
                                                   tensor.batch == 1 ? row : row % tensor.rows, head);
                for (int64_t i = 0; i < tensor.dim; ++i) {
                    dtype_store(tensor.dtype, tensor.buffer->data(), start + i, shape_.sigma * random_normal(&source));
                }
            }
        }
    }
    tensor.buffer->make_read_only();
}

/* Visits (sequence, head, row of the sequence, first element in the buffer) of every row of o that must be written. */
template <typename Visit>
static void for_output_rows(const reference_problem &reference, const Tensor &o, int64_t batch, Visit visit)
{
    for (int64_t sequence = 0; sequence < batch; ++sequence) {
        const reference_sequence where = reference_sequence_find(&reference, sequence);
        for (int64_t head = 0; head < o.heads; ++head) {
            for (int64_t row = 0; row < where.rows_q; ++row) {
                const int64_t global = where.first_q + row;
                const int64_t of_batch = o.batch == 1 ? 0 : global / o.rows;
                visit(sequence, head, row, global, o.place(of_batch, global - of_batch * o.rows, head));
            }
        }
    }
}

void Problem::allow_output()
{
    const size_t element = dtype_size(o_.dtype);
    output_bytes_.assign(o_.buffer->bytes(), false);
    for_output_rows(reference_, o_, shape_.batch, [&](int64_t, int64_t, int64_t, int64_t, int64_t start) {
        const size_t first = static_cast<size_t>(start) * element;
        std::fill_n(output_bytes_.begin() + static_cast<std::ptrdiff_t>(first), static_cast<size_t>(o_.dim) * element,
                    true);
    });
    o_.buffer->allow_writes(output_bytes_);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Run and compare
 * ------------------------------------------------------------------------------------------------------------- */

/*
 * A sequence and head with few visible pairs has so few roundings of P that the eager error may be small by luck: its rows are handed to
 * the comparison one by one, which pools what is small.
 */
static constexpr int64_t kFewPairs = 512;

static bool has_few_pairs(const reference_problem &reference, const reference_sequence &where)
{
    int64_t pairs = 0;
    for (int64_t row = 0; row < where.rows_q && pairs < kFewPairs; ++row) {
        int64_t first, last;
        reference_visible(&reference, &where, row, &first, &last);
        pairs += std::max<int64_t>(last - first, 0);
    }
    return pairs < kFewPairs;
}

/* One row of the output. */
void Problem::compare_row(compare *state, const std::vector<double> (&results)[2], compare_place place, int64_t global,
                          int64_t start) const
{
    const reference_sequence where = reference_sequence_find(&reference_, place.sequence);
    int64_t first, last;
    reference_visible(&reference_, &where, place.row, &first, &last);
    for (place.column = 0; place.column < o_.dim; ++place.column) {
        const double ours = dtype_load(o_.dtype, o_.buffer->data(), start + place.column);
        const auto at = static_cast<size_t>((global * o_.heads + place.head) * o_.dim + place.column);
        if (first >= last) {
            compare_add_zero(state, ours, place);
        } else {
            compare_add(state, ours, results[0][at], results[1][at], place);
        }
    }
    if (place.row + 1 == where.rows_q || has_few_pairs(reference_, where)) {
        compare_group_end(state);
    }
}

std::string Problem::compare_output(double *worst)
{
    const reference_sizes sizes = reference_sizes_find(&reference_);
    std::vector<double> results[2] = {std::vector<double>(static_cast<size_t>(sizes.o)),
                                      std::vector<double>(static_cast<size_t>(sizes.o))}; // exact and eager
    if (!reference_forward(&reference_, results[0].data(), results[1].data())) {
        return "no memory for the reference";
    }
    compare state;
    compare_init(&state, o_.dtype, 2);
    state.input_dtype = program_.spec.dtype;
    for_output_rows(reference_, o_, shape_.batch,
                    [&](int64_t sequence, int64_t head, int64_t row, int64_t global, int64_t start) {
                        compare_row(&state, results, {sequence, head, row, 0}, global, start);
                    });
    compare_finish(&state);
    *worst = state.worst_ratio;
    if (compare_holds(&state)) {
        return "";
    }
    char explanation[1024];
    compare_explain(&state, explanation, sizeof explanation);
    return explanation;
}

std::string Problem::check_untouched()
{
    for (size_t i = 0; i < output_bytes_.size(); ++i) {
        if (!output_bytes_[i] && o_.buffer->data()[i] != 0xff) {
            return text("byte %zu of o, which belongs to no row of a sequence, was written", i);
        }
    }
    return "";
}

/* The tensor maps of a kernel that loads through the copy engine. "", or why the driver would refuse one. */
static std::string encode_maps(const launch_shape &shape, gdpa_fwd_sm90_params *params)
{
    gdpa_tensor_map *const maps[] = {&params->q_map, &params->k_map, &params->v_map};
    for (int i = 0; i < TENSOR_BOX_COUNT; ++i) {
        const tensor_box &box = shape.boxes[i];
        const uint32_t sizes[TENSOR_BOX_RANK] = {TENSOR_BOX_COLUMNS, box.rows, 1, 1};
        TensorMapRequest request;
        request.rank = TENSOR_BOX_RANK;
        request.base = box.data;
        request.sizes = box.extents;
        request.strides = box.strides;
        request.box = sizes;
        request.swizzle = Swizzle::Bytes128;
        const std::string wrong = tensor_map_encode(maps[i], request);
        if (!wrong.empty()) {
            return text("tensor map %d: %s", i, wrong.c_str());
        }
    }
    params->common = shape.params;
    return "";
}

LaunchResult Problem::launch_kernel(launch_shape &shape)
{
    launch_shape_fit(&shape, &program_.plan, shape_.blocks);
    gdpa_fwd_sm90_params boxed;
    LaunchResult result;
    if (shape.boxed) {
        result.message = encode_maps(shape, &boxed);
        if (!result.message.empty()) {
            return result;
        }
    }
    void *parameters[] = {shape.boxed ? static_cast<void *>(&boxed) : &shape.params};
    Launch what;
    what.kernel = program_.kernel.name.c_str();
    what.entry = program_.kernel.entry;
    what.parameters = parameters;
    what.grid = shape.grid;
    what.grid_y = shape.grid_y;
    what.block = shape.block;
    what.shared_bytes = shape.smem;
    what.resident = shape_.resident;
    what.completion = shape_.completion;
    what.seed = shape_.seed;
    what.memory = &memory_;
    return launch(what);
}

ProblemResult Problem::run()
{
    ProblemResult result;
    launch_shape shape;
    if (launch_shape_fill(&program_.spec, &program_.plan, &args_, &shape) != GDPA_OK) {
        result.message = gdpa_last_error();
        return result;
    }
    result.launched = shape.grid != 0;
    if (result.launched) {
        const LaunchResult launched = launch_kernel(shape);
        if (!launched.passed) {
            result.message = launched.message;
            return result;
        }
    }
    result.message = check_untouched();
    if (result.message.empty()) {
        result.message = compare_output(&result.worst);
    }
    result.passed = result.message.empty();
    return result;
}

ProblemResult problem_run(const Program &program, const Shape &shape)
{
    Problem problem(program, shape);
    return problem.run();
}

} // namespace emu
