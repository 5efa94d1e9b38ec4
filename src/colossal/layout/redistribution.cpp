#include "colossal/layout/redistribution.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>

#include "colossal/base/error.h"
#include "colossal/comm/law.h"

namespace colossal {
namespace {

using Step = RedistributionStep;
using Kind = RedistributionStep::Kind;

AxisSet without(const AxisSet& axes, const AxisSet& others) {
  AxisSet rest;
  std::set_difference(axes.begin(), axes.end(), others.begin(), others.end(),
                      std::back_inserter(rest));
  return rest;
}

// Returns the number of leading shards that two layouts of a dim have in common. Up to these
// shards, each rank has the same indices in both.
size_t num_common_shards(const Layout::Dim& a, const Layout::Dim& b) {
  if (a.segments != b.segments) return 0;
  const auto [end, other] =
      std::mismatch(a.shards.begin(), a.shards.end(), b.shards.begin(), b.shards.end());
  return end - a.shards.begin();
}

// Returns the axes along which a rank may lack elements that it needs.
AxisSet axes_of_exchange(const Layout& before, const Layout& after) {
  AxisSet axes;
  for (int dim = 0; dim < before.num_dims(); ++dim) {
    const auto& shards = before.dims()[dim].shards;
    for (size_t i = num_common_shards(before.dims()[dim], after.dims()[dim]); i < shards.size();
         ++i) {
      axes.push_back(shards[i].axis);
    }
  }
  std::sort(axes.begin(), axes.end());
  return axes;
}

int64_t num_common(const Layout& a, int rank_of_a, const Layout& b, int rank_of_b) {
  int64_t count = 1;
  for (int dim = 0; dim < a.num_dims() && count > 0; ++dim) {
    count *= num_common(a.held(rank_of_a, dim), b.held(rank_of_b, dim));
  }
  return count;
}

// Returns how many times the parts of `fine` along `axes` cover a rank's part of `coarse`; 0 if
// they do not cover it exactly, or not at every rank.
int64_t num_covers(const Layout& fine, const AxisSet& axes, const Layout& coarse) {
  const RankGrid& grid = fine.grid();
  int64_t covers = 1;
  for (int axis : without(axes, fine.sharded_axes())) covers *= grid.size(axis);
  for (int rank = 0; rank < grid.num_ranks(); ++rank) {
    int64_t elements = 0, common = 0;
    for (int peer : grid.ranks_along(rank, axes)) {
      elements += fine.local_numel(peer);
      common += num_common(fine, peer, coarse, rank);
    }
    // Parts of one layout are disjoint or equal, so equal counts prove an exact cover.
    if (elements != common || elements != covers * coarse.local_numel(rank)) return 0;
  }
  return covers;
}

// One step from a layout to another.
struct Move {
  Kind kind;
  AxisSet axes;
};

bool is_call(Kind kind) {
  return kind != Kind::slice && kind != Kind::spread;
}

// Returns how many elements all ranks send: the sum of the laws, from what each rank receives or
// gives up.
int64_t total_sent(const Move& move, const Layout& before, const Layout& after) {
  const RankGrid& grid = before.grid();
  int64_t size = 1;
  for (int axis : move.axes) size *= grid.size(axis);
  int64_t sum = 0;
  for (int rank = 0; rank < grid.num_ranks(); ++rank) {
    const int64_t had = before.local_numel(rank), has = after.local_numel(rank);
    switch (move.kind) {
      case Kind::slice:
      case Kind::spread:
        break;
      case Kind::all_gather:
        sum += has - had;
        break;
      case Kind::all_to_all:
        sum += has - num_common(before, rank, after, rank);
        break;
      case Kind::reduce_scatter:
        sum += had - has;
        break;
      case Kind::all_reduce:
        sum += 2 * (size - 1) * had;
        break;
    }
  }
  // In an all-reduce each of the `size` ranks counted all transfers.
  return move.kind == Kind::all_reduce ? sum / size : sum;
}

// Returns how many elements each rank sends, from the laws.
std::vector<int64_t> sent_by_ranks(const Move& move, const Layout& before, const Layout& after) {
  const RankGrid& grid = before.grid();
  std::vector<int64_t> sent(grid.num_ranks());
  if (!is_call(move.kind)) return sent;
  for (int rank = 0; rank < grid.num_ranks(); ++rank) {
    const std::vector<int> peers = grid.ranks_along(rank, move.axes);
    const int size = static_cast<int>(peers.size());
    const int place = static_cast<int>(std::find(peers.begin(), peers.end(), rank) - peers.begin());
    std::vector<int64_t> counts;
    const auto count_of_peers = [&](const auto& count) {
      for (int peer : peers) counts.push_back(count(peer));
    };
    switch (move.kind) {
      case Kind::slice:
      case Kind::spread:
        break;
      case Kind::all_gather:
        count_of_peers([&](int peer) { return before.local_numel(peer); });
        sent[rank] = comm::law::all_gather(counts, place, 1);
        break;
      case Kind::all_to_all:
        count_of_peers([&](int peer) { return num_common(before, rank, after, peer); });
        sent[rank] = comm::law::all_to_all(counts, place, 1);
        break;
      case Kind::reduce_scatter:
        count_of_peers([&](int peer) { return after.local_numel(peer); });
        sent[rank] = comm::law::reduce_scatter(counts, place, 1);
        break;
      case Kind::all_reduce:
        sent[rank] = comm::law::all_reduce(before.local_numel(rank), size, place, 1);
        break;
    }
  }
  return sent;
}

// Returns the single step from `before` to `after`, or nothing if more steps are necessary.
std::optional<Move> move_between(const Layout& before, const Layout& after) {
  const AxisSet summed = without(before.partial_axes(), after.partial_axes());
  const AxisSet spread = without(after.partial_axes(), before.partial_axes());
  if (!summed.empty()) {
    if (!spread.empty()) return std::nullopt;
    const int64_t covers = num_covers(after, summed, before);
    if (covers == 0) return std::nullopt;
    if (covers == 1) return Move{Kind::reduce_scatter, summed};
    if (without(summed, after.replicated_axes()).empty()) return Move{Kind::all_reduce, summed};
    return std::nullopt;
  }
  if (!spread.empty()) {
    if (num_covers(before, spread, after) == 0) return std::nullopt;
    return Move{Kind::spread, spread};
  }
  const Move exchange{Kind::all_to_all, axes_of_exchange(before, after)};
  if (total_sent(exchange, before, after) == 0) return Move{Kind::slice, {}};
  const AxisSet joined = without(before.sharded_axes(), after.sharded_axes());
  if (num_covers(before, joined, after) == 1) return Move{Kind::all_gather, joined};
  return exchange;
}

// Lists all possible intermediate layouts: every use of every axis, on every dim, in every order,
// with the segments of `to`. Uses zigzag and partial only for axes that are so in `from` or `to`.
class Between {
 public:
  Between(const Layout& from, const Layout& to) : from_(from), to_(to), dims_(to.dims()) {
    for (Layout::Dim& dim : dims_) dim.shards.clear();
  }

