// Tells which instructions this CPU has, as far as the choice of a kernel depends on them.
#pragma once

namespace colossal {

// In order of width. `baseline` is what the whole program is compiled for.
enum class InstructionSet { baseline, avx2, avx512 };

InstructionSet widest_instruction_set();

// "baseline", "avx2", "avx512"
const char* name_of(InstructionSet instruction_set);

// Products of bf16 numbers in hardware (AVX-512 BF16 or AMX): where they are missing, computing in
// bf16 is slower than in fp32.
bool has_bf16_instructions();
bool has_amx_bf16();
bool has_avx512_bf16();  // and avx512

}  // namespace colossal
