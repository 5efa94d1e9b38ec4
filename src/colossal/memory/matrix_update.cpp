#include "colossal/memory/matrix_update.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/memory/memory_ledger.h"

namespace colossal::memory {
namespace {

// Elements of a round on each rank: they bound the memory that the exchange takes.
constexpr int64_t kRoundElements = int64_t{4} << 20;

Range local_range(const Chunk& chunk, size_t slot, Range in_chunk) {
  const int64_t offset = chunk.plan.slots[slot].offset;
  const Range here = intersect(chunk.range_of(slot), in_chunk);
  return {here.begin - offset, here.end - offset};
}

nlohmann::json to_json(const Range& range) {
  return {range.begin, range.end};
}

Range range_of(const nlohmann::json& json) {
  return {json[0].get<int64_t>(), json[1].get<int64_t>()};
}

// Returns the parts of `range` that are not in `taken`.
std::vector<Range> minus(Range range, Range taken) {
  std::vector<Range> left;
  const Range common = intersect(range, taken);
  if (common.empty()) {
    if (!range.empty()) left.push_back(range);
    return left;
  }
  if (range.begin < common.begin) left.push_back({range.begin, common.begin});
  if (common.end < range.end) left.push_back({common.end, range.end});
  return left;
}

// Puts a block's elements into the matrix, or takes them from it. Rows are those of all matrices of
// the tensor: `first_row` and `first_column` are those of this matrix.
void put(const at::Tensor& matrix, const MatrixBlock& block, const at::Tensor& values,
         int64_t first_row, int64_t first_column) {
  const at::Tensor rows = block.rows.sub(first_row), columns = block.columns.sub(first_column);
  const at::Tensor place = matrix.index_select(0, rows);
  matrix.index_copy_(0, rows,
                     place.index_copy_(1, columns, values.view({rows.numel(), columns.numel()})));
}

at::Tensor take(const at::Tensor& matrix, const MatrixBlock& block, int64_t first_row,
                int64_t first_column) {
  return matrix.index_select(0, block.rows.sub(first_row))
      .index_select(1, block.columns.sub(first_column))
      .reshape(-1);
}

bool is_transposed(const nn::Parameter& parameter) {
  return parameter.product == nn::WeightOrder::in_out;
}

}  // namespace

// One all-to-all. A rank takes what it receives from another in the order in which that one sent
// it.
class MatrixExchange {
 public:
  MatrixExchange(const comm::Group& group, const at::TensorOptions& options)
      : group_(group),
        options_(options),
        sent_(group.size()),
        send_counts_(group.size(), 0),
        receive_counts_(group.size(), 0),
        taken_(group.size(), 0) {}

  void send(int rank, const at::Tensor& values) {
    sent_[rank].push_back(values);
    send_counts_[rank] += values.numel();
  }
  // Announces that the rank sends `count` elements more.
  void expect(int rank, int64_t count) { receive_counts_[rank] += count; }

  void run() {
    std::vector<at::Tensor> values{at::empty({0}, options_)};
    for (const auto& to_rank : sent_) values.insert(values.end(), to_rank.begin(), to_rank.end());
    const int64_t received =
        std::accumulate(receive_counts_.begin(), receive_counts_.end(), int64_t{0});
    const at::Tensor all = at::empty({received}, options_);
    comm::all_to_all(at::cat(values), send_counts_, all, receive_counts_, group_,
                     comm::Reason::optimizer);
    sent_.clear();
    received_ = all.split_with_sizes(receive_counts_);
  }

  // Returns the next `count` elements from the rank.
  at::Tensor next(int rank, int64_t count) {
    const at::Tensor values = received_[rank].narrow(0, taken_[rank], count);
    taken_[rank] += count;
    return values;
  }

