// Runs a test body once for each instruction set that this machine has and the libraries were built
// for, so that no path is left to the machine that happens to run the tests.
#pragma once

#define HWY_WANT_AVX3_DL
#include <doctest/doctest.h>
#include <hwy/highway.h>

#include <cstdint>
#include <string>

namespace moetwin::test {

/// Calls body() under every target, and restores the choice of the best one.
template <class Body>
void for_each_simd_target(const Body& body) {
  const int64_t available = hwy::SupportedTargets() & HWY_TARGETS;
  for (int64_t rest = available; rest != 0; rest &= rest - 1) {
    const int64_t target = rest & -rest;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    const std::string name = hwy::TargetName(target);
    CAPTURE(name);
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace moetwin::test
