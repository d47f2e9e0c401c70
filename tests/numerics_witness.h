// Inputs that tell a changed rule from the contract. They are searched for, because on random
// inputs most changes of one rounding show in no code and no y: a free number of the layer (the
// routing weight, a weight scale) is moved until a value lies on or beside a rounding tie.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "model/problem.h"
#include "tests/numerics_rules.h"

namespace moetwin::test {

/// A group of 128 activations (S0) or weights (S1) whose codes or scale the change alters.
std::optional<std::vector<float>> find_quantiser_witness(Change change);

struct StepWitness {
  std::array<uint8_t, 32> a;
  std::array<uint8_t, 32> b;
  float c;
};
/// A tensor core step whose result the change alters; changes of H2a.
std::optional<StepWitness> find_step_witness(Change change);

/// An argument whose result the change alters; changes of H2b, H2c and H2d.
std::optional<float> find_argument_witness(Change change);

/// A layer of which the change alters a stage. One token, hidden and intermediate 256, one rank.
std::optional<Problem> find_layer_witness(Change change);

}  // namespace moetwin::test