 private:
  const comm::Group& group_;
  at::TensorOptions options_;
  std::vector<std::vector<at::Tensor>> sent_;  // by rank
  std::vector<int64_t> send_counts_, receive_counts_, taken_;
  std::vector<at::Tensor> received_;
};

MatrixUpdates::MatrixUpdates(std::vector<Chunk*> chunks, const ParallelContext& context,
                             at::ScalarType master)
    : chunks_(std::move(chunks)), context_(context), group_(context.stage_group()), type_(master) {
  for (Chunk* chunk : chunks_) {
    for (size_t slot = 0; slot < chunk->slots.size(); ++slot)
      parameters_.push_back({chunk, slot, {}});
  }
  context_.device().is_meta() ? assume_parts() : gather_parts();
  assign_owners();
  make_states();
}

void MatrixUpdates::gather_parts() {
  nlohmann::json mine = nlohmann::json::array();
  for (const Divided& divided : parameters_) {
    const Chunk& chunk = *divided.chunk;
    const nn::Placement& placement = chunk.plan.slots[divided.slot].parameter->placement;
    nlohmann::json held = nlohmann::json::array();
    for (const std::vector<Range>& dim : placement.held) {
      nlohmann::json& ranges = held.emplace_back(nlohmann::json::array());
      for (const Range& range : dim) ranges.push_back(to_json(range));
    }
    const bool counts = chunk.plan.placement.replica == 0;
    const Range counted = counts ? local_range(chunk, divided.slot, chunk.part) : Range();
    mine.push_back({held, to_json(counted), to_json(local_range(chunk, divided.slot, chunk.held))});
  }
  struct Held {
    int number;
    std::shared_ptr<const BlockIndex> index;
  };
  std::map<std::string, Held> all_held;  // by shape and ranges
  const MemoryKindScope scope(MemoryKind::optimizer);
  for (const std::string& text : comm::gather_bytes(mine.dump(), group_, comm::Reason::control)) {
    const nlohmann::json of_rank = nlohmann::json::parse(text);
    COLOSSAL_CHECK(of_rank.size() == parameters_.size(), "{} parameters here, {} on another rank",
                   parameters_.size(), of_rank.size());
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const std::vector<int64_t>& shape =
          parameters_[i].chunk->plan.slots[parameters_[i].slot].parameter->shape;
      Held& held = all_held[nlohmann::json(shape).dump() + of_rank[i][0].dump()];
      if (!held.index) {
        std::vector<std::vector<Range>> ranges;
        for (const nlohmann::json& dim : of_rank[i][0]) {
          std::vector<Range>& of_dim = ranges.emplace_back();
          for (const nlohmann::json& range : dim) of_dim.push_back(range_of(range));
        }
        held.number = static_cast<int>(all_held.size());
        held.index = std::make_shared<BlockIndex>(shape, ranges, context_.device());
      }
      parameters_[i].ranks.push_back(
          {held.index, held.number, range_of(of_rank[i][1]), range_of(of_rank[i][2])});
    }
  }
}

// For a dry run, where no rank tells what it has. Ranks that share the parameter have the other
// shards of the chunk; all others have other elements, divided like those of this rank.
void MatrixUpdates::assume_parts() {
  for (Divided& divided : parameters_) {
    const Chunk& chunk = *divided.chunk;
    const nn::Parameter& parameter = *chunk.plan.slots[divided.slot].parameter;
    const auto index =
        std::make_shared<BlockIndex>(parameter.shape, parameter.placement.held, context_.device());
    const comm::Group* reduction = chunk.plan.placement.reduction;
    const comm::Group& sharing = reduction ? *reduction : context_.data_group();
    const int shards = chunk.ranks.shards.size();
    const int stride = std::max(1, group_.size() / sharing.size());
    for (int rank = 0; rank < group_.size(); ++rank) {
      const auto& ranks = sharing.ranks();
      const auto found = std::ranges::find(ranks, group_.ranks()[rank]);
      const bool shares = found != ranks.end();
      const auto place =
          static_cast<int>(shares ? found - ranks.begin() : rank / stride % sharing.size());
      const Range shard = chunk.partition.range(place % shards);
      const bool all = chunk.held.size() == chunk.numel();
      const Partition parts(shard.size(), chunk.ranks.replicas.size(),
                            alignment_elements(chunk.plan.element_bytes()));
      const Range part = parts.range(place / shards % chunk.ranks.replicas.size());
      divided.ranks.push_back(
          {index, shares ? 0 : 1 + rank % stride,
           local_range(chunk, divided.slot, {shard.begin + part.begin, shard.begin + part.end}),
           local_range(chunk, divided.slot, all ? Range{0, chunk.numel()} : shard)});
    }
  }
}

