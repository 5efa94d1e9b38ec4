#include "tests/plan/layouts.h"

#include <ATen/TensorOperators.h>

#include <numeric>
#include <ostream>

#include "colossal/data/image_batch.h"
#include "colossal/data/score_fields.h"
#include "colossal/data/text_batch.h"
#include "colossal/job/batch_specification.h"
#include "tests/support/run_ranks.h"

namespace colossal::test {
namespace {

// Sizes that divide by nothing convenient, or, large, some beside which what a dry run has
// otherwise is little: the 0.4 MiB that products in bf16 may take in LibTorch, unseen by it, and a
// gradient of activations, where autograd adds two in place, which it never does on meta.
nlohmann::json model_fields(const PlannedRun& layout) {
  if (layout.family == "t5") {
    return {{"vocab_size", 2000}, {"num_layers", 2}, {"num_decoder_layers", 2}};
  }
  if (layout.family == "bart") {
    return {{"vocab_size", 2000}, {"encoder_layers", 2}, {"decoder_layers", 2}};
  }
  if (layout.family == "clip") {  // images of 197 tokens or 10, texts of 77 or 23
    const int64_t more = layout.pp > 1 ? layout.pp : 0;
    const nlohmann::json images{
        {"image_size", layout.large ? 56 : 14},   {"patch_size", 4},
        {"hidden_size", layout.large ? 192 : 36}, {"intermediate_size", layout.large ? 384 : 52},
        {"num_hidden_layers", 2 + more},          {"num_attention_heads", 6}};
    const nlohmann::json texts{{"vocab_size", 260},
                               {"max_position_embeddings", layout.large ? 77 : 23},
                               {"eos_token_id", 256},
                               {"hidden_size", layout.large ? 128 : 24},
                               {"intermediate_size", layout.large ? 512 : 40},
                               {"num_hidden_layers", 2 + more},
                               {"num_attention_heads", layout.large ? 8 : 6}};
    return {{"vision_config", images}, {"text_config", texts}, {"projection_dim", 20}};
  }
  if (layout.family == "vit") {  // 197 tokens, or 13
    const int64_t side = layout.large ? 56 : 14;
    nlohmann::json fields{{"image_size", {side, layout.large ? 56 : 19}},
                          {"patch_size", 4},
                          {"hidden_size", layout.large ? 192 : 36},
                          {"intermediate_size", layout.large ? 384 : 52},
                          {"num_hidden_layers", layout.pp > 1  ? 2 * layout.pp + 1
                                                : layout.large ? 4
                                                               : 2},
                          {"num_attention_heads", 6}};
    if (!layout.reconstructs) fields["num_labels"] = 10;
    return fields;
  }
  if (layout.hidden > 0) {
    return {{"vocab_size", 512}, {"n_embd", layout.hidden}, {"n_layer", 2}, {"n_head", 4}};
  }
  // Of a pipeline with two stages a rank, one stage has a layer more.
  const int64_t layers = layout.pp > 1 ? 2 * layout.pp + 1 : layout.large ? 10 : 2;
  if (layout.family == "gpt2") {
    if (layout.large) {
      return {{"vocab_size", 500}, {"n_embd", 128}, {"n_layer", layers}, {"n_head", 4}};
    }
    return {
        {"vocab_size", 101}, {"n_embd", 72}, {"n_layer", layers}, {"n_head", 6}, {"n_inner", 100}};
  }
  if (layout.family == "mixtral") {
    return {{"vocab_size", 500},        {"hidden_size", 128},
            {"intermediate_size", 256}, {"num_hidden_layers", 4},
            {"num_attention_heads", 4}, {"num_key_value_heads", 4},
            {"num_local_experts", 6},   {"num_experts_per_tok", layout.experts_chosen}};
  }
  if (layout.large) {
    return {{"vocab_size", 500},
            {"hidden_size", 128},
            {"intermediate_size", 384},
            {"num_hidden_layers", layers}};
  }
  return {{"vocab_size", 101},
          {"hidden_size", 36},
          {"intermediate_size", 50},
          {"num_hidden_layers", layers},
          {"num_attention_heads", 6},
          {"num_key_value_heads", 2},
          {"head_dim", 6}};
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const PlannedRun& layout) {
  if (layout.pp > 1) out << fmt::format("pp {} {}, ", layout.pp, layout.pp_schedule);
  if (layout.ep * layout.expert_tp > 1) {
    out << fmt::format("ep {} expert_tp {} copies {}, ", layout.ep, layout.expert_tp,
                       layout.expert_copies);
  }
  return out << fmt::format(
             "{}{} dp {} sp {} {} tp {} {}{} zero {} ({}), recompute {}, {} micro-batches, dropout "
             "{}, {}, gradients {}, table rows {}{}",
             layout.reconstructs ? "masked " : "", layout.family, layout.dp, layout.sp,
             layout.sp_mode, layout.tp, layout.tp_mode, layout.tp_sequence ? " tokens shared" : "",
             layout.zero, layout.accumulate, layout.recompute, layout.num_micro_batches,
             layout.dropout, layout.compute, layout.gradients, layout.table_rows,
             layout.separate_documents ? ", documents apart" : "");
}

Job job_of(const PlannedRun& layout) {
  RunConfig config;
  config.model.preset = layout.family == "mixtral" ? "mixtral-8x7b"
                        : layout.family == "clip"  ? "clip-vit-base-patch32"
                                                   : layout.family + "-tiny";
  config.model.overrides = model_fields(layout);
  const bool reads_images = layout.family == "vit" || layout.family == "clip";
  config.model.pretrains = layout.reconstructs || layout.family == "clip";
  if (!reads_images) config.data.sequence_length = layout.large ? 128 : 22;
  config.data.separate_documents = layout.separate_documents;
  config.parallel.pp = layout.pp;
  if (layout.pp > 1) config.parallel.pp_schedule = layout.pp_schedule;
  config.parallel.dp = layout.dp;
  config.parallel.sp = layout.sp;
  config.parallel.tp = layout.tp;
  config.parallel.sp_mode = layout.sp_mode;
  config.parallel.tp_mode = layout.tp_mode;
  if (layout.tp_mode == "1d") config.parallel.tp_sequence = layout.tp_sequence;
  config.parallel.zero = layout.zero;
  config.parallel.ep = layout.ep;
  config.parallel.expert_tp = layout.expert_tp;
  config.parallel.expert_copies = layout.expert_copies;
  config.parallel.expert_copy_rows = 1;
  config.parallel.accumulate = layout.accumulate;
  config.memory.recompute = layout.recompute;
  config.memory.table_rows = layout.table_rows;
  config.precision.compute = layout.compute;
  config.precision.gradients = layout.gradients;
  if (layout.family == "gpt2") config.train.dropout = layout.dropout;
  // The last micro-batch is short.
  const int64_t micro_batch = layout.large ? 4 : 3;
  config.train.micro_batch = micro_batch;
  config.train.global_batch =
      layout.dp * (micro_batch * layout.num_micro_batches - (layout.num_micro_batches > 1 ? 1 : 0));
  Job job = resolve_job(config, {.ranks = layout.ranks(), .local_ranks = layout.ranks()});
  job.tiers = layout.tiers;
  if (!layout.expert_rows.empty()) {
    job.strategy.expert_rows.assign(job.model.facts.layers, layout.expert_rows);
  }
  return job;
}

// Random values of the fields that the job's dry runs have.
std::vector<data::Batch> real_batches(const Job& job) {
  std::vector<data::Batch> batches;
  for (int64_t done = 0; done < job.share; done += job.micro_batch) {
    const int64_t rows = std::min(job.micro_batch, job.share - done);
    data::Batch batch = batch_specification(job).make(rows, at::kCPU);
    std::iota(batch.sample_ids.begin(), batch.sample_ids.end(), done);
    for (auto& [name, field] : batch.fields) {
      if (name == data::kSourceDocuments || name == data::kTargets) {
        field.values.zero_();
      } else if (name == data::kMasks) {
        field.values.random_(2);
      } else if (field.values.is_floating_point()) {
        field.values.uniform_();
      } else {
        field.values.random_(job.model.facts.vocabulary);
      }
    }
    if (batch.has(data::kDocuments)) {
      batch.at(data::kDocuments) = data::number_documents(batch.at(data::kTokens) % 8, 7);
    }
    batches.push_back(std::move(batch));
  }
  return batches;
}

std::vector<plan::RecordedStep> real_steps(const Job& job) {
  memory::install_allocators();
  std::vector<plan::RecordedStep> steps(job.strategy.world_size());
  run_ranks(job.strategy.world_size(), [&](comm::World& world) {
    steps[world.rank()] =
        plan::record_step(job, world, at::kCPU, [&] { return real_batches(job); });
  });
  return steps;
}

}  // namespace colossal::test
