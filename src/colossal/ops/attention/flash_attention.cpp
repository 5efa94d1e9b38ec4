#include "colossal/ops/attention/flash_attention.h"

#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <numbers>
#include <vector>

#include "colossal/ops/attention/flash_formats.h"
#include "colossal/ops/attention/flash_positions.h"
#include "colossal/ops/parallel_for.h"

namespace colossal::ops {
namespace {

using namespace flash;
using kernels::AttentionBf16Operands;
using kernels::AttentionBlock;
using kernels::AttentionSums;

constexpr int64_t kRows = 128;  // maximum number of queries in a block

// Prefetches numbers to which a product will add. With a long sequence they are not in the core's
// cache, and the product would not read them before its own sums are complete.
template <typename Real>
void fetch_ahead(const Real* numbers, int64_t count) {
  constexpr int64_t kLine = kAlignment / sizeof(Real);
  for (int64_t i = 0; i < count; i += kLine) __builtin_prefetch(numbers + i, 1, 2);
}

template <typename Format>
class Flash {
 public:
  using Real = typename Format::Sum;
  using Element = typename Format::Element;

  explicit Flash(const FlashAttention& given)
      : given_(given),
        rule_(given.rule),
        format_(given),
        dropout_(dropout_rule(given.rule.dropout)),
        query_runs_(runs_of(given.part.query_positions)),
        key_runs_(runs_of(given.part.key_positions)),
        key_blocks_(blocks_of(key_runs_)),
        documents_(given.part, kRealType),
        kv_heads_(given.part.key.size(1)),
        group_(given.part.query.size(1) / kv_heads_),
        keys_(given.part.key.size(2)),
        head_size_(given.part.query.size(3)),
        value_size_(given.part.value.size(3)),
        rows_(std::min(kRows, round_up(given.part.query.size(2), kLanes))),
        stride_(stride_for<Real>(rows_)) {
    for (const PositionRun& run : key_runs_) {
      end_of_keys_ = std::max(end_of_keys_, run.positions.end);
    }
    const at::Tensor& sinks = given.part.sinks;
    if (sinks.defined() && !sinks.is_meta()) sinks_ = sinks.to(kRealType).contiguous();
    if (given.part.relative_bias.defined()) spread_bias();
  }

  void forward(const AttentionResult& result) const;
  void backward(const AttentionResult& result, const at::Tensor& output_gradient,
                const AttentionGradients& gradients) const;
  at::Tensor forward_scratch() const { return make_scratch<Forward>(); }
  at::Tensor backward_scratch() const { return make_scratch<Backward>(); }
  at::Tensor bias_gradient_scratch() const;

 private:
  static constexpr at::ScalarType kRealType = c10::CppTypeToScalarType<Real>::value;

  // Sets bias_: the relative bias of each difference of positions in this problem.
  void spread_bias();
  // Adds the gradients of bias_, [samples, heads, differences], to `sums`, a gradient of
  // AttentionPart::relative_bias.
  void add_bias_gradients(const at::Tensor& of_samples, const at::Tensor& sums) const;

  // A block of queries of one head. Each query is one lane; pointers are to one element per lane.
  struct QueryBlock {
    int64_t sample, head, begin, rows;
    Range positions;  // in the sequence
    int64_t prefix;   // all queries see the keys at positions below it
    // Positions of the keys that at least one query sees or all queries see, without the prefix.
    Range seen_by_any, seen_by_all;
    Real* lane_positions;
    Real* limits;  // a lane sees no keys at positions from its limit on
    Real* documents;
    RandomRow* random_rows;
    uint32_t* kept;

    QueryBlock(Scratch& scratch, const Flash& flash)
        : lane_positions(scratch.take<Real>(flash.stride_)),
          limits(scratch.take<Real>(flash.stride_)),
          documents(flash.documents_.keys.defined() ? scratch.take<Real>(flash.stride_) : nullptr),
          random_rows(flash.rule_.dropout > 0 ? scratch.take<RandomRow>(flash.rows_) : nullptr),
          kept(flash.rule_.dropout > 0 ? scratch.take<uint32_t>(kKeys / 32 * flash.stride_)
                                       : nullptr) {}

    int64_t lanes() const { return round_up(rows, kLanes); }
    int64_t end_of_seen() const { return std::max(seen_by_any.end, prefix); }
    bool sees_any(const Range& keys) const {
      return keys.begin < prefix || !intersect(keys, seen_by_any).empty();
    }
  };

