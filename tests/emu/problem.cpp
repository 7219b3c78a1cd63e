/*
 * Problems: tensors, arguments, run, comparison; see problem.hpp.
 */
#include "problem_class.hpp"
#include "text.hpp"

#include <cmath>
#include <cstring>

#include "include/gdpajit.h"
extern "C" {
#include "gen/assemble.h"
#include "tests/support/half.h"
#include "tests/support/random.h"
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

Problem::Problem(const Program &program, const Shape &shape)
    : program_(program), shape_(shape), backward_(program.spec.pass == GDPA_PASS_BACKWARD)
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
    args_.q = argument(q_);
    args_.k = argument(k_);
    args_.v = argument(v_);
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
    if (backward_) {
        make_backward(rows_q);
    } else {
        add_output("o", spec.out_dtype, true, shape.heads_q, spec.head_dim_v);
        args_.o = argument(outputs_[0].tensor);
    }
}

/* dO, and the gradients that are wanted. */
void Problem::make_backward(int64_t rows_q)
{
    const gdpa_spec &spec = program_.spec;
    lay_out(dout_, "dout", spec.dtype, spec.layout_q == GDPA_LAYOUT_JAGGED, rows_q, shape_.heads_q, spec.head_dim_v,
            false);
    fill(dout_, true, 3 * shape_.seed + 1000);
    args_.dout = argument(dout_);
    reference_.d_out = args_.dout;
    args_.flags |= shape_.accumulate ? GDPA_ARGS_ACCUMULATE : 0;
    const struct {
        const char *name;
        bool of_queries;
        int64_t heads;
        int32_t dim;
        gdpa_tensor *argument;
    } gradients[] = {{"dq", true, shape_.heads_q, spec.head_dim, &args_.dq},
                     {"dk", false, shape_.heads_k, spec.head_dim, &args_.dk},
                     {"dv", false, shape_.heads_k, spec.head_dim_v, &args_.dv}};
    for (const auto &gradient : gradients) {
        if (shape_.gradients.find(gradient.name[1]) != std::string::npos) {
            add_output(gradient.name, spec.out_dtype, gradient.of_queries, gradient.heads, gradient.dim);
            *gradient.argument = argument(outputs_.back().tensor);
        }
    }
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

/* Visits (sequence, head, row of the sequence, its number among all, first element in the buffer) of every row that must be written. */
template <typename Visit> void Problem::for_rows(const Output &output, Visit visit) const
{
    const Tensor &tensor = output.tensor;
    for (int64_t sequence = 0; sequence < shape_.batch; ++sequence) {
        const reference_sequence where = reference_sequence_find(&reference_, sequence);
        const int64_t first = output.of_queries ? where.first_q : where.first_k;
        const int64_t rows = output.of_queries ? where.rows_q : where.rows_k;
        for (int64_t head = 0; head < tensor.heads; ++head) {
            for (int64_t row = 0; row < rows; ++row) {
                const int64_t global = first + row;
                const int64_t of_batch = tensor.batch == 1 ? 0 : global / tensor.rows;
                visit(sequence, head, row, global, tensor.place(of_batch, global - of_batch * tensor.rows, head));
            }
        }
    }
}

void Problem::add_output(const char *name, int32_t dtype, bool of_queries, int64_t heads, int64_t dim)
{
    const bool jagged = (of_queries ? program_.spec.layout_q : program_.spec.layout_k) == GDPA_LAYOUT_JAGGED;
    const int64_t rows =
        of_queries ? (jagged ? args_.total_q : args_.seqlen_q) : (jagged ? args_.total_k : args_.seqlen_k);
    outputs_.emplace_back();
    Output &output = outputs_.back();
    output.name = name;
    output.of_queries = of_queries;
    lay_out(output.tensor, name, dtype, jagged, rows, heads, dim, false);
    const Tensor &tensor = output.tensor;
    const size_t element = dtype_size(dtype);
    output.bytes.assign(tensor.buffer->bytes(), false);
    if (shape_.accumulate) {
        output.before.assign(tensor.buffer->bytes() / element, 0);
    }
    random_source source = {77 * shape_.seed, 0};
    for_rows(output, [&](int64_t, int64_t, int64_t, int64_t, int64_t start) {
        const size_t first = static_cast<size_t>(start) * element;
        std::fill_n(output.bytes.begin() + static_cast<std::ptrdiff_t>(first),
                    static_cast<size_t>(tensor.dim) * element, true);
        for (int64_t i = 0; shape_.accumulate && i < tensor.dim; ++i) {
            dtype_store(dtype, tensor.buffer->data(), start + i, random_normal(&source));
            output.before[static_cast<size_t>(start + i)] = dtype_load(dtype, tensor.buffer->data(), start + i);
        }
    });
    tensor.buffer->allow_writes(output.bytes);
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

/* Whether a row of queries sees a key, or a key is seen by a query. */
bool Problem::is_seen(const Output &output, int64_t sequence, int64_t row) const
{
    const reference_sequence where = reference_sequence_find(&reference_, sequence);
    int64_t first, last;
    if (output.of_queries) {
        reference_visible(&reference_, &where, row, &first, &last);
        return first < last;
    }
    reference_seeing(&reference_, &where, row, &first, &last);
    return first < last;
}

/* One row of an output. */
void Problem::compare_row(compare *state, const Output &output, const std::vector<double> (&results)[4][3],
                          size_t number, compare_place place, int64_t global, int64_t start) const
{
    const reference_sequence where = reference_sequence_find(&reference_, place.sequence);
    const Tensor &tensor = output.tensor;
    const bool seen = is_seen(output, place.sequence, place.row);
    for (place.column = 0; place.column < tensor.dim; ++place.column) {
        const double ours = dtype_load(tensor.dtype, tensor.buffer->data(), start + place.column);
        const auto at = static_cast<size_t>((global * tensor.heads + place.head) * tensor.dim + place.column);
        const compare_allowance allowance = {results[2][number][at], results[3][number][at]};
        if (!output.before.empty()) {
            const double before = output.before[static_cast<size_t>(start + place.column)];
            compare_add_allowed(state, ours, before + (seen ? results[0][number][at] : 0),
                                before + (seen ? results[1][number][at] : 0), allowance, place);
        } else if (!seen) {
            compare_add_zero(state, ours, place);
        } else {
            compare_add_allowed(state, ours, results[0][number][at], results[1][number][at], allowance, place);
        }
    }
    const int64_t rows = output.of_queries ? where.rows_q : where.rows_k;
    if (place.row + 1 == rows || has_few_pairs(reference_, where)) {
        compare_group_end(state);
    }
}

/* Exact and eager results, and what is allowed beside them; number 0 to 2: o, or dq, dk and dv. */
bool Problem::compute_reference(std::vector<double> (&results)[4][3]) const
{
    const reference_sizes sizes = reference_sizes_find(&reference_);
    const int64_t elements[] = {backward_ ? sizes.dq : sizes.o, backward_ ? sizes.dk : 0, backward_ ? sizes.dv : 0};
    for (auto &kind : results) {
        for (size_t i = 0; i < 3; ++i) {
            kind[i].assign(static_cast<size_t>(elements[i]), 0);
        }
    }
    if (!backward_) {
        return reference_forward(&reference_, results[0][0].data(), results[1][0].data(), results[3][0].data());
    }
    return reference_backward(&reference_, {results[0][0].data(), results[0][1].data(), results[0][2].data()},
                              {results[1][0].data(), results[1][1].data(), results[1][2].data()},
                              {results[2][0].data(), results[2][1].data(), nullptr},
                              {results[3][0].data(), results[3][1].data(), results[3][2].data()});
}

std::string Problem::compare_output(size_t number, const std::vector<double> (&results)[4][3], double *worst) const
{
    const Output &output = outputs_[number];
    const size_t of_reference = !backward_ ? 0 : output.name == "dq" ? 0 : output.name == "dk" ? 1 : 2;
    compare state;
    compare_init(&state, output.tensor.dtype, backward_ ? 3 : 2);
    state.input_dtype = program_.spec.dtype;
    for_rows(output, [&](int64_t sequence, int64_t head, int64_t row, int64_t global, int64_t start) {
        compare_row(&state, output, results, of_reference, {sequence, head, row, 0}, global, start);
    });
    compare_finish(&state);
    *worst = std::max(*worst, state.worst_ratio);
    if (compare_holds(&state)) {
        return "";
    }
    char explanation[1024];
    compare_explain(&state, explanation, sizeof explanation);
    return output.name + ": " + explanation;
}

std::string Problem::compare_outputs(double *worst) const
{
    std::vector<double> results[4][3]; // exact, eager, allowed, inexact
    if (!compute_reference(results)) {
        return "no memory for the reference";
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
        const std::string wrong = compare_output(i, results, worst);
        if (!wrong.empty()) {
            return wrong;
        }
    }
    return "";
}

std::string Problem::check_untouched() const
{
    for (const Output &output : outputs_) {
        for (size_t i = 0; i < output.bytes.size(); ++i) {
            if (!output.bytes[i] && output.tensor.buffer->data()[i] != 0xff) {
                return text("byte %zu of %s, which belongs to no row of a sequence, was written", i,
                            output.name.c_str());
            }
        }
    }
    return "";
}

/*
 * Offsets and lengths of any size and sign: the kernels compute rows of their own choice then, but end, and stay inside the tensors. Any
 * row may be written.
 */
void Problem::make_offsets_wrong()
{
    random_source source = {999 * shape_.seed, 0};
    const struct {
        const int32_t **list;
        int64_t total;
        int64_t count;
        const char *name;
    } lists[] = {{&args_.cu_seqlens_q, args_.total_q, shape_.batch + 1, "cu_seqlens_q, wrong"},
                 {&args_.cu_seqlens_k, args_.total_k, shape_.batch + 1, "cu_seqlens_k, wrong"},
                 {&args_.seqused_q, args_.total_q, shape_.batch, "seqused_q, wrong"},
                 {&args_.seqused_k, args_.total_k, shape_.batch, "seqused_k, wrong"}};
    for (const auto &list : lists) {
        std::vector<int32_t> values;
        for (int64_t i = 0; i < list.count && *list.list != nullptr; ++i) {
            const bool extreme = random_between(&source, 0, 7) == 0;
            values.push_back(extreme ? (i % 2 == 0 ? INT32_MAX : INT32_MIN)
                                     : static_cast<int32_t>(random_between(&source, -list.total, 2 * list.total)));
        }
        if (!values.empty()) {
            *list.list = integers(list.name, values);
        }
    }
    for (const Output &output : outputs_) {
        output.tensor.buffer->allow_writes({});
    }
}

ProblemResult Problem::run()
{
    ProblemResult result;
    if (shape_.wrong_offsets) {
        make_offsets_wrong();
        result.message = backward_ ? launch_backward(&result.launched) : launch_forward(&result.launched);
        result.message = result.message.empty() ? check_schedule() : result.message;
        result.passed = result.message.empty();
        return result;
    }
    result.message = backward_ ? launch_backward(&result.launched) : launch_forward(&result.launched);
    if (result.message.empty()) {
        result.message = check_schedule();
    }
    if (result.message.empty()) {
        result.message = check_untouched();
    }
    if (result.message.empty()) {
        result.message = compare_outputs(&result.worst);
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
