/*
 * The parts of a problem (problem.hpp): its tensors, what it writes, how it is launched and compared.
 */
#ifndef GDPA_EMU_PROBLEM_CLASS_HPP
#define GDPA_EMU_PROBLEM_CLASS_HPP

#include "problem.hpp"

extern "C" {
#include "runtime/backward_params.h"
#include "runtime/launch_params.h"
#include "tests/support/compare.h"
#include "tests/support/reference.h"
}

namespace emu
{

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

/* A result: o, or a gradient. */
struct Output {
    Tensor tensor;
    std::string name;
    bool of_queries = true;
    std::vector<bool> bytes;    // which belong to rows of sequences
    std::vector<double> before; // what they held; empty unless results are added to it
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
    void add_output(const char *name, int32_t dtype, bool of_queries, int64_t heads, int64_t dim);
    void make_backward(int64_t rows_q);
    void make_offsets_wrong();
    template <typename Visit> void for_rows(const Output &output, Visit visit) const;
    bool is_seen(const Output &output, int64_t sequence, int64_t row) const;
    std::string make_schedule(launch_shape *shape);
    void write_list(uint32_t *order, bool of_keys) const;
    void write_schedule(backward_shape *shape);
    void spoil_schedule();
    std::string check_schedule() const;
    std::string check_list(int list) const;
    std::string launch_forward(bool *launched);
    std::string launch_backward(bool *launched);
    std::string launch_gradients(const std::string &name, void (*entry)(void **), backward_shape &shape,
                                 const backward_grid &grid, const tensor_box *boxes, int32_t cluster);
    std::string launch_one(const char *name, void (*entry)(void **), void *parameters, const backward_grid &grid,
                           int32_t cluster = 1);
    bool compute_reference(std::vector<double> (&results)[4][3]) const;
    void compare_row(compare *state, const Output &output, const std::vector<double> (&results)[4][3], size_t number,
                     compare_place place, int64_t global, int64_t start) const;
    std::string compare_output(size_t number, const std::vector<double> (&results)[4][3], double *worst) const;
    std::string compare_outputs(double *worst) const;
    std::string check_untouched() const;

    const Program &program_;
    const Shape &shape_;
    const bool backward_;
    GlobalMemory memory_;
    GlobalBuffer *schedule_ = nullptr;
    gdpa_args args_ = GDPA_ARGS_INIT;
    reference_problem reference_ = {};
    Tensor q_, k_, v_, dout_;
    std::vector<Output> outputs_;
};

} // namespace emu

#endif
