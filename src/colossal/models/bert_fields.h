// Reads fields of config.json that the encoders of the BERT family share, into a TransformerConfig.
// Functions that read fields throw FieldError (config_fields.h) if a value is invalid.
#pragma once

#include <vector>

#include "colossal/models/config_fields.h"
#include "colossal/models/transformer_config.h"
#include "colossal/models/weight_names.h"

namespace colossal::models {

// Sets what all encoders like BERT (Devlin et al. 2018) have: attention to all positions, learned
// positions, a norm of the embeddings, layer norms after each residual connection, biases in all
// linear layers, and a head for tokens with a bias behind a head transform. activation: of the head
// transform.
void set_bert_layers(TransformerConfig& config, ops::Activation activation);

// Reads all fields of BERT and RoBERTa. token_types: the default of type_vocab_size.
TransformerConfig read_bert_fields(ConfigFields& fields, int64_t token_types);

// Replaces the head for tokens by one that classifies texts by the state of their first token: a
// linear layer with bias, whose input has the dropout probability `dropout`, behind a head
// transform without norm. activation: of the head transform.
void set_bert_scores(TransformerConfig& config, ops::Activation activation, double dropout);

// Reads the dropout probability of the head that classifies texts, from classifier_dropout or, if
// this field is missing or null, from hidden_dropout_prob.
double read_classifier_dropout(ConfigFields& fields);

// Returns the names of the layers of a block of BERT and RoBERTa (WeightNames::of_a_block).
std::vector<LayerMapping> bert_block_names();

}  // namespace colossal::models
