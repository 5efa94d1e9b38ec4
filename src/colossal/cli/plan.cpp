#include "colossal/plan/plan.h"

#include <filesystem>
#include <memory>

#include "colossal/base/log.h"
#include "colossal/booster/training_data.h"
#include "colossal/cli/command.h"
#include "colossal/cli/run_arguments.h"
#include "colossal/io/file.h"
#include "colossal/plan/fit_memory.h"
#include "colossal/plan/plan_page.h"
#include "colossal/plan/plan_text.h"

namespace colossal::cli {
namespace {

struct PlanArguments {
  RunArguments run;
  bool json = false;
  std::string page;  // a file; empty: none
};

// Checks the vocabulary as `train` does, if the tokenizer is on this machine.
void check_tokenizer(const Job& job) {
  if (job.tokenizer != "bytes" && !std::filesystem::exists(job.tokenizer)) return;
  check_vocabulary(job, *text::make_tokenizer(job.tokenizer));
}

void print_plan(const PlanArguments& arguments) {
  const int ranks = arguments.run.num_ranks();
  // The job may run on other machines, so only budgets in the configuration limit it.
  Job job = resolve(read_config(arguments.run), ranks, ranks, HostMemory::not_a_limit);
  for (const std::string& warning : job.warnings) log::warn("{}", warning);
  check_tokenizer(job);
  job = plan::fit_memory(job);
  const plan::Plan made = plan::make_plan(job);
  const std::vector<plan::RecomputeCost> costs =
      plan::compare_recompute(job, made.rank_with_largest_peak());
  const std::string text = plan::describe(job, made, costs);
  if (!arguments.page.empty()) {
    io::write_file_atomically(arguments.page, plan::page_of(job, text));
  }
  fmt::print("{}", arguments.json ? plan::to_json(job, made, costs).dump(2) + "\n" : text);
}

}  // namespace

void add_plan(CLI::App& app, int&) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* command = app.add_subcommand(
      "plan",
      "Show what a run will cost before it starts: how much each rank sends, stores and computes "
      "per step, and when the ranks of a pipeline wait. This is a dry run: it reads no data, "
      "allocates no tensors and sends nothing");
  add_run_arguments(*command, arguments->run, "Plan for this many ranks in total [1]");
  command->add_flag("--json", arguments->json,
                    "Print one JSON object, with the key names of metrics.jsonl");
  command
      ->add_option("--page", arguments->page,
                   "Also write the plan and the timeline of the pipeline schedule to this file, as "
                   "an HTML page")
      ->type_name("FILE");
  command->callback([arguments, command] {
    arguments->run.flags = command->remaining();
    print_plan(*arguments);
  });
}

}  // namespace colossal::cli
