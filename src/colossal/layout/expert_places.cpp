#include "colossal/layout/expert_places.h"

#include <algorithm>
#include <numeric>

#include "colossal/base/error.h"

namespace colossal {

std::vector<int64_t> place_by_load(const std::vector<int64_t>& rows, const Partition& experts) {
  COLOSSAL_CHECK(std::ssize(rows) == experts.total(), "rows of {} experts, of {}", rows.size(),
                 experts.total());
  std::vector<int64_t> busiest_first(rows.size());
  std::iota(busiest_first.begin(), busiest_first.end(), int64_t{0});
  std::ranges::stable_sort(busiest_first, std::greater(),
                           [&](int64_t expert) { return rows[expert]; });
  std::vector<std::vector<int64_t>> of_rank(experts.parts());
  std::vector<int64_t> loads(experts.parts(), 0);
  // Greedy: the busiest expert that is left goes to the rank with the fewest rows that has a free
  // place.
  for (const int64_t expert : busiest_first) {
    int chosen = -1;
    for (int rank = 0; rank < experts.parts(); ++rank) {
      if (std::ssize(of_rank[rank]) == experts.range(rank).size()) continue;
      if (chosen < 0 || loads[rank] < loads[chosen]) chosen = rank;
    }
    of_rank[chosen].push_back(expert);
    loads[chosen] += rows[expert];
  }
  std::vector<int64_t> places;
  for (std::vector<int64_t>& here : of_rank) {
    std::ranges::sort(here);
    places.insert(places.end(), here.begin(), here.end());
  }
  return places;
}

}  // namespace colossal
