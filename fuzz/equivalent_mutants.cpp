#include "fuzz/equivalent_mutants.h"

namespace moetwin {
namespace {

constexpr EquivalentMutant kEquivalent[] = {
    {"drop RankTogether",
     "the grid barrier in front of it, or the one behind it, already gathers the dispatch warps of "
     "SM 0"},
};

}  // namespace

std::span<const EquivalentMutant> equivalent_mutants() { return kEquivalent; }

}  // namespace moetwin
