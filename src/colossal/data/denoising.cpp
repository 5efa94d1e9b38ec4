#include "colossal/data/denoising.h"

#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <utility>

#include "colossal/base/random.h"
#include "colossal/data/text_batch.h"

namespace colossal::data {
namespace {

constexpr int64_t kNoLabel = -100;
constexpr int64_t kPadding = -1;  // document number

// Returns the length of a span: the quantile `drawn`, in [0, 1), of the Poisson distribution.
int64_t span_length(double drawn) {
  constexpr int64_t kLongest = 32;  // which has a probability below 1e-20
  double probability = std::exp(-kMeanSpan), below = probability;
  int64_t length = 0;
  while (drawn >= below && length < kLongest) {
    ++length;
    probability *= kMeanSpan / static_cast<double>(length);
    below += probability;
  }
  return length;
}

using Tokens = std::vector<int64_t>;
using Text = std::span<const int64_t>;

struct Pair {
  Tokens source, target;
};

class Noise {
 public:
  explicit Noise(const DenoisingOptions& options)
      : options_(options),
        begin_(random_key(options.masks.seed, 0, "begins of spans")),
        length_(random_key(options.masks.seed, 0, "lengths of spans")) {}

  // sample: of Batch::sample_ids. The source is cut to the length of the text.
  Pair infill(Text text, uint64_t sample) const {
    // Each token outside a span begins a span with the same probability.
    const double probability = 1 / (1 + kept_per_span());
    Pair pair{.source = {}, .target = {text.begin(), text.end()}};
    for (size_t i = 0; i < text.size();) {
      if (begins(text[i], sample, i, probability)) {
        pair.source.push_back(options_.masks.mask_token);
        const size_t end = end_of_span(text, i, length_of(sample, i));
        if (end > std::exchange(i, end)) continue;
      }
      pair.source.push_back(text[i++]);
    }
    if (pair.source.size() > text.size()) pair.source.resize(text.size());
    return pair;
  }

  // Source and target are at most as long as the text.
  Pair corrupt(Text whole, uint64_t sample) const {
    const Text text = whole.first(whole.size() - 1);  // leaves room for the end of text
    // At least one token is between two spans.
    const double probability = 1 / std::max(1.0, kept_per_span());
    Pair pair;
    auto sentinel = options_.sentinels.begin();
    for (size_t i = 0; i < text.size(); ++i) {
      const bool may_begin = sentinel + 1 < options_.sentinels.end();
      if (may_begin && begins(text[i], sample, i, probability)) {
        const size_t end = end_of_span(text, i, std::max<int64_t>(1, length_of(sample, i)));
        pair.source.push_back(*sentinel);
        pair.target.push_back(*sentinel++);
        pair.target.insert(pair.target.end(), text.begin() + i, text.begin() + end);
        i = end;
        if (i == text.size()) break;
      }
      pair.source.push_back(text[i]);
    }
    pair.target.push_back(*sentinel);
    for (Tokens* const tokens : {&pair.source, &pair.target}) {
      tokens->push_back(options_.end_of_text);
      if (tokens->size() > whole.size()) tokens->resize(whole.size());
    }
    return pair;
  }

 private:
  bool may_hide(int64_t token) const {
    return !std::ranges::binary_search(options_.masks.never, token);
  }
  // Returns the mean number of tokens between spans with which spans take their share.
  double kept_per_span() const {
    return kMeanSpan * (1 - options_.masks.probability) / options_.masks.probability;
  }
  bool begins(int64_t token, uint64_t sample, size_t position, double probability) const {
    return may_hide(token) && random_uniform(begin_, sample, position) < probability;
  }
  int64_t length_of(uint64_t sample, size_t position) const {
    return span_length(random_uniform(length_, sample, position));
  }
  // Returns the end of a span that begins at `begin`: before the first token that must be kept.
  size_t end_of_span(Text text, size_t begin, int64_t length) const {
    const size_t most = std::min(text.size(), begin + static_cast<size_t>(length));
    size_t end = begin;
    while (end < most && may_hide(text[end])) ++end;
    return end;
  }

  const DenoisingOptions& options_;
  RandomKey begin_, length_;
};

// Returns the rows, padded to `length`.
at::Tensor padded(const std::vector<Tokens>& rows, int64_t length, int64_t padding) {
  const at::Tensor tokens = at::full({std::ssize(rows), length}, padding, at::kLong);
  for (int64_t row = 0; row < std::ssize(rows); ++row) {
    std::ranges::copy(rows[row], tokens.mutable_data_ptr<int64_t>() + row * length);
  }
  return tokens;
}

}  // namespace

std::vector<int32_t> sentinels_of(const text::Tokenizer& tokenizer) {
  std::map<std::string, int32_t> tokens;
  for (const text::SpecialToken& special : tokenizer.special_tokens()) {
    tokens[special.text] = special.token;
  }
  std::vector<int32_t> sentinels;
  for (int number = 0;; ++number) {
    const auto found = tokens.find(fmt::format("<extra_id_{}>", number));
    if (found == tokens.end()) return sentinels;
    sentinels.push_back(found->second);
  }
}

void make_noise(Batch& batch, const DenoisingOptions& options) {
  const Noise noise(options);
  const at::Tensor texts = batch.at(kTokens).contiguous();
  const int64_t rows = texts.size(0), size = texts.size(1);
  const bool infills = options.sentinels.empty();
  std::vector<Tokens> sources, inputs, labels, documents;
  int64_t longest_source = options.min_length, longest_target = options.min_length;
  for (int64_t row = 0; row < rows; ++row) {
    const Text text(texts.const_data_ptr<int64_t>() + row * size, static_cast<size_t>(size));
    const auto sample = static_cast<uint64_t>(batch.sample_ids[row]);
    Pair pair = infills ? noise.infill(text, sample) : noise.corrupt(text, sample);
    longest_source = std::max(longest_source, std::ssize(pair.source));
    longest_target = std::max(longest_target, std::ssize(pair.target));
    documents.emplace_back(pair.source.size(), 0);
    sources.push_back(std::move(pair.source));
    inputs.push_back({options.decoder_start_token});
    inputs.back().insert(inputs.back().end(), pair.target.begin(), pair.target.end() - 1);
    labels.push_back(std::move(pair.target));
  }
  if (infills) longest_source = longest_target = size;
  batch.units = 0;
  for (const Tokens& row : labels) batch.units += std::ssize(row);
  batch.set(kTokens, padded(inputs, longest_target, options.end_of_text), 1);
  batch.set(kLabels, padded(labels, longest_target, kNoLabel), 1);
  batch.set(kSource, padded(sources, longest_source, options.end_of_text), 1);
  batch.set(kSourceDocuments, padded(documents, longest_source, kPadding));
}

}  // namespace colossal::data
