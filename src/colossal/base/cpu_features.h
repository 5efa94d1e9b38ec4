// Detects which vector instructions this CPU has, to choose the kernels in ops/ and the compute
// dtype.
#pragma once

namespace colossal {

// Instruction sets for which kernels are compiled, in order of vector width.
enum class InstructionSet {
  baseline,  // the instruction set for which the whole program is compiled
  avx2,      // AVX2
  avx512     // AVX-512 F, BW, DQ and VL
};

// Returns the widest instruction set that this CPU and operating system support.
InstructionSet widest_instruction_set();

// Returns "baseline", "avx2" or "avx512".
const char* name_of(InstructionSet instruction_set);

// Returns whether this CPU multiplies bf16 numbers in hardware, by AVX-512 BF16 or AMX. Without
// such instructions, computing in bf16 is slower than in fp32.
bool has_bf16_instructions();
bool has_amx_bf16();  // whether this CPU has AMX with bf16 tiles
bool has_amx_int8();  // whether this CPU has AMX with int8 tiles
// Returns whether this CPU has AVX-512 BF16, and widest_instruction_set() is avx512.
bool has_avx512_bf16();

}  // namespace colossal
