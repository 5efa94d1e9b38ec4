// Detects which instruction sets this CPU has, for the choice of a kernel.
#pragma once

namespace colossal {

// In order of vector width. `baseline` is the instruction set that the whole program is compiled
// for.
enum class InstructionSet { baseline, avx2, avx512 };

InstructionSet widest_instruction_set();

// "baseline", "avx2", "avx512"
const char* name_of(InstructionSet instruction_set);

// Whether this CPU multiplies bf16 numbers in hardware (AVX-512 BF16 or AMX). Without such
// instructions, bf16 is slower than fp32.
bool has_bf16_instructions();
bool has_amx_bf16();
bool has_avx512_bf16();  // AVX-512 BF16, and the other instructions of InstructionSet::avx512

}  // namespace colossal
