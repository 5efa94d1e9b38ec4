// Averages of squares in factored form, a number for each row and each column of a matrix instead
// of one for each element (N. Shazeer, M. Stern 2018, "Adafactor", section 3).
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "colossal/optim/optimizer.h"

namespace colossal::optim {

// Returns the two whole states: the averages over each row, [matrices * rows], and over each
// column, [matrices * columns]. rows, columns: names of the states.
std::vector<WholeState> factored_states(const std::string& rows, const std::string& columns,
                                        const MatrixShape& shape);

// Returns how many sums add_factored_sums() makes: one for each row and each column.
int64_t num_factored_sums(const MatrixShape& shape);

// Adds the sums of `squares` over the rows and columns of the piece's block to the first
// num_factored_sums() elements of `sums`: those of all rows, then those of all columns. squares: a
// number for each element of the piece.
void add_factored_sums(const Piece& piece, const at::Tensor& squares, const at::Tensor& sums);

// Moves the averages `rows` and `columns` toward the means that follow from `sums` (as
// move_average() does), and returns the argument `factors` of inverse_roots(), in fp64, laid out as
// `sums`.
at::Tensor move_factored(const at::Tensor& rows, const at::Tensor& columns, const at::Tensor& sums,
                         const MatrixShape& shape, double beta);

// Returns for each element of the piece 1 over the root of its average of squares, in the type of
// the masters. factors: the result of move_factored().
at::Tensor inverse_roots(const Piece& piece, const at::Tensor& factors);

}  // namespace colossal::optim
