// A vocabulary whose rows are divided among the ranks of a group.
#pragma once

#include <functional>

#include "colossal/base/range.h"
#include "colossal/comm/group.h"
#include "colossal/ops/linear_cross_entropy.h"

namespace colossal::parallel {

// Returns this rank's rows of a vocabulary that is cut as evenly as it goes. Three all-reduces of a
// number a token combine the parts' statistics. `group` must outlive it.
ops::VocabularyShard vocabulary_shard(int64_t vocabulary, const comm::Group& group);

// Returns the rows of tokens, [.., features], zeros for tokens whose rows are elsewhere. table:
// [rows here, features], of global rows `here`.
at::Tensor find_rows(const at::Tensor& table, const Range& here, const at::Tensor& tokens);
// The same of a table that is looked up by the numbers of its rows here, int64 of any shape.
using LookUp = std::function<at::Tensor(const at::Tensor& rows)>;
at::Tensor find_rows(const LookUp& look_up, const Range& here, const at::Tensor& tokens);

}  // namespace colossal::parallel
