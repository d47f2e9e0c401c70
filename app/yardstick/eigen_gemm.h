// The yardstick of the tile kernel: Eigen's float matrix product on one core, at a size that fits
// the caches. Its speed depends on the flags of the program that includes it.
#pragma once

#include <Eigen/Core>
#include <string>

#include "app/yardstick/rate.h"

namespace moetwin {

struct EigenRate {
  double gflops = 0;
  std::string simd;  ///< instruction sets in use, as Eigen names them
};

inline EigenRate measure_eigen_gemm(double seconds) {
  constexpr Eigen::Index kSize = 512;
  constexpr double kOperations = 2.0 * kSize * kSize * kSize;
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>;
  Eigen::setNbThreads(1);
  Matrix a(kSize, kSize);
  Matrix b(kSize, kSize);
  Matrix c = Matrix::Zero(kSize, kSize);
  for (Eigen::Index j = 0; j < kSize; ++j)
    for (Eigen::Index i = 0; i < kSize; ++i) {
      a(i, j) = static_cast<float>((i * 7 + j * 3) % 17 - 8);
      b(i, j) = static_cast<float>((i * 5 + j * 11) % 13 - 6);
    }
  const auto product = [&] {
    c.noalias() = a * b;
    benchmark::DoNotOptimize(c.data());
    benchmark::ClobberMemory();
  };
  return {measure_rate(product, kOperations, seconds) * 1e-9, Eigen::SimdInstructionSetsInUse()};
}

}  // namespace moetwin
