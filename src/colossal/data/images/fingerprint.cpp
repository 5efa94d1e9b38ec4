#include "colossal/data/images/fingerprint.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace colossal::data {

Fingerprint::Fingerprint() : state_(XXH3_createState(), &XXH3_freeState) {
  XXH3_64bits_reset(state_.get());
}

void Fingerprint::add(std::string_view text) {
  add(std::ssize(text));
  XXH3_64bits_update(state_.get(), text.data(), text.size());
}

void Fingerprint::add(int64_t number) {
  XXH3_64bits_update(state_.get(), &number, sizeof number);
}

std::string Fingerprint::digits() const {
  return fmt::format("{:016x}", XXH3_64bits_digest(state_.get()));
}

}  // namespace colossal::data
