#include "tests/comm/settings.h"

namespace colossal::comm {

std::vector<Setting> all_settings() {
  return {{"local", 1},
          {"local", 2},
          {"local", 3},
          {"local", 4},
          {"local", 8},
          {"messages", 2},
          {"messages", 3},
          {"messages", 4},
          {"staged", 1},
          {"staged", 3},
          {"gloo", 2},
          {"gloo", 3},
          {"shm", 2},
          {"shm", 3},
          {"shm", 4},
          {"shm", 8},
          {"messages", 4, "aaab"},
          {"messages", 5, "abcac"},
          {"shm", 4, "abab"}};
}

}  // namespace colossal::comm
