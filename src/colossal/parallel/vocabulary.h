// A vocabulary whose rows the ranks of a group share out.
#pragma once

#include "colossal/base/range.h"
#include "colossal/comm/group.h"
#include "colossal/ops/linear_cross_entropy.h"

namespace colossal::parallel {

// This rank's rows of a vocabulary that is cut as evenly as it goes, and three all-reduces of a
// number a token that combine the parts' statistics. `group` must outlive it.
ops::VocabularyShard vocabulary_shard(int64_t vocabulary, const comm::Group& group);

// table [rows here, features], of global rows `here` -> [.., features]: of tokens, zeros for those
// whose rows are elsewhere.
at::Tensor find_rows(const at::Tensor& table, const Range& here, const at::Tensor& tokens);

}  // namespace colossal::parallel
