// Denoising: the training objectives of encoder-decoders. The encoder reads a text of which spans
// of tokens are missing.
//   infilling   (M. Lewis et al., "BART", 2019, 2.2) a mask token replaces each span, whatever its
//               length, and the decoder writes the whole text
//   corruption  (C. Raffel et al., "T5", 2020, 3.1.4) a sentinel of its own replaces each span, and
//               the decoder writes the spans, each after its sentinel
#pragma once

#include <cstdint>
#include <vector>

#include "colossal/data/batch.h"
#include "colossal/data/masking.h"

namespace colossal::data {

struct DenoisingOptions {
  // mask_token is only for infilling; `probability` is the expected share of the tokens that spans
  // take; `vocabulary` is not used.
  MaskOptions masks;
  int64_t decoder_start_token = 0;  // the decoder's input before the first token of a target
  // The sentinels for corruption, in the order of spans; empty: infilling. A text has at most one
  // span less than there are sentinels: the last sentinel that is used ends the target.
  std::vector<int32_t> sentinels{};
  int32_t end_of_text = 0;  // ends source and target in corruption
  int64_t min_length = 1;   // of sources and targets, which are padded: at least the ranks of sp
};

// Mean length of a span in tokens. Lengths have a Poisson distribution. A span of no tokens inserts
// a mask token; in corruption, it has one token instead.
inline constexpr double kMeanSpan = 3;

// Returns the tokenizer's sentinels, "<extra_id_0>" and so on, in ascending order of their numbers;
// empty if it has none.
std::vector<int32_t> sentinels_of(const text::Tokenizer& tokenizer);

// Turns a batch of texts into sources and targets. Sets `inputs` and `labels` to those of the
// decoder, and the fields kSource and kSourceDocuments. In infilling, sources are padded
// to the length of the texts, and labels are the texts. In corruption, sources and targets are
// padded to the longest of the batch. No span has a token in masks.never. The spans depend only on
// the seed and the row's Batch::sample_ids, so they are the same at every layout, and new in each
// epoch. batch: with the unchanged inputs; its labels are not read.
void make_noise(Batch& batch, const DenoisingOptions& options);

}  // namespace colossal::data
