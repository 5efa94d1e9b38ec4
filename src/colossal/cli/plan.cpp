#include "colossal/plan/plan.h"

#include <filesystem>
#include <memory>

#include "colossal/base/log.h"
#include "colossal/booster/training_data.h"
#include "colossal/cli/command.h"
#include "colossal/cli/run_arguments.h"
#include "colossal/plan/fit_memory.h"
#include "colossal/plan/plan_page.h"
#include "colossal/plan/plan_text.h"
#include "colossal/report/output_file.h"

namespace colossal::cli {
namespace {

struct PlanArguments {
  RunArguments run;
  bool json = false;
  std::string page;  // a file; empty: none
};

// As train does, where the tokenizer is here already.
void check_tokenizer(const Job& job) {
  if (job.tokenizer != "bytes" && !std::filesystem::exists(job.tokenizer)) return;
  check_vocabulary(job, *text::make_tokenizer(job.tokenizer));
}

void print_plan(const PlanArguments& arguments) {
  const int ranks = arguments.run.num_ranks();
  Job job = resolve(read_config(arguments.run), ranks, ranks);
  for (const std::string& warning : job.warnings) log::warn("{}", warning);
  check_tokenizer(job);
  // The memory of this host, which may be another than where the job will run, binds only what is
  // to be found for it.
  if (!job.recompute_open && job.tiers_open.empty()) {
    job.memory_budget = 0;
    if (!job.config.memory.device_budget) job.device_budget = 0;
  }
  job = plan::fit_memory(job);
  const plan::Plan made = plan::make_plan(job);
  const std::vector<plan::RecomputeCost> costs = plan::compare_recompute(job, made.fullest_rank());
  const std::string text = plan::describe(job, made, costs);
  if (!arguments.page.empty()) {
    report::write_file_atomically(arguments.page, plan::page_of(job, text));
  }
  fmt::print("{}", arguments.json ? plan::to_json(job, made, costs).dump(2) + "\n" : text);
}

}  // namespace

void add_plan(CLI::App& app, int&) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* command = app.add_subcommand(
      "plan",
      "What a run will cost: bytes sent, memory, FLOPs and partners of a rank in a step, and the "
      "timeline of its pipeline's schedule. The program runs dry: no corpus is opened, nothing is "
      "allocated or sent");
  add_run_arguments(*command, arguments->run, "plan for this many ranks");
  command->add_flag("--json", arguments->json,
                    "print JSON, with the keys of metrics.jsonl for what it has too");
  command
      ->add_option("--page", arguments->page,
                   "also write a page to this file (plan.html): the plan, and the timeline of the "
                   "pipeline's schedule with its bubble")
      ->type_name("FILE");
  command->callback([arguments, command] {
    arguments->run.flags = command->remaining();
    print_plan(*arguments);
  });
}

}  // namespace colossal::cli
