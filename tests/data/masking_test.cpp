#include "colossal/data/masking.h"

#include <gtest/gtest.h>

#include <cmath>

#include "colossal/data/text_batch.h"
#include "colossal/text/tokenizer/bytes_tokenizer.h"
#include "tests/data/rows_to_mask.h"

namespace colossal::data {
namespace {

constexpr int32_t kVocabulary = 1000, kMask = 1000;

MaskOptions options_of(double probability) {
  return {.probability = probability,
          .mask_token = kMask,
          .vocabulary = kVocabulary,
          .never = {kNever},
          .seed = 3};
}

// Expects a share of `all` within three standard deviations of a binomial distribution.
void expect_share(int64_t found, int64_t all, double share) {
  const auto n = static_cast<double>(all);
  EXPECT_NEAR(static_cast<double>(found) / n, share, 3 * std::sqrt(share * (1 - share) / n));
}

TEST(MaskTokens, HasTheSharesOfBert) {
  Batch batch = rows_to_mask(0, 200, 500);
  const at::Tensor before = batch.at(kTokens).clone();
  mask_tokens(batch, options_of(0.15));
  const at::Tensor chosen = batch.at(kLabels).ne(-100);
  const auto count = [](const at::Tensor& which) { return which.sum().item<int64_t>(); };
  EXPECT_TRUE(at::equal(batch.at(kLabels).masked_select(chosen), before.masked_select(chosen)));
  EXPECT_TRUE(at::equal(batch.at(kTokens).masked_select(~chosen), before.masked_select(~chosen)));
  EXPECT_EQ(count(chosen & before.eq(kNever)), 0);
  expect_share(count(chosen), count(before.ne(kNever)), 0.15);
  const at::Tensor masked = chosen & batch.at(kTokens).eq(kMask);
  const at::Tensor kept = chosen & batch.at(kTokens).eq(before);
  expect_share(count(masked), count(chosen), 0.8);
  // a tenth stays; a random token may be the same one, too
  expect_share(count(kept), count(chosen), 0.1 + 0.1 / kVocabulary);
  const at::Tensor random = batch.at(kTokens).masked_select(chosen & ~masked & ~kept);
  EXPECT_LT(random.max().item<int64_t>(), kVocabulary);
  EXPECT_NEAR(random.to(at::kDouble).mean().item<double>(), kVocabulary / 2.0, 50);
}

TEST(MaskTokens, DependsOnSampleAndPositionOnly) {
  Batch together = rows_to_mask(4, 3, 50), alone = rows_to_mask(5, 1, 50);
  alone.at(kTokens).copy_(together.at(kTokens).narrow(0, 1, 1));
  Batch again = together;
  again.at(kTokens) = together.at(kTokens).clone();
  again.at(kLabels) = together.at(kLabels).clone();
  again.sample_ids = {104, 105, 106};  // the same rows in a later epoch
  mask_tokens(together, options_of(0.3));
  mask_tokens(alone, options_of(0.3));
  mask_tokens(again, options_of(0.3));
  EXPECT_TRUE(at::equal(together.at(kTokens).narrow(0, 1, 1), alone.at(kTokens)));
  EXPECT_TRUE(at::equal(together.at(kLabels).narrow(0, 1, 1), alone.at(kLabels)));
  EXPECT_FALSE(at::equal(together.at(kLabels), again.at(kLabels)));
}

TEST(MaskOptions, TakesTheRowAfterATokenizersTokens) {
  const text::BytesTokenizer bytes;
  EXPECT_EQ(mask_options(bytes, "bytes", 300).mask_token, 257);
  try {
    mask_options(bytes, "bytes", 257);
    ADD_FAILURE() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("model.vocab_size = 258"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace colossal::data
