#include "colossal/plan/plan.h"

#include <memory>

#include "colossal/cli/command.h"
#include "colossal/cli/run_arguments.h"
#include "colossal/plan/plan_text.h"

namespace colossal::cli {
namespace {

struct PlanArguments {
  RunArguments run;
  bool json = false;
};

void print_plan(const PlanArguments& arguments) {
  const int ranks = arguments.run.num_ranks();
  const Job job = resolve(read_config(arguments.run), ranks, ranks);
  const plan::Plan made = plan::make_plan(job);
  if (arguments.json) {
    fmt::print("{}\n", plan::to_json(job, made).dump(2));
  } else {
    fmt::print("{}", plan::describe(job, made));
  }
}

}  // namespace

void add_plan(CLI::App& app, int&) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* command = app.add_subcommand(
      "plan",
      "What a run will cost: bytes sent, memory, FLOPs and partners of a rank in a step. The "
      "program runs dry: no corpus is opened, nothing is allocated or sent");
  add_run_arguments(*command, arguments->run, "plan for this many ranks");
  command->add_flag("--json", arguments->json, "print JSON, with the keys of metrics.jsonl");
  command->callback([arguments, command] {
    arguments->run.flags = command->remaining();
    print_plan(*arguments);
  });
}

}  // namespace colossal::cli
