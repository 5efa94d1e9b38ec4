// Quantities as people write and read them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace colossal {

// A number of bytes that a user gives, such as a memory budget: its own type, so that a
// configuration key of it reads "12GiB".
struct ByteSize {
  int64_t bytes = 0;
  auto operator<=>(const ByteSize&) const = default;
};

// Rounds to about three digits, for people to read.
std::string format_bytes(int64_t bytes);                            // "17 B", "612 MiB", "1.50 GiB"
std::string format_count(int64_t count);                            // "1,234,567"
std::string format_duration(std::chrono::duration<double> length);  // "250ms", "4.2s", "1m23s"
// "9,340 tokens/s"; three digits below 100: "4.96 steps/s".
std::string format_rate(double per_second, std::string_view unit);

// Exact: what parse_duration and parse_bytes read back as the same value.
std::string exact_duration(std::chrono::milliseconds length);  // "300s", "250ms"
std::string exact_bytes(ByteSize size);                        // "12GiB", "1000B"

// "300s", "5m", "250ms", "1h30m"; units d h m s ms; a bare number is seconds. Nothing for what is
// no duration, is negative, or is beyond 10,000 years.
std::optional<std::chrono::milliseconds> parse_duration(std::string_view text);

// "12GiB", "64 KiB", "10GB" (powers of 1000), any case; a bare number is bytes. Nothing for what is
// no size, is negative, or does not fit 63 bits.
std::optional<ByteSize> parse_bytes(std::string_view text);

}  // namespace colossal
