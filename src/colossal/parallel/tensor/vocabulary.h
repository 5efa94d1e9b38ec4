// Helpers for embeddings and vocabulary heads whose table rows are divided among the ranks of a
// group (vocabulary parallelism).
#pragma once

#include <functional>

#include "colossal/base/range.h"
#include "colossal/comm/group.h"
#include "colossal/ops/loss/linear_cross_entropy.h"

namespace colossal::parallel {

// Returns this rank's shard of a vocabulary of `vocabulary` rows that are divided as evenly as
// possible. The functions of the shard communicate over `group`, which must outlive it. Laws:
// VocabularyShard::combine sends the bytes of three all-reduces of one number per token;
// VocabularyShard::sum sends the bytes of one all-reduce of its argument.
ops::VocabularyShard vocabulary_shard(int64_t vocabulary, const comm::Group& group);

// Returns the table row of each token, [.., features]; zeros for a token whose row is not on this
// rank. tokens: [..] int64, indices of rows in the whole table. table: this rank's rows, [rows on
// this rank, features]. here: the indices of these rows in the whole table.
at::Tensor look_up_rows(const at::Tensor& table, const Range& here, const at::Tensor& tokens);
// A function that reads the rows `rows` of this rank's part of a table and returns them, [..,
// features]. rows: [..] int64, relative to this rank's first row.
using LookUp = std::function<at::Tensor(const at::Tensor& rows)>;
// Like look_up_rows() above, with a function that reads the table. look_up() is called once, with a
// row for each token: row 0 for tokens that are not on this rank.
at::Tensor look_up_rows(const LookUp& look_up, const Range& here, const at::Tensor& tokens);

}  // namespace colossal::parallel