  // The keys in rows [row, row + count), within block `index` of key_blocks_, and the lanes [first,
  // first + lanes) of a block of queries that may see these keys.
  struct KeyBlock {
    int64_t row, index, position, count, first, lanes;
    bool masked;    // limits or documents may hide keys from lanes
    bool windowed;  // some keys are before the window of some queries
  };

  struct Forward {
    typename Format::Keys keys, values;
    typename Format::Queries queries;
    QueryBlock block;
    Real* scores;
    uint32_t* pairs;
    AttentionSums sums;
    int64_t row_stride;
    Real* rows;  // the outputs, one row per query

    Forward(Scratch& scratch, const Flash& flash)
        : keys(scratch, flash.given_.part.key, flash.key_blocks_, true, false),
          values(scratch, flash.given_.part.value, flash.key_blocks_, false, true),
          queries(scratch, flash.rows_, flash.head_size_, flash.stride_, false),
          block(scratch, flash),
          scores(scratch.take<Real>(kKeys * flash.stride_)),
          pairs(Format::kPair == 2 ? scratch.take<uint32_t>(kKeys / 2 * flash.stride_) : nullptr),
          sums{scratch.take<Real>(flash.stride_), scratch.take<Real>(flash.stride_),
               scratch.take<Real>(flash.value_size_ * flash.stride_), flash.value_size_},
          row_stride(round_up(flash.value_size_, kLanes)),
          rows(scratch.take<Real>(flash.rows_ * row_stride)) {}
  };

  struct Backward {
    typename Format::Keys keys, values;
    typename Format::Queries queries, output_gradients;
    QueryBlock block;
    Real* scores;
    Real* score_gradients;
    AttentionBf16Operands halves;
    Real* logsumexps;
    Real* deltas;
    Real* query_gradients;  // transposed
    Real* rows;             // the same, one row per query
    int64_t key_stride, value_stride;
    Real* key_gradients;
    Real* value_gradients;

    Backward(Scratch& scratch, const Flash& flash)
        : keys(scratch, flash.given_.part.key, flash.key_blocks_, true, true),
          values(scratch, flash.given_.part.value, flash.key_blocks_, true, false),
          queries(scratch, flash.rows_, flash.head_size_, flash.stride_, true),
          output_gradients(scratch, flash.rows_, flash.value_size_, flash.stride_, true),
          block(scratch, flash),
          scores(scratch.take<Real>(kKeys * flash.stride_)),
          score_gradients(scratch.take<Real>(kKeys * flash.stride_)),
          halves{},
          logsumexps(scratch.take<Real>(flash.stride_)),
          deltas(scratch.take<Real>(flash.stride_)),
          query_gradients(scratch.take<Real>(flash.head_size_ * flash.stride_)),
          rows(scratch.take<Real>(flash.rows_ * flash.head_size_)),
          key_stride(stride_for<Real>(flash.head_size_)),
          value_stride(stride_for<Real>(flash.value_size_)),
          key_gradients(scratch.take<Real>(flash.keys_ * key_stride)),
          value_gradients(scratch.take<Real>(flash.keys_ * value_stride)) {
      if constexpr (Format::kPair == 2) {
        halves = {scratch.take<uint16_t>(kKeys * flash.stride_),
                  scratch.take<uint16_t>(kKeys * flash.stride_),
                  scratch.take<uint32_t>(kKeys / 2 * flash.stride_)};
      }
    }
  };

  // Allocates the buffers of all threads: [threads, bytes].
  template <typename Buffers>
  at::Tensor make_scratch() const;

  // Calls run(sample, kv_head, buffers) for each key head of each sample, on several threads. The
  // calling thread allocates the buffers.
  template <typename Buffers, typename Run>
  void for_each_key_head(const Run& run) const;

  // Calls run() for each block of queries of the query heads that share a key head. Describes the
  // block in `block` before each call. Skips blocks for which adds_nothing() is true.
  template <typename Run>
  void for_each_query_block(int64_t sample, int64_t kv_head, QueryBlock& block,
                            const Run& run) const;

  // Calls run(keys) for each block of keys that a block of queries sees.
  template <typename Run>
  void for_each_key_block(const QueryBlock& block, const Run& run) const;

