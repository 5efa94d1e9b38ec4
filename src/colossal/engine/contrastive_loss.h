// The loss of models of two towers (models/text_tower.h), in which each image of the global batch
// is compared with each text.
//
// It needs the vectors of all replicas and micro-batches before the first backward pass. If each
// replica has one micro-batch, contrastive_loss() compares them. Else a step has two forward passes
// (L. Gao et al., "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup", 2021):
// the first, without gradients, computes unit vectors; add_pair_gradients() makes from them the
// gradient of each; and contrastive_loss(), in the second pass, has these gradients. The loss and
// its gradient thus do not depend on how the global batch is divided.
#pragma once

#include <vector>

#include "colossal/data/batch.h"
#include "colossal/engine/staged_model.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/models/model.h"
#include "colossal/models/text_tower.h"

namespace colossal {

// Returns what the model gives the rows of a batch, with vectors of unit length, in fp32 (fp64 for
// an fp64 model), differentiable, equal on all ranks of sp and tp. batch: this rank's part
// (data::local_batch()). Law with sp > 1: an all-reduce of the vectors of all rows over sp, in the
// forward pass only.
models::Embeddings unit_vectors(models::Model& model, const nn::BlockState& state,
                                const data::Batch& batch, const nn::StepContext& step,
                                const ParallelContext& context);

// Adds the fields of data/pair_fields.h to the batches of one step, which together with those of
// the other replicas are the global batch. vectors: unit_vectors() of the batches that have rows,
// in their order. type: of the vectors. Collective over dp, on the ranks of the last stage; other
// ranks do not call it. Law: over dp, an all-reduce of 8 bytes for each replica, then an all-gather
// of the vectors and, with Loss::softmax, one of two numbers for each row.
void add_pair_gradients(std::vector<data::Batch>& batches,
                        const std::vector<models::Embeddings>& vectors,
                        const models::TextTower& texts, at::ScalarType type,
                        const ParallelContext& context);

// Returns the loss of a batch with the fields of data/pair_fields.h: the sum of kPairLosses, with
// the gradients that the other fields say; and the metric "accuracy", the mean of kPairMatches. To
// a batch without the fields, which must be the only one of its replica in a training step, it adds
// them: it is then collective as add_pair_gradients() is.
HeadLoss contrastive_loss(const models::TextTower& texts, const ParallelContext& context);

}  // namespace colossal
