#include "colossal/parallel/tensor/vocabulary.h"

#include "colossal/layout/partition.h"
#include "colossal/parallel/collectives.h"

namespace colossal::parallel {

ops::VocabularyShard vocabulary_shard(int64_t vocabulary, const comm::Group& group) {
  const Partition parts(vocabulary, group.size());
  return {.begin = parts.range(group.rank()).begin,
          .largest = parts.range(0).size(),
          .vocabulary = vocabulary,
          .combine =
              [&group](const at::Tensor& statistics) {
                const at::Tensor largest = statistics[0].clone();
                max_over_ranks(largest, group);
                statistics[1].mul_((statistics[0] - largest).exp_());
                statistics[0].copy_(largest);
                comm::all_reduce(statistics.narrow(0, 1, 2).view(-1), group, comm::Reason::tensor);
              },
          .sum =
              [&group](const at::Tensor& numbers) {
                comm::all_reduce(numbers.view(-1), group, comm::Reason::tensor);
              }};
}

at::Tensor look_up_rows(const at::Tensor& table, const Range& here, const at::Tensor& tokens) {
  return look_up_rows([&](const at::Tensor& rows) { return at::embedding(table, rows); }, here,
                      tokens);
}

at::Tensor look_up_rows(const LookUp& look_up, const Range& here, const at::Tensor& tokens) {
  const at::Tensor local = tokens - here.begin;
  const at::Tensor elsewhere = local.lt(0).bitwise_or_(local.ge(here.size()));
  return look_up(local.masked_fill(elsewhere, 0)).masked_fill(elsewhere.unsqueeze(-1), 0);
}

}  // namespace colossal::parallel