  // Fills the arrays of `block`: positions, limits, documents and random rows of the lanes.
  void fill_lanes(const QueryBlock& block) const;
  // Initializes the running softmax: with nothing, with the sink, or with the result of earlier
  // keys.
  void begin_sums(const QueryBlock& block, const AttentionResult& result, Forward& buffers) const;
  void forward_block(const QueryBlock& block, Forward& buffers) const;
  void backward_block(const QueryBlock& block, Backward& buffers, Real* bias_gradients) const;

  // Operands of the products that give gradients. probabilities, gradients: of scores, as left
  // operands. right_gradients: `gradients` as a right operand.
  struct GradientOperands {
    const Element* probabilities;
    const Element* gradients;
    const Element* right_gradients;
  };
  GradientOperands compute_gradients(const AttentionBlock& described, int64_t first,
                                     Backward& buffers) const;

  // Returns the first block of keys in [position, end) that `block` sees; its count is 0 if there
  // is none. [position, end): positions in one run. Does not set row and index, and ignores
  // documents.
  KeyBlock next_keys(const QueryBlock& block, int64_t position, int64_t end) const;
  // Returns where the bias of the first lane and the first key of a block is in a row of bias_.
  int64_t bias_place(const QueryBlock& block, const KeyBlock& keys) const {
    return block.positions.begin + keys.first - keys.position - first_difference_;
  }
  // Returns the argument of the passes. Draws the dropout bits, and caps the scores.
  // bias_gradients: [heads, differences], of the block's sample; null in the forward pass, and
  // without a relative bias.
  AttentionBlock prepare(const QueryBlock& block, const KeyBlock& keys, Real* scores,
                         Real* bias_gradients = nullptr) const;

  const Real* query_documents(int64_t sample, int64_t row) const {
    const at::Tensor& all = documents_.queries;
    return all.defined() ? all.const_data_ptr<Real>() + sample * all.size(1) + row : nullptr;
  }
  const Real* key_documents(int64_t sample, int64_t row) const {
    const at::Tensor& all = documents_.keys;
    return all.defined() ? all.const_data_ptr<Real>() + sample * all.size(1) + row : nullptr;
  }

  static Real& logsumexp_at(const at::Tensor& logsumexp, const QueryBlock& block, int64_t row) {
    return logsumexp.mutable_data_ptr<Real>()[block.sample * logsumexp.stride(0) +
                                              block.head * logsumexp.stride(1) +
                                              (block.begin + row) * logsumexp.stride(2)];
  }

  // Returns whether the result of earlier keys stays as it is, because `block` sees none of these
  // keys.
  bool adds_nothing(const QueryBlock& block) const {
    return given_.accumulate && std::ranges::none_of(key_runs_, [&](const PositionRun& run) {
             return block.sees_any(run.positions);
           });
  }