void MatrixUpdates::assign_owners() {
  std::vector<double> work(group_.size(), 0);
  int64_t in_round = 0;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Divided& divided = parameters_[i];
    const nn::Parameter& parameter = *divided.chunk->plan.slots[divided.slot].parameter;
    const optim::MatrixShape shape = optim::matrix_shape(parameter.shape);
    for (int64_t index = 0; index < shape.matrices; ++index) {
      Matrix matrix{i, index, shape.rows, shape.columns, 0, 0, {}};
      std::vector<int64_t> sizes;
      for (int rank = 0; rank < group_.size(); ++rank) {
        sizes.push_back(updated_by(matrix, rank).size());
      }
      // Ranges are aligned to 64 bytes, so that equal shares differ a little.
      const int64_t most = std::ranges::max(sizes);
      for (int rank = 1; rank < group_.size(); ++rank) {
        const bool has_less = sizes[matrix.owner] * 10 < most * 9;
        if (sizes[rank] * 10 >= most * 9 && (has_less || work[rank] < work[matrix.owner])) {
          matrix.owner = rank;
        }
      }
      work[matrix.owner] += static_cast<double>(shape.rows) * static_cast<double>(shape.columns) *
                            static_cast<double>(std::min(shape.rows, shape.columns));
      const int64_t numel = shape.rows * shape.columns;
      if (in_round > 0 && in_round + numel > kRoundElements * group_.size()) {
        ++rounds_;
        in_round = 0;
      }
      in_round += numel;
      matrix.round = rounds_;
      matrices_.push_back(std::move(matrix));
    }
  }
  if (!matrices_.empty()) ++rounds_;
}

const nn::Parameter& MatrixUpdates::parameter_of(const Matrix& matrix) const {
  const Divided& divided = parameters_[matrix.parameter];
  return *divided.chunk->plan.slots[divided.slot].parameter;
}

// An owner gets the matrices as [outputs, inputs].
void MatrixUpdates::make_states() {
  const MemoryKindScope scope(MemoryKind::optimizer);
  for (Matrix& matrix : matrices_) {
    if (matrix.owner != group_.rank()) continue;
    optim::MatrixShape shape{1, matrix.rows, matrix.columns};
    if (is_transposed(parameter_of(matrix))) std::swap(shape.rows, shape.columns);
    const optim::Optimizer& optimizer = *parameters_[matrix.parameter].chunk->plan.optimizer;
    for (const optim::WholeState& state : optimizer.whole_states(shape)) {
      matrix.whole.push_back(
          at::zeros(state.shape, at::TensorOptions().dtype(type_).device(context_.device())));
    }
  }
}

std::vector<MatrixUpdates::OwnedStates> MatrixUpdates::whole_states(
    const nn::Parameter& parameter) const {
  std::vector<OwnedStates> states;
  for (const Matrix& matrix : matrices_) {
    if (&parameter_of(matrix) != &parameter || matrix.whole.empty()) continue;
    states.push_back({matrix.index, matrix.whole});
  }
  return states;
}

int64_t MatrixUpdates::whole_state_bytes() const {
  int64_t bytes = 0;
  for (const Matrix& matrix : matrices_) {
    for (const at::Tensor& whole : matrix.whole) bytes += static_cast<int64_t>(whole.nbytes());
  }
  return bytes;
}

std::vector<Range> MatrixUpdates::sent_to_owner(const Matrix& matrix, int rank) const {
  const std::vector<RankPart>& ranks = parameters_[matrix.parameter].ranks;
  const RankPart& sender = ranks[rank];
  const RankPart& owner = ranks[matrix.owner];
  if (rank == matrix.owner) return minus(updated_by(matrix, rank), {});
  const Range counted = intersect(sender.counted, sender.index->elements_of_matrix(matrix.index));
  // Ranks hold either the same elements of a tensor or disjoint ones.
  return minus(counted, sender.holding == owner.holding ? owner.updated : Range());
}

Range MatrixUpdates::updated_by(const Matrix& matrix, int rank) const {
  const RankPart& part = parameters_[matrix.parameter].ranks[rank];
  return intersect(part.updated, part.index->elements_of_matrix(matrix.index));
}

at::Tensor MatrixUpdates::gradients(const Divided& parameter, Range elements) const {
  const int64_t offset = parameter.chunk->plan.slots[parameter.slot].offset;
  return parameter.chunk->gradients()
      .read({offset + elements.begin, offset + elements.end})
      .to(context_.device(), type_);
}

void MatrixUpdates::write(const Divided& parameter, int64_t begin, const at::Tensor& values) const {
  const int64_t offset = parameter.chunk->plan.slots[parameter.slot].offset;
  parameter.chunk->gradients().write(offset + begin, values);
}

