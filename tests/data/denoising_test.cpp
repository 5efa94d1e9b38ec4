#include "colossal/data/denoising.h"

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/data/rows_to_mask.h"

#include "colossal/data/text_batch.h"

namespace colossal::data::denoising {
namespace {

constexpr int32_t kMask = 1000;
constexpr int64_t kStart = 999;

DenoisingOptions options_of(double probability) {
  return {.masks = {.probability = probability, .mask_token = kMask, .never = {kNever}, .seed = 3},
          .decoder_start_token = kStart};
}

const at::Tensor& field(const Batch& batch, const char* name) {
  return batch.at(name);
}

std::vector<int64_t> source_of(const Batch& batch, int64_t row) {
  const at::Tensor kept = field(batch, kSourceDocuments)[row].eq(0);
  const at::Tensor tokens = field(batch, kSource)[row].masked_select(kept).contiguous();
  return {tokens.const_data_ptr<int64_t>(), tokens.const_data_ptr<int64_t>() + tokens.numel()};
}

TEST(Denoising, TargetsAreTheTexts) {
  Batch batch = rows_to_mask(0, 5, 40);
  const at::Tensor text = batch.at(kTokens).clone();
  make_noise(batch, options_of(0.3));
  EXPECT_TRUE(at::equal(batch.at(kLabels), text));
  EXPECT_TRUE(at::equal(batch.at(kTokens).narrow(1, 1, 39), text.narrow(1, 0, 39)));
  EXPECT_TRUE(batch.at(kTokens).select(1, 0).eq(kStart).all().item<bool>());
  EXPECT_EQ(field(batch, kSource).sizes(), text.sizes());
}

// What a source has besides masks is its text, in order, without the spans.
TEST(Denoising, SourcesLackSpansOfPoissonLengths) {
  Batch batch = rows_to_mask(0, 200, 500);
  make_noise(batch, options_of(0.3));
  int64_t hidden = 0, masks = 0, inserted = 0, never = 0;
  for (int64_t row = 0; row < 200; ++row) {
    const int64_t* text = batch.at(kLabels)[row].const_data_ptr<int64_t>();
    int64_t place = 0;
    bool after_mask = false;
    for (const int64_t token : source_of(batch, row)) {
      if (token == kMask) {
        ++masks;
        after_mask = true;
        continue;
      }
      const int64_t before = place;
      while (text[place] != token) ++place;  // tokens repeat after 100 only
      EXPECT_TRUE(after_mask || place == before);
      if (after_mask && place == before) ++inserted;
      hidden += place - before;
      after_mask = false;
      ++place;
      never += token == kNever ? 1 : 0;
    }
    hidden += 500 - place;
  }
  EXPECT_EQ(never, 200 * 5);
  // All but a hundredth of the tokens may be hidden, and spans also end before those that may not.
  EXPECT_NEAR(static_cast<double>(hidden) / (200 * 500), 0.3, 0.02);
  EXPECT_NEAR(static_cast<double>(hidden) / static_cast<double>(masks), kMeanSpan, 0.15);
  // A span of no tokens has the probability exp(-3).
  EXPECT_NEAR(static_cast<double>(inserted) / static_cast<double>(masks), 0.05, 0.02);
}

// A source and the spans of its target give the text again.
TEST(Denoising, SentinelsStandForSpansThatTheTargetHas) {
  DenoisingOptions options = options_of(0.15);
  for (int32_t i = 0; i < 100; ++i) options.sentinels.push_back(2000 - i);
  options.end_of_text = 555;
  options.min_length = 3;
  Batch batch = rows_to_mask(0, 100, 400);
  const at::Tensor texts = batch.at(kTokens).clone();
  make_noise(batch, options);
  int64_t hidden = 0, spans = 0;
  for (int64_t row = 0; row < 100; ++row) {
    const std::vector<int64_t> source = source_of(batch, row);
    const at::Tensor labels = batch.at(kLabels)[row].masked_select(batch.at(kLabels)[row].ne(-100));
    const std::vector<int64_t> target(labels.const_data_ptr<int64_t>(),
                                      labels.const_data_ptr<int64_t>() + labels.numel());
    EXPECT_EQ(source.back(), 555);
    EXPECT_EQ(target.back(), 555);
    EXPECT_EQ(batch.at(kTokens)[row][0].item<int64_t>(), kStart);
    EXPECT_EQ(batch.at(kTokens)[row][1].item<int64_t>(), target[0]);
    std::vector<int64_t> restored;
    size_t next = 0;  // in the target
    int64_t sentinel = 2000;
    for (size_t i = 0; i + 1 < source.size(); ++i) {
      if (source[i] < 1000) {
        restored.push_back(source[i]);
        continue;
      }
      EXPECT_EQ(source[i], sentinel);
      ASSERT_EQ(target[next++], sentinel--);
      const auto before = std::ssize(restored);
      while (target[next] < 555) restored.push_back(target[next++]);
      EXPECT_GT(std::ssize(restored), before);
      hidden += std::ssize(restored) - before;
      ++spans;
    }
    EXPECT_EQ(target[next], sentinel);
    EXPECT_EQ(next + 2, target.size());
    const at::Tensor text = texts[row].narrow(0, 0, 399);
    EXPECT_TRUE(at::equal(at::tensor(restored, at::kLong), text));
  }
  EXPECT_NEAR(static_cast<double>(hidden) / (100 * 399), 0.15, 0.015);
  EXPECT_NEAR(static_cast<double>(hidden) / static_cast<double>(spans), kMeanSpan, 0.2);
  EXPECT_EQ(batch.units, batch.at(kLabels).ne(-100).sum().item<int64_t>());
  EXPECT_LT(batch.at(kLabels).size(1), 150);
  // As many spans as there are sentinels but one.
  options.sentinels.resize(3);
  Batch few = rows_to_mask(0, 1, 400);
  make_noise(few, options);
  EXPECT_EQ(few.at(kSource).ge(1000).sum().item<int64_t>(), 2);
}

TEST(Denoising, DependsOnTheSampleOnly) {
  Batch together = rows_to_mask(4, 3, 50), alone = rows_to_mask(5, 1, 50),
        later = rows_to_mask(104, 3, 50);
  alone.at(kTokens).copy_(together.at(kTokens).narrow(0, 1, 1));
  later.at(kTokens).copy_(together.at(kTokens));
  for (Batch* const batch : {&together, &alone, &later}) make_noise(*batch, options_of(0.3));
  for (const char* name : {kSource, kSourceDocuments}) {
    EXPECT_TRUE(at::equal(field(together, name).narrow(0, 1, 1), field(alone, name)));
  }
  EXPECT_FALSE(at::equal(field(together, kSource), field(later, kSource)));
}

}  // namespace
}  // namespace colossal::data::denoising
