// Attention of every kind, in few enough combinations.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "tests/ops/attention_reference.h"
#include "tests/support/pairwise.h"

namespace colossal::ops {

struct AttentionKind {
  bool causal;
  int64_t window;
  bool prefix, capped, alibi, sinks, documents, dropout;
  int64_t kv_heads;

  std::string name() const {
    return fmt::format(
        "causal {}, window {}, prefix {}, capped {}, alibi {}, sinks {}, documents {}, dropout {}, "
        "{} heads of keys",
        causal, window, prefix, capped, alibi, sinks, documents, dropout, kv_heads);
  }

  // Of a batch of three with three query heads. Slopes and prefixes outlive all tests.
  AttentionOptions options(const Shape& shape) const {
    static const std::vector<double> kSlopes = alibi_slopes(3);
    static const std::vector<int64_t> kPrefixes = {40, 0, 97};
    AttentionOptions options{.causal = causal, .window = window, .scale = 0.3};
    if (dropout) options = with_dropout(options);
    if (prefix) options.prefix_lengths = kPrefixes;
    if (capped) options.soft_cap = 1.5;
    if (alibi) options.alibi_slopes = kSlopes;
    if (documents) options.documents = make_documents(shape);
    return options;
  }

  Inputs inputs(const Shape& shape) const {
    Inputs inputs = make_inputs(shape);
    if (sinks) inputs.sinks = normal({shape.heads}, at::kBFloat16, 9).to(at::kDouble);
    return inputs;
  }
};

// Combinations in which each two settings meet.
inline const std::vector<AttentionKind>& attention_kinds() {
  static const std::vector<AttentionKind> kKinds = [] {
    std::vector<AttentionKind> all;
    for (int64_t bits = 0; bits < 256; ++bits) {
      const auto bit = [&](int64_t place) { return (bits >> place & 1) == 1; };
      for (const int64_t window : {0, 2, 45, 100}) {
        all.push_back({bit(0), window, bit(1), bit(2), bit(3), bit(4), bit(5), bit(6),
                       bit(7) ? int64_t{3} : int64_t{1}});
      }
    }
    return test::pairwise(all, [](const AttentionKind& k) -> std::vector<double> {
      return {double(k.causal),    double(k.window),  double(k.prefix),
              double(k.capped),    double(k.alibi),   double(k.sinks),
              double(k.documents), double(k.dropout), double(k.kv_heads)};
    });
  }();
  return kKinds;
}

}  // namespace colossal::ops
