// Mutants that change nothing, each with the reason; the table of docs/faults.md.
#pragma once

#include <span>

namespace moetwin {

struct EquivalentMutant {
  const char* id;
  const char* because;
};

std::span<const EquivalentMutant> equivalent_mutants();

}  // namespace moetwin
