// A program of its own, because flags for one processor on a file that includes Eigen would break
// the one-definition rule in moetwin. Prints one line: GFLOP/s, then the instruction sets.
#include <cstdio>

#include "app/yardstick/eigen_gemm.h"

int main() {
  constexpr double kSeconds = 0.1;
  const moetwin::EigenRate rate = moetwin::measure_eigen_gemm(kSeconds);
  std::printf("%.6f %s\n", rate.gflops, rate.simd.c_str());
  return 0;
}
