// Hashes a sequence of texts and numbers, for ImageSource::fingerprint().
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct XXH3_state_s;

namespace colossal::data {

class Fingerprint {
 public:
  Fingerprint();

  // Texts are hashed with their sizes, so that borders between them count.
  void add(std::string_view text);
  void add(int64_t number);

  // Returns the hash of all that was added, as 16 hexadecimal digits.
  std::string digits() const;

 private:
  std::shared_ptr<XXH3_state_s> state_;
};

}  // namespace colossal::data
