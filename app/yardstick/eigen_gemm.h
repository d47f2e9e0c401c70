// The yardstick of the tile kernel: Eigen's float matrix product on one core, on
// operands of a few MiB. Its speed depends on the flags of the program that includes it.
#pragma once

#include <Eigen/Core>

namespace moetwin {

class EigenGemm {
 public:
  static constexpr Eigen::Index kSize = 1024;
  static constexpr double kFlops = 2.0 * kSize * kSize * kSize;

  EigenGemm() : a_(kSize, kSize), b_(kSize, kSize), c_(Matrix::Zero(kSize, kSize)) {
    Eigen::setNbThreads(1);
    for (Eigen::Index j = 0; j < kSize; ++j)
      for (Eigen::Index i = 0; i < kSize; ++i) {
        a_(i, j) = static_cast<float>((i * 7 + j * 3) % 17 - 8);
        b_(i, j) = static_cast<float>((i * 5 + j * 11) % 13 - 6);
      }
  }

  /// One product; the result is given so that nobody leaves it out.
  const float* multiply() {
    c_.noalias() = a_ * b_;
    return c_.data();
  }

  /// Instruction sets in use, as Eigen names them.
  static const char* simd() { return Eigen::SimdInstructionSetsInUse(); }

 private:
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>;
  Matrix a_;
  Matrix b_;
  Matrix c_;
};

}  // namespace moetwin