  std::vector<Layout> all() {
    add_axes_from(0);
    return std::move(found_);
  }

 private:
  // Tries all uses of `axis`, each with all uses of the axes after it.
  void add_axes_from(int axis) {
    if (axis == from_.grid().num_axes()) {
      found_.emplace_back(from_.grid(), dims_, partial_);
      return;
    }
    add_axes_from(axis + 1);
    if (from_.grid().size(axis) == 1) return;
    if (is_partial(from_, axis) || is_partial(to_, axis)) {
      partial_.push_back(axis);
      add_axes_from(axis + 1);
      partial_.pop_back();
    }
    for (Cut cut : {Cut::contiguous, Cut::zigzag}) {
      const Layout::Shard shard{axis, cut};
      if (cut == Cut::zigzag && !has(from_, shard) && !has(to_, shard)) continue;
      for (Layout::Dim& dim : dims_) {
        for (size_t place = 0; place <= dim.shards.size(); ++place) {
          const auto where = static_cast<std::ptrdiff_t>(place);
          dim.shards.insert(dim.shards.begin() + where, shard);
          add_axes_from(axis + 1);
          dim.shards.erase(dim.shards.begin() + where);
        }
      }
    }
  }

  static bool is_partial(const Layout& layout, int axis) {
    return without({axis}, layout.partial_axes()).empty();
  }
  static bool has(const Layout& layout, const Layout::Shard& shard) {
    return std::any_of(layout.dims().begin(), layout.dims().end(), [&](const Layout::Dim& dim) {
      return std::find(dim.shards.begin(), dim.shards.end(), shard) != dim.shards.end();
    });
  }

