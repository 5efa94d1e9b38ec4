#include "colossal/checkpoint/strided_shards.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "colossal/base/error.h"
#include "colossal/layout/partition.h"

namespace colossal::checkpoint {
namespace {

// Runs of elements that are sent to one rank or received from it: (begin, count) of each.
using Runs = std::vector<int64_t>;

int64_t num_elements(const Runs& runs) {
  int64_t count = 0;
  for (size_t i = 1; i < runs.size(); i += 2) count += runs[i];
  return count;
}

at::Tensor exchange(const at::Tensor& send, const std::vector<int64_t>& send_counts,
                    const std::vector<int64_t>& receive_counts, const comm::Group& group) {
  const int64_t total = std::accumulate(receive_counts.begin(), receive_counts.end(), int64_t{0});
  const at::Tensor received = at::empty({total}, send.options());
  comm::all_to_all(send, send_counts, received, receive_counts, group, comm::Reason::checkpoint);
  return comm::on_host(received, group);
}

// Returns the runs that each rank sends to this one.
std::vector<Runs> exchange_runs(const std::vector<Runs>& sent, const comm::Group& group) {
  const auto on_device = [&](const std::vector<int64_t>& numbers) {
    return at::tensor(numbers, at::kLong).to(group.device());
  };
  std::vector<int64_t> lengths, flat;
  for (const Runs& runs : sent) {
    lengths.push_back(static_cast<int64_t>(runs.size()));
    flat.insert(flat.end(), runs.begin(), runs.end());
  }
  const std::vector<int64_t> ones(group.size(), 1);
  const at::Tensor received_lengths = exchange(on_device(lengths), ones, ones, group);
  const auto* length = received_lengths.const_data_ptr<int64_t>();
  const std::vector<int64_t> counts(length, length + group.size());
  const at::Tensor received = exchange(on_device(flat), lengths, counts, group);
  const auto* next = received.const_data_ptr<int64_t>();
  std::vector<Runs> result;
  for (const int64_t count : counts) {
    result.emplace_back(next, next + count);
    next += count;
  }
  return result;
}

std::vector<int64_t> element_counts(const std::vector<Runs>& by_rank) {
  std::vector<int64_t> counts;
  for (const Runs& runs : by_rank) counts.push_back(num_elements(runs));
  return counts;
}

// Returns a buffer with the values of the received runs, in rank order, at their places.
at::Tensor assemble(const at::Tensor& values, const std::vector<Runs>& received, Range buffer) {
  const at::Tensor whole = at::empty({buffer.size()}, values.options());
  const int64_t bytes = values.element_size();
  const char* from = static_cast<const char*>(values.const_data_ptr());
  char* to = static_cast<char*>(whole.mutable_data_ptr());
  for (const Runs& runs : received) {
    for (size_t i = 0; i < runs.size(); i += 2) {
      std::memcpy(to + (runs[i] - buffer.begin) * bytes, from, runs[i + 1] * bytes);
      from += runs[i + 1] * bytes;
    }
  }
  return whole;
}

}  // namespace

void exchange_shards(const std::vector<Range>& pieces, const ReadPiece& read, int64_t numel,
                     const std::vector<at::ScalarType>& types, const comm::Group& group,
                     const std::function<void(int64_t begin, const std::vector<at::Tensor>&)>& take,
                     int64_t buffer_elements) {
  for (int64_t begin = 0; begin < numel; begin += buffer_elements * group.size()) {
    const Partition parts(std::min(buffer_elements * group.size(), numel - begin), group.size());
    std::vector<Runs> sent(group.size());
    std::vector<std::vector<at::Tensor>> values(types.size());
    for (int rank = 0; rank < group.size(); ++rank) {
      const Range buffer{begin + parts.range(rank).begin, begin + parts.range(rank).end};
      for (size_t piece = 0; piece < pieces.size(); ++piece) {
        const Range common = intersect(pieces[piece], buffer);
        if (common.empty()) continue;
        sent[rank].insert(sent[rank].end(), {common.begin, common.size()});
        const std::vector<at::Tensor> here = read(piece, common);
        for (size_t kind = 0; kind < types.size(); ++kind) values[kind].push_back(here[kind]);
      }
    }
    const std::vector<Runs> received = exchange_runs(sent, group);
    const std::vector<int64_t> send_counts = element_counts(sent);
    const std::vector<int64_t> receive_counts = element_counts(received);
    const Range mine = parts.range(group.rank());
    COLOSSAL_CHECK(
        std::accumulate(receive_counts.begin(), receive_counts.end(), int64_t{0}) == mine.size(),
        "pieces of {} elements, a buffer of {}", fmt::join(receive_counts, "+"), mine.size());
    std::vector<at::Tensor> buffers;
    for (size_t kind = 0; kind < types.size(); ++kind) {
      const at::Tensor send =
          values[kind].empty()
              ? at::empty({0}, at::TensorOptions(types[kind]).device(group.device()))
          : group.size() > 1 ? at::cat(values[kind]).to(group.device())
                             : at::cat(values[kind]);
      buffers.push_back(assemble(exchange(send, send_counts, receive_counts, group), received,
                                 {begin + mine.begin, begin + mine.end}));
    }
    if (!mine.empty()) take(begin + mine.begin, buffers);
  }
}

}  // namespace colossal::checkpoint