  const FlashAttention& given_;
  const AttentionRule& rule_;
  Format format_;
  kernels::DropoutRule dropout_;
  std::vector<PositionRun> query_runs_, key_runs_;
  std::vector<KeyRows> key_blocks_;
  int64_t end_of_keys_ = 0;      // the position after the last key
  NumberedDocuments documents_;  // of type Real
  at::Tensor sinks_;             // of type Real; undefined: none
  // [heads, differences]: the relative bias times log2(e). Element i of a row is for the position
  // of the query minus that of the key first_difference_ + i. Undefined: none.
  at::Tensor bias_;
  at::Tensor bias_columns_;  // [differences] int64: the columns of AttentionPart::relative_bias
  int64_t first_difference_ = 0;
  int64_t kv_heads_, group_, keys_, head_size_, value_size_;
  int64_t rows_;    // maximum number of queries in a block
  int64_t stride_;  // row stride of arrays [keys, lanes], in elements
};

template <typename Format>
template <typename Buffers>
at::Tensor Flash<Format>::make_scratch() const {
  Scratch counted(nullptr);
  { const Buffers sizes(counted, *this); }
  const int64_t pieces = given_.part.query.size(0) * kv_heads_;
  const int64_t threads = std::min<int64_t>(at::get_num_threads(), pieces);
  return at::empty({threads, counted.used() + kAlignment},
                   given_.part.query.options().dtype(at::kByte));
}

template <typename Format>
template <typename Buffers, typename Run>
void Flash<Format>::for_each_key_head(const Run& run) const {
  const at::Tensor memory = make_scratch<Buffers>();
  const int64_t pieces = given_.part.query.size(0) * kv_heads_;
  const int64_t threads = memory.size(0);
  const int64_t share = at::divup(pieces, threads);
  parallel_for(0, threads, 1, [&](int64_t first, int64_t last) {
    for (int64_t thread = first; thread < last; ++thread) {
      auto place = reinterpret_cast<uintptr_t>(memory.mutable_data_ptr()) +
                   static_cast<uintptr_t>(thread * memory.size(1));
      place = (place + kAlignment - 1) / kAlignment * kAlignment;
      Scratch scratch(reinterpret_cast<char*>(place));
      Buffers buffers(scratch, *this);
      const int64_t end = std::min(pieces, (thread + 1) * share);
      for (int64_t piece = thread * share; piece < end; ++piece) {
        run(piece / kv_heads_, piece % kv_heads_, buffers);
      }
    }
    format_.release();
  });
}

template <typename Format>
template <typename Run>
void Flash<Format>::for_each_query_block(int64_t sample, int64_t kv_head, QueryBlock& block,
                                         const Run& run) const {
  block.sample = sample;
  block.prefix = rule_.prefix_length(sample);
  for (block.head = kv_head * group_; block.head < (kv_head + 1) * group_; ++block.head) {
    for (const PositionRun& queries : query_runs_) {
      for (int64_t begin = 0; begin < queries.positions.size(); begin += kRows) {
        block.begin = queries.row + begin;
        block.rows = std::min(kRows, queries.positions.size() - begin);
        const int64_t position = queries.positions.begin + begin;
        block.positions = {position, position + block.rows};
        block.seen_by_any = rule_.seen_by_any(block.positions);
        block.seen_by_all = rule_.seen_by_all(block.positions);
        if (adds_nothing(block)) continue;
        fill_lanes(block);
        run();
      }
    }
  }
}

template <typename Format>
void Flash<Format>::fill_lanes(const QueryBlock& block) const {
  const RandomKey key = random_subkey(rule_.random_key, rule_.head_begin + block.head);
  for (int64_t i = 0; i < block.lanes(); ++i) {
    const int64_t row = std::min(i, block.rows - 1);
    const int64_t position = block.positions.begin + row;
    const int64_t limit = std::min(block.seen_by_all.end + row, end_of_keys_);
    block.lane_positions[i] = static_cast<Real>(position);
    block.limits[i] = static_cast<Real>(std::max(limit, block.prefix));
    if (block.documents) block.documents[i] = *query_documents(block.sample, block.begin + row);
    if (block.random_rows) {
      block.random_rows[i] = random_row(key, static_cast<uint64_t>(rule_.sample_ids[block.sample]),
                                        static_cast<uint32_t>(position));
    }
  }
}

template <typename Format>
auto Flash<Format>::next_keys(const QueryBlock& block, int64_t position, int64_t end) const
    -> KeyBlock {
  const Range& any = block.seen_by_any;
  const Range& all = block.seen_by_all;
  KeyBlock keys{.position = position};
  if (position >= block.prefix && position < any.begin) {
    keys.position = std::max(position, any.begin / Format::kDiagonalKeys * Format::kDiagonalKeys);
  }
  if (keys.position >= std::min(end, block.end_of_seen())) return keys;
  const bool in_prefix = keys.position < block.prefix;
  const bool at_end = keys.position + kKeys > all.end && all.end < any.end;
  const bool at_begin = keys.position < all.begin && !in_prefix;
  keys.count = keys_from(keys.position, std::min(end, block.end_of_seen()),
                         at_end || at_begin ? Format::kDiagonalKeys : kKeys);
  const int64_t last = keys.position + keys.count - 1;
  keys.masked = last >= std::max(all.end, block.prefix);
  keys.windowed = keys.position < all.begin && last >= block.prefix;
  keys.lanes = block.lanes();
  if (in_prefix) return keys;
  // Limits and windows move on by one position per lane. The first lanes see none of these keys if
  // their limits are not beyond the first key; the last lanes, if their windows begin after the
  // last key.
  keys.first = std::max<int64_t>(0, keys.position - all.end + 1) / kLanes * kLanes;
  const int64_t lanes_end = std::clamp<int64_t>(last - any.begin + 1, 0, block.lanes());
  keys.lanes = round_up(lanes_end, kLanes) - keys.first;
  return keys;
}

template <typename Format>
template <typename Run>
void Flash<Format>::for_each_key_block(const QueryBlock& block, const Run& run) const {
  // Index in key_blocks_ of the block with position 0, if the run's blocks began there.
  int64_t index = 0;
  for (const PositionRun& of_run : key_runs_) {
    index -= of_run.positions.begin / kKeys;
    KeyBlock keys = next_keys(block, of_run.positions.begin, of_run.positions.end);
    for (; keys.count > 0;
         keys = next_keys(block, keys.position + keys.count, of_run.positions.end)) {
      if (keys.lanes <= 0) continue;
      keys.index = index + keys.position / kKeys;
      keys.row = of_run.row + keys.position - of_run.positions.begin;
      if (block.documents) {
        const Bounds<Real> of_keys(key_documents(block.sample, keys.row), keys.count);
        const Bounds<Real> of_queries(block.documents + keys.first, keys.lanes);
        if (!of_keys.meets(of_queries)) continue;
        keys.masked |= !of_keys.is_one() || !of_queries.is_one();
      }
      run(keys);
    }
    index += at::divup(of_run.positions.end, kKeys);
  }
}

// Lanes beyond a block's queries count on: they need elements after the last query's.
template <typename Format>
void Flash<Format>::spread_bias() {
  int64_t begin_of_keys = std::numeric_limits<int64_t>::max(), first = begin_of_keys, last = 0;
  for (const PositionRun& run : key_runs_) {
    begin_of_keys = std::min(begin_of_keys, run.positions.begin);
  }
  for (const PositionRun& run : query_runs_) {
    first = std::min(first, run.positions.begin);
    last = std::max(last, run.positions.end - 1);
  }
  const at::Tensor& bias = given_.part.relative_bias;
  const int64_t most = bias.size(1) / 2;
  first_difference_ = first - (end_of_keys_ - 1);
  const int64_t end = last + kLanes - begin_of_keys + 1;
  bias_columns_ = at::arange(first_difference_, end, bias.options().dtype(at::kLong))
                      .neg()
                      .clamp(-most, most)
                      .add(most);
  bias_ = bias.to(kRealType).index_select(1, bias_columns_).mul_(std::numbers::log2e);
}

// Returns zeros, [samples, heads, differences], for the gradients of bias_; undefined without a
// relative bias.
template <typename Format>
at::Tensor Flash<Format>::bias_gradient_scratch() const {
  if (!bias_.defined()) return {};
  return at::zeros({given_.part.query.size(0), bias_.size(0), bias_.size(1)}, bias_.options());
}

template <typename Format>
void Flash<Format>::add_bias_gradients(const at::Tensor& of_samples, const at::Tensor& sums) const {
  sums.index_add_(1, bias_columns_, of_samples.sum(0).to(sums.scalar_type()));
}

template <typename Format>
AttentionBlock Flash<Format>::prepare(const QueryBlock& block, const KeyBlock& keys, Real* scores,
                                      Real* bias_gradients) const {
  if (block.kept) {
    // A random group has the bits of 64 keys, in two words. A block of keys lies within one group.
    // If it begins within the group, the bits of the keys before it are shifted out.
    static_assert(kKeys == kRandomGroup);
    uint32_t* kept = block.kept + keys.first;
    kernels::vector_kernels().kept_bits(
        block.random_rows + keys.first, keys.lanes, dropout_.threshold,
        static_cast<uint32_t>(keys.position / kRandomGroup), kept, stride_);
    if (const int64_t before = keys.position % kRandomGroup; before > 0) {
      for (int64_t lane = 0; lane < keys.lanes; ++lane) {
        const uint64_t bits = (uint64_t{kept[stride_ + lane]} << 32 | kept[lane]) >> before;
        kept[lane] = static_cast<uint32_t>(bits);
        kept[stride_ + lane] = static_cast<uint32_t>(bits >> 32);
      }
    }
  }
  const double slope = rule_.alibi_slopes.empty() ? 0 : rule_.alibi_slopes[block.head];
  AttentionBlock prepared{
      .type = kType<Real>,
      .scores = scores + keys.first,
      .stride = stride_,
      .keys = keys.count,
      .lanes = keys.lanes,
      .scale = rule_.scale * std::numbers::log2e,
      .key_begin = keys.position,
      .limits = keys.masked ? block.limits + keys.first : nullptr,
      .query_documents = block.documents ? block.documents + keys.first : nullptr,
      .key_documents = key_documents(block.sample, keys.row),
      .positions = keys.windowed || slope != 0 ? block.lane_positions + keys.first : nullptr,
      .window = keys.windowed ? static_cast<double>(rule_.window) : 0,
      .prefix_end = block.prefix,
      .slope = slope * std::numbers::log2e,
      .relative_bias = bias_.defined() ? bias_.const_data_ptr<Real>() + block.head * bias_.size(1) +
                                             bias_place(block, keys)
                                       : nullptr,
      .relative_bias_gradients =
          bias_gradients ? bias_gradients + block.head * bias_.size(1) + bias_place(block, keys)
                         : nullptr,
      .soft_cap = rule_.soft_cap * std::numbers::log2e,
      .kept = block.kept ? block.kept + keys.first : nullptr,
      .kept_scale = dropout_.scale};
  if (rule_.soft_cap > 0) {
    format_.passes.soft_cap(prepared);
    prepared.scale = 1;
  }
  return prepared;
}

template <typename Format>
void Flash<Format>::begin_sums(const QueryBlock& block, const AttentionResult& result,
                               Forward& buffers) const {
  Real* maxima = static_cast<Real*>(buffers.sums.maxima);
  Real* sums = static_cast<Real*>(buffers.sums.sums);
  Real* outputs = static_cast<Real*>(buffers.sums.outputs);
  constexpr Real kNothing = -std::numeric_limits<Real>::infinity();
  const bool sinks = sinks_.defined() && !given_.accumulate;
  const Real first = sinks ? sinks_.const_data_ptr<Real>()[block.head] : kNothing;
  std::fill_n(maxima, stride_, first * std::numbers::log2e_v<Real>);
  std::fill_n(sums, stride_, first == kNothing ? Real{0} : Real{1});
  std::fill_n(outputs, value_size_ * stride_, Real{0});
  if (!given_.accumulate) return;
  const HeadRows before{result.output, block.sample, block.head};
  load_rows(before, block.begin, block.rows, kType<Real>, buffers.rows, buffers.row_stride);
  transpose(buffers.rows, buffers.row_stride, block.rows, value_size_, outputs, stride_);
  for (int64_t row = 0; row < block.rows; ++row) {
    maxima[row] = logsumexp_at(result.logsumexp, block, row) * std::numbers::log2e_v<Real>;
    sums[row] = maxima[row] == kNothing ? 0 : 1;
  }
}

template <typename Format>
void Flash<Format>::forward_block(const QueryBlock& block, Forward& buffers) const {
  Real* maxima = static_cast<Real*>(buffers.sums.maxima);
  Real* sums = static_cast<Real*>(buffers.sums.sums);
  Real* outputs = static_cast<Real*>(buffers.sums.outputs);
  buffers.queries.load({given_.part.query, block.sample, block.head}, block.begin, block.rows);
  for_each_key_block(block, [&](const KeyBlock& keys) {
    const int64_t first = keys.first, lanes = keys.lanes;
    format_.multiply(keys.count, lanes, head_size_, buffers.keys.left(keys.row),
                     buffers.queries.right_transposed + first * Format::kPair,
                     buffers.queries.transposed_stride, buffers.scores + first, stride_, false);
    const AttentionSums of_lanes{maxima + first, sums + first, outputs + first, value_size_};
    uint32_t* pairs = buffers.pairs ? buffers.pairs + first : nullptr;
    format_.passes.probabilities(prepare(block, keys, buffers.scores), of_lanes, pairs);
    const auto* probabilities = reinterpret_cast<const Element*>(
        pairs ? static_cast<const void*>(pairs) : buffers.scores + first);
    format_.multiply(value_size_, lanes, keys.count,
                     buffers.values.left_transposed(keys.row, keys.index), probabilities, stride_,
                     outputs + first, stride_, true);
  });
  transpose(outputs, stride_, value_size_, block.rows, buffers.rows, buffers.row_stride);
}

template <typename Format>
void Flash<Format>::forward(const AttentionResult& result) const {
  for_each_key_head<Forward>([&](int64_t sample, int64_t kv_head, Forward& buffers) {
    buffers.keys.load({given_.part.key, sample, kv_head});
    buffers.values.load({given_.part.value, sample, kv_head});
    QueryBlock& block = buffers.block;
    for_each_query_block(sample, kv_head, block, [&] {
      begin_sums(block, result, buffers);
      forward_block(block, buffers);
      const WrittenHeadRows to{result.output, sample, block.head};
      for (int64_t row = 0; row < block.rows; ++row) {
        const Real maximum = static_cast<const Real*>(buffers.sums.maxima)[row];
        const Real sum = static_cast<const Real*>(buffers.sums.sums)[row];
        store_rows(buffers.rows + row * buffers.row_stride, buffers.row_stride, to,
                   block.begin + row, 1, sum == 0 ? 0 : 1.0 / sum);
        logsumexp_at(result.logsumexp, block, row) =
            static_cast<Real>(maximum * std::numbers::ln2 + std::log(static_cast<double>(sum)));
      }
    });
  });
}

template <typename Format>
auto Flash<Format>::compute_gradients(const AttentionBlock& described, int64_t first,
                                      Backward& buffers) const -> GradientOperands {
  Real* gradients = buffers.score_gradients + first;
  AttentionBf16Operands halves = buffers.halves;
  if constexpr (Format::kPair == 2) {
    halves.probabilities += first;
    halves.gradients += first;
    halves.gradient_pairs += first;
  }
  format_.passes.gradients(described, gradients, buffers.logsumexps + first, buffers.deltas + first,
                           Format::kPair == 2 ? &halves : nullptr);
  if constexpr (Format::kPair == 2) {
    return {halves.probabilities, halves.gradients,
            reinterpret_cast<const Element*>(halves.gradient_pairs)};
  } else {
    return {buffers.scores + first, gradients, gradients};
  }
}

// With P the probabilities, M the mask with its factor, O the output and D = rowsum(dO * O):
//   dV = (P M)^T dO,  dS = P * (M * (dO V^T) - D),  dQ = scale dS K,  dK = scale dS^T Q.
template <typename Format>
void Flash<Format>::backward_block(const QueryBlock& block, Backward& buffers,
                                   Real* bias_gradients) const {
  constexpr int64_t kPair = Format::kPair;
  const auto& queries = buffers.queries;
  const auto& output_gradients = buffers.output_gradients;
  std::fill_n(buffers.query_gradients, head_size_ * stride_, Real{0});
  for_each_key_block(block, [&](const KeyBlock& keys) {
    const int64_t first = keys.first, lanes = keys.lanes;
    Real* key_gradients = buffers.key_gradients + keys.row * buffers.key_stride;
    Real* value_gradients = buffers.value_gradients + keys.row * buffers.value_stride;
    fetch_ahead(key_gradients, keys.count * buffers.key_stride);
    fetch_ahead(value_gradients, keys.count * buffers.value_stride);
    format_.multiply(keys.count, lanes, head_size_, buffers.keys.left(keys.row),
                     queries.right_transposed + first * kPair, queries.transposed_stride,
                     buffers.scores + first, stride_, false);
    format_.multiply(keys.count, lanes, value_size_, buffers.values.left(keys.row),
                     output_gradients.right_transposed + first * kPair,
                     output_gradients.transposed_stride, buffers.score_gradients + first, stride_,
                     false);
    const auto [probabilities, gradients, right_gradients] =
        compute_gradients(prepare(block, keys, buffers.scores, bias_gradients), first, buffers);
    format_.multiply(keys.count, round_up(value_size_, kLanes), lanes, {probabilities, stride_, 1},
                     output_gradients.right + first * output_gradients.right_stride,
                     output_gradients.right_stride, value_gradients, buffers.value_stride, true);
    format_.multiply(keys.count, round_up(head_size_, kLanes), lanes, {gradients, stride_, 1},
                     queries.right + first * queries.right_stride, queries.right_stride,
                     key_gradients, buffers.key_stride, true);
    format_.multiply(head_size_, lanes, keys.count,
                     buffers.keys.left_transposed(keys.row, keys.index), right_gradients, stride_,
                     buffers.query_gradients + first, stride_, true);
  });
  transpose(buffers.query_gradients, stride_, head_size_, block.rows, buffers.rows, head_size_);
}

template <typename Format>
void Flash<Format>::backward(const AttentionResult& result, const at::Tensor& output_gradient,
                             const AttentionGradients& gradients) const {
  constexpr Real kInfinity = std::numeric_limits<Real>::infinity();
  const at::Tensor of_bias = bias_gradient_scratch();
  for_each_key_head<Backward>([&](int64_t sample, int64_t kv_head, Backward& buffers) {
    buffers.keys.load({given_.part.key, sample, kv_head});
    buffers.values.load({given_.part.value, sample, kv_head});
    std::fill_n(buffers.key_gradients, keys_ * buffers.key_stride, Real{0});
    std::fill_n(buffers.value_gradients, keys_ * buffers.value_stride, Real{0});
    QueryBlock& block = buffers.block;
    for_each_query_block(sample, kv_head, block, [&] {
      const HeadRows outputs{result.output, sample, block.head};
      const HeadRows output_gradients{output_gradient, sample, block.head};
      buffers.queries.load({given_.part.query, sample, block.head}, block.begin, block.rows);
      buffers.output_gradients.load(output_gradients, block.begin, block.rows);
      std::fill_n(buffers.logsumexps, stride_, Real{0});
      std::fill_n(buffers.deltas, stride_, Real{0});
      for (int64_t row = 0; row < block.rows; ++row) {
        const Real logsumexp = logsumexp_at(result.logsumexp, block, row);
        // A query that sees no key gets probabilities of 0: exp2(score - infinity).
        buffers.logsumexps[row] = logsumexp == -kInfinity
                                      ? kInfinity
                                      : static_cast<Real>(logsumexp * std::numbers::log2e);
        buffers.deltas[row] = static_cast<Real>(kernels::vector_kernels().inner_product(
            outputs.at(block.begin + row), outputs.type(), output_gradients.at(block.begin + row),
            output_gradients.type(), value_size_));
      }
      backward_block(block, buffers,
                     of_bias.defined()
                         ? of_bias.mutable_data_ptr<Real>() + sample * of_bias.stride(0)
                         : nullptr);
      const WrittenHeadRows to{gradients.query, sample, block.head};
      if (!given_.accumulate) {
        store_rows(buffers.rows, head_size_, to, block.begin, block.rows, rule_.scale);
        return;
      }
      for (int64_t row = 0; row < block.rows; ++row) {
        add_row(buffers.rows + row * head_size_, to, block.begin + row, rule_.scale);
      }
    });
    const WrittenHeadRows of_keys{gradients.key, sample, kv_head};
    const WrittenHeadRows of_values{gradients.value, sample, kv_head};
    store_rows(buffers.key_gradients, buffers.key_stride, of_keys, 0, keys_, rule_.scale);
    store_rows(buffers.value_gradients, buffers.value_stride, of_values, 0, keys_, 1);
  });
  if (of_bias.defined()) add_bias_gradients(of_bias, gradients.relative_bias);
}

// Calls run(flash) with a Flash in the format for the queries' type.
template <typename Run>
void with_format(const FlashAttention& problem, const Run& run) {
  const at::ScalarType type = problem.part.query.scalar_type();
  if (type == at::kDouble) {
    run(Flash<WideFormat<double>>(problem));
  } else if (type == at::kBFloat16 && problem.bf16_product) {
    run(Flash<Bf16Format>(problem));
  } else {
    run(Flash<WideFormat<float>>(problem));
  }
}

// Returns whether it is certain that no query sees a key, or that there are no queries.
bool sees_nothing(const FlashAttention& problem) {
  const AttentionPart& part = problem.part;
  return part.query.numel() == 0 ||
         !problem.rule.sees_any(part.query_positions, part.key_positions);
}

}  // namespace

void flash_attention_forward(const FlashAttention& problem, const AttentionResult& result) {
  if (problem.part.query.numel() == 0 || (problem.accumulate && sees_nothing(problem))) return;
  with_format(problem, [&](const auto& flash) { flash.forward(result); });
}

void flash_attention_backward(const FlashAttention& problem, const AttentionResult& result,
                              const at::Tensor& output_gradient,
                              const AttentionGradients& gradients) {
  if (sees_nothing(problem)) {
    gradients.key.zero_();
    gradients.value.zero_();
    if (!problem.accumulate) gradients.query.zero_();
    return;
  }
  with_format(problem,
              [&](const auto& flash) { flash.backward(result, output_gradient, gradients); });
}

void allocate_flash_scratch(const FlashAttention& problem, bool backward) {
  if (problem.part.query.numel() == 0) return;
  if (sees_nothing(problem) && (backward || problem.accumulate)) return;
  with_format(problem, [&](const auto& flash) {
    const at::Tensor scratch = backward ? flash.backward_scratch() : flash.forward_scratch();
    if (backward) flash.bias_gradient_scratch();
  });
}

}  // namespace colossal::ops