  const Layout& from_;
  const Layout& to_;
  std::vector<Layout::Dim> dims_;
  AxisSet partial_;
  std::vector<Layout> found_;
};

struct Cost {
  int64_t elements = std::numeric_limits<int64_t>::max();
  int calls = 0;
  int steps = 0;
  auto operator<=>(const Cost&) const = default;
};

struct Node {
  Layout layout;
  Cost cost = {};
  bool final = false;
  Move last = {};  // last step of the cheapest path to this node, from `before`
  Node* before = nullptr;
};

// Dijkstra's algorithm. Returns the node of `to`; its `before` pointers are the cheapest path.
const Node& search(std::vector<Node>& nodes, const Layout& from, const Layout& to) {
  for (Node& node : nodes) {
    if (node.layout == from) node.cost = {0, 0, 0};
  }
  while (true) {
    Node* next = nullptr;
    for (Node& node : nodes) {
      if (!node.final && (!next || node.cost < next->cost)) next = &node;
    }
    next->final = true;
    if (next->layout == to) return *next;
    for (Node& node : nodes) {
      if (node.final) continue;
      const std::optional<Move> move = move_between(next->layout, node.layout);
      if (!move) continue;
      const Cost cost{next->cost.elements + total_sent(*move, next->layout, node.layout),
                      next->cost.calls + (is_call(move->kind) ? 1 : 0), next->cost.steps + 1};
      if (cost >= node.cost) continue;
      node.cost = cost;
      node.last = *move;
      node.before = next;
    }
  }
}

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::slice:
      return "slice";
    case Kind::spread:
      return "spread";
    case Kind::all_gather:
      return "all_gather";
    case Kind::all_to_all:
      return "all_to_all";
    case Kind::reduce_scatter:
      return "reduce_scatter";
    case Kind::all_reduce:
      return "all_reduce";
  }
  return "?";
}

}  // namespace

RedistributionPlan::RedistributionPlan(const Layout& from, const Layout& to)
    : from_(from), to_(to) {
  COLOSSAL_CHECK(from.grid() == to.grid() && from.shape() == to.shape(),
                 "from {} of shape [{}] to {} of shape [{}]", describe(from),
                 fmt::join(from.shape(), ", "), describe(to), fmt::join(to.shape(), ", "));
  std::vector<Node> nodes;
  // Without partial sums a single step is best: every rank receives exactly what it lacks.
  const bool has_sums = !from.partial_axes().empty() || !to.partial_axes().empty();
  for (Layout& layout : has_sums ? Between(from, to).all() : std::vector{to}) {
    nodes.push_back({std::move(layout)});
  }
  if (std::none_of(nodes.begin(), nodes.end(),
                   [&](const Node& node) { return node.layout == from; })) {
    nodes.push_back({from});
  }
  for (const Node* node = &search(nodes, from, to); node->before; node = node->before) {
    const Layout& before = node->before->layout;
    steps_.push_back({node->last.kind, node->last.axes, node->layout,
                      sent_by_ranks(node->last, before, node->layout)});
  }
  std::reverse(steps_.begin(), steps_.end());
}

int RedistributionPlan::num_calls() const {
  return static_cast<int>(std::count_if(steps_.begin(), steps_.end(),
                                        [](const Step& step) { return is_call(step.kind); }));
}

int64_t RedistributionPlan::elements_sent(int rank) const {
  int64_t sum = 0;
  for (const Step& step : steps_) sum += step.elements_sent[rank];
  return sum;
}

int64_t RedistributionPlan::elements_sent() const {
  int64_t sum = 0;
  for (int rank = 0; rank < from_.grid().num_ranks(); ++rank) sum += elements_sent(rank);
  return sum;
}

std::string describe(const RedistributionPlan& plan) {
  std::vector<std::string> steps;
  for (const Step& step : plan.steps()) {
    const std::string axes = plan.from().grid().joined_name(step.axes);
    steps.push_back(axes.empty() ? name_of(step.kind)
                                 : fmt::format("{} over {}", name_of(step.kind), axes));
  }
  return steps.empty() ? "nothing" : fmt::format("{}", fmt::join(steps, ", "));
}

}  // namespace colossal
