#include "colossal/parallel/pipeline/schedule_file.h"

#include <fmt/format.h>

#include "colossal/base/error.h"
#include "colossal/io/file.h"
#include "colossal/parallel/pipeline/schedule_text.h"
#include "colossal/parallel/pipeline/validator.h"

namespace colossal::parallel::pipeline {
namespace {

void check_fits(const std::string& path, const Schedule& schedule, const PipelineShape& shape) {
  const auto compare = [&](std::string_view what, int found, int asked) {
    if (found == asked) return;
    throw ConfigError(fmt::format(
        "parallel.pp_schedule = \"{}\" is a schedule of {} {}, and this run has {}; change the run "
        "or the file, or use a built-in schedule",
        path, found, what, asked));
  };
  compare("ranks (parallel.pp)", schedule.num_ranks(), shape.num_ranks);
  compare("stages (parallel.pp x parallel.pp_chunks)", schedule.num_stages(),
          shape.num_ranks * shape.chunks);
  compare("micro-batches", schedule.num_micro_batches, shape.num_micro_batches);
}

}  // namespace

Schedule chosen_schedule(const std::string& pp_schedule, const PipelineShape& shape,
                         const Costs& costs) {
  // A value that is neither a name nor a file is more often a misspelt name than a wrong path:
  // make_schedule() reports it as a name.
  const bool is_file = !find_schedule(pp_schedule) && std::filesystem::is_regular_file(pp_schedule);
  if (!is_file) return make_schedule(pp_schedule, shape, costs);
  Schedule schedule = parse_schedule(io::read_file(pp_schedule), pp_schedule);
  check_fits(pp_schedule, schedule, shape);
  check_schedule(schedule);
  return schedule;
}

void write_schedule(const std::filesystem::path& path, const Schedule& schedule) {
  io::write_file_atomically(path, schedule_text(schedule));
}

}  // namespace colossal::parallel::pipeline
