// The fields of batches of texts, and the batches that have them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "colossal/data/batch.h"

namespace colossal::data {

// Names of fields. Those of [batch, sequence] int64, unless said otherwise:
inline constexpr const char* kTokens = "tokens";  // what the model reads
// The token that follows each input; -100: the loss ignores the position.
inline constexpr const char* kLabels = "labels";
// The number of each input's document; attention does not cross documents. Numbers are unique only
// within a row. Without this field each row is one document. Every rank needs the numbers of all
// positions: the field has no sequence_dim.
inline constexpr const char* kDocuments = "documents";
// The position of each input, for position embeddings. Without this field: 0, 1, 2, ... in each
// row.
inline constexpr const char* kPositions = "positions";
// The type of each token, which says to which text of a pair it belongs.
inline constexpr const char* kTokenTypes = "token_types";
// Of an encoder-decoder: the tokens of each row's source text, which the encoder reads, [batch,
// source positions], and their document numbers, of the same shape: 0, or -1 for padding. Without
// the second field no source has padding. kTokens and kLabels are those of the decoder: the target,
// of which each input is the token before its label. Sources have lengths of their own.
inline constexpr const char* kSource = "source";
inline constexpr const char* kSourceDocuments = "source_documents";
// Of a draft model of speculative decoding: the hidden states of the target model. Unlike the other
// fields, this one has only this rank's part of the hidden states, even in a whole micro-batch: the
// part that activations between blocks have on this rank. It has no sequence_dim.
inline constexpr const char* kTargetStates = "target_states";

// Returns a batch with these fields, of which no token is padding. tokens, labels: [batch,
// sequence].
Batch text_batch(at::Tensor tokens, at::Tensor labels, std::vector<int64_t> sample_ids);

// Returns the number of positions of each sequence of a batch of texts.
int64_t sequence_length_of(const Batch& batch);

// Returns the fields of texts of `sequence` tokens. has_documents: whether they have kDocuments.
// has_source: whether they have sources, as long as the inputs, with their documents.
BatchSpecification text_specification(int64_t sequence, bool has_documents, bool has_source);

// Returns kDocuments for these tokens: for each token, the number of its document within its row,
// from 0. tokens: [batch, sequence] int64. end_of_document: the token that ends a document, and
// belongs to it.
at::Tensor number_documents(const at::Tensor& tokens, int64_t end_of_document);

}  // namespace colossal::data
