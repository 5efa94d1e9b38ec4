// Vocabulary-parallel helpers: the rows of a vocabulary are divided among the ranks of a group.
#pragma once

#include <functional>

#include "colossal/base/range.h"
#include "colossal/comm/group.h"
#include "colossal/ops/linear_cross_entropy.h"

namespace colossal::parallel {

// Returns this rank's shard of a vocabulary that is divided as evenly as possible. The shard's
// functions combine softmax statistics over the group: the bytes of three all-reduces of one number
// per token. `group` must outlive the shard.
ops::VocabularyShard vocabulary_shard(int64_t vocabulary, const comm::Group& group);

// Looks up tokens [..] and returns [.., features], with zeros for tokens outside this rank's rows.
// table: [rows on this rank, features]; here: the rows' range in the whole table.
at::Tensor find_rows(const at::Tensor& table, const Range& here, const at::Tensor& tokens);
// The same, with a function that reads the table. Its argument `rows` is int64 of any shape,
// counted from this rank's first row.
using LookUp = std::function<at::Tensor(const at::Tensor& rows)>;
at::Tensor find_rows(const LookUp& look_up, const Range& here, const at::Tensor& tokens);

}  // namespace colossal::parallel
