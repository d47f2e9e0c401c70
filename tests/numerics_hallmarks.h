// What each variant of the numerics bench is known by: an effect that it has and the contract has
// not, on inputs made for it. The list knows nothing of the registry's order.
#pragma once

#include <vector>

#include "model/numerics/variant.h"

namespace moetwin::test {

struct Hallmark {
  const char* variant;
  const char* what;
  bool (*holds)(const numerics::Variant& variant);
};

/// One a variant, the contract left out.
const std::vector<Hallmark>& hallmarks();

}  // namespace moetwin::test
