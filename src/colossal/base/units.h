// Formats and parses byte sizes, durations, counts and rates as text for people.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace colossal {

// A number of bytes that a user gives, such as a memory budget. A type of its own, so that a
// configuration key of this type accepts "12GiB" (config_value.h).
struct ByteSize {
  int64_t bytes = 0;
  auto operator<=>(const ByteSize&) const = default;
};

// Return text such as in the comments. format_bytes() and format_duration() round.
std::string format_bytes(int64_t bytes);                            // "17 B", "612 MiB", "1.50 GiB"
std::string format_count(int64_t count);                            // "1,234,567"
std::string format_duration(std::chrono::duration<double> length);  // "250ms", "4.2s", "1m23s"
// Returns a rate in `unit` per second: as a whole number from 100 on, "9,340 tokens/s"; below 100
// with one or two decimals, "49.6 steps/s", "4.96 steps/s".
std::string format_rate(double per_second, std::string_view unit);

// Return text without rounding: parse_duration() and parse_bytes() convert it back to the value.
std::string exact_duration(std::chrono::milliseconds length);  // "300s", "250ms"
std::string exact_bytes(ByteSize size);                        // "12GiB", "1000B"

// Parses "300s", "5m", "250ms", "1h30m", "1.5s"; rounds to milliseconds. Units: d (days), h, m
// (minutes), s, ms; a number without a unit is in seconds. Returns nullopt if the text is not a
// duration, is negative, or exceeds 10,000 years.
std::optional<std::chrono::milliseconds> parse_duration(std::string_view text);

// Parses "12GiB", "64 KiB", "10GB", "1.5GiB"; rounds to bytes. KiB, MiB, .. are powers of 1024; KB,
// MB, .. are powers of 1000. Units may be in upper or lower case; a number without a unit is in
// bytes. Returns nullopt if the text is not a size, is negative, or does not fit in 63 bits.
std::optional<ByteSize> parse_bytes(std::string_view text);

}  // namespace colossal