at::Tensor MatrixUpdates::gathered(const Matrix& matrix, MatrixExchange& to_owners) const {
  const Divided& divided = parameters_[matrix.parameter];
  const auto options = at::TensorOptions().dtype(type_).device(context_.device());
  const at::Tensor whole = at::zeros({matrix.rows, matrix.columns}, options);
  for (int rank = 0; rank < group_.size(); ++rank) {
    for (const Range& range : sent_to_owner(matrix, rank)) {
      const at::Tensor values =
          rank == matrix.owner ? gradients(divided, range) : to_owners.next(rank, range.size());
      for (const MatrixBlock& block : divided.ranks[rank].index->blocks(range)) {
        put(whole, block,
            values.narrow(0, block.elements.begin - range.begin, block.elements.size()),
            matrix.index * matrix.rows, matrix.index * matrix.columns);
      }
    }
  }
  return whole;
}

void MatrixUpdates::return_direction(const Matrix& matrix, const at::Tensor& direction,
                                     MatrixExchange& from_owners) const {
  const Divided& divided = parameters_[matrix.parameter];
  for (int rank = 0; rank < group_.size(); ++rank) {
    for (const MatrixBlock& block : divided.ranks[rank].index->blocks(updated_by(matrix, rank))) {
      const at::Tensor values =
          take(direction, block, matrix.index * matrix.rows, matrix.index * matrix.columns);
      if (rank == matrix.owner) {
        write(divided, block.elements.begin, values);
      } else {
        from_owners.send(rank, values);
      }
    }
  }
}

void MatrixUpdates::run_round(int round, const ScalarsOf& scalars_of) {
  const int here = group_.rank();
  const auto options = at::TensorOptions().dtype(type_).device(context_.device());
  std::vector<const Matrix*> owned, others;
  for (const Matrix& matrix : matrices_) {
    if (matrix.round != round || !scalars_of(parameter_of(matrix))) continue;
    (matrix.owner == here ? owned : others).push_back(&matrix);
  }
  MatrixExchange to_owners(group_, options), from_owners(group_, options);
  for (const Matrix* matrix : owned) {
    for (int rank = 0; rank < group_.size(); ++rank) {
      if (rank == here) continue;
      for (const Range& range : sent_to_owner(*matrix, rank)) to_owners.expect(rank, range.size());
    }
  }
  for (const Matrix* matrix : others) {
    for (const Range& range : sent_to_owner(*matrix, here)) {
      to_owners.send(matrix->owner, gradients(parameters_[matrix->parameter], range));
    }
    from_owners.expect(matrix->owner, updated_by(*matrix, here).size());
  }
  to_owners.run();
  for (const Matrix* matrix : owned) {
    const nn::Parameter& parameter = parameter_of(*matrix);
    const optim::Optimizer& optimizer = *parameters_[matrix->parameter].chunk->plan.optimizer;
    const auto oriented = [&](const at::Tensor& tensor) {
      return is_transposed(parameter) ? tensor.t() : tensor;
    };
    const at::Tensor direction = optimizer.as_matrix_optimizer()->transform(
        oriented(gathered(*matrix, to_owners)), matrix->whole, *scalars_of(parameter));
    return_direction(*matrix, oriented(direction), from_owners);
  }
  from_owners.run();
  for (const Matrix* matrix : others) {
    const Range updated = updated_by(*matrix, here);
    if (updated.empty()) continue;
    write(parameters_[matrix->parameter], updated.begin,
          from_owners.next(matrix->owner, updated.size()));
  }
}

void MatrixUpdates::transform(const ScalarsOf& scalars_of) {
  const at::NoGradGuard no_grad;
  run_passes(chunks_, UpdatePhase::prepare, [&](Chunk& chunk, TieredUpdate& span) {
    span.run([&](size_t slot) { return scalars_of(*chunk.plan.slots[slot].parameter); },
             /*merges_slots=*/true,
             [&](const optim::Piece& piece, const optim::UpdateScalars& scalars, size_t, int64_t) {
               chunk.plan.optimizer->as_matrix_optimizer()->prepare(piece, scalars);
             });
  });
  for (int round = 0; round < rounds_; ++round) run_round(round, scalars_of);
}

}  // namespace colossal::memory
