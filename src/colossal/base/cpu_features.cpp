#include "colossal/base/cpu_features.h"

namespace colossal {

#if defined(__x86_64__)

// __builtin_cpu_supports() also checks that the operating system saves the vector registers.
InstructionSet widest_instruction_set() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    return InstructionSet::avx512;
  }
  return __builtin_cpu_supports("avx2") ? InstructionSet::avx2 : InstructionSet::baseline;
}

bool has_amx_bf16() {
  return __builtin_cpu_supports("amx-bf16");
}

bool has_amx_int8() {
  return __builtin_cpu_supports("amx-int8");
}

bool has_avx512_bf16() {
  return widest_instruction_set() == InstructionSet::avx512 && __builtin_cpu_supports("avx512bf16");
}

bool has_bf16_instructions() {
  return __builtin_cpu_supports("avx512bf16") || has_amx_bf16();
}

#else

InstructionSet widest_instruction_set() {
  return InstructionSet::baseline;
}
bool has_amx_bf16() {
  return false;
}
bool has_amx_int8() {
  return false;
}
bool has_avx512_bf16() {
  return false;
}
bool has_bf16_instructions() {
  return false;
}

#endif

const char* name_of(InstructionSet instruction_set) {
  switch (instruction_set) {
    case InstructionSet::avx512:
      return "avx512";
    case InstructionSet::avx2:
      return "avx2";
    case InstructionSet::baseline:
      break;
  }
  return "baseline";
}

}  // namespace colossal
